"""What llama-server's own log says about the settings it runs with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from spectune.domain.knobs import KnobValue, Settings

MAX_WARNINGS = 40
_MIB = 1 << 20

_LINE = re.compile(r"\d+\.\d\d\.\d{3}\.\d{3} ([DIWE]) (.*)")
_BARE_WARNING = re.compile(r"warn(?:ing)?: ", re.IGNORECASE)
_REQUEST = re.compile(r"id +\d+ \| task -?\d+ \| ")
_HARMLESS = re.compile(
    r"security: no API key is set"
    r"|need to evaluate at least 1 token for each active slot"
    r"|n_past was set to"
)
_TELLING = re.compile(r"speculative decoding will use checkpoints|auto-detected speculative type")
"""Lines below warning level that change what speculation does."""

_SPEC = r"(?:spec +\S+|common_speculative\w*): "
_DRAFT_LOADS = re.compile(r"common_speculative_init_result: (?:loading draft model|creating MTP draft context)")
_ADDED = re.compile(_SPEC + r"adding speculative implementation '([^']+)'")
_SIZES = re.compile(_SPEC + r"- (\w+=.*)")
_LIVE = re.compile(r"srv +load_model: speculative decoding context initialized")
_NOT_LIVE = re.compile(
    r"srv +load_model: failed to initialize speculative decoding context"
    rf"|{_SPEC}no implementations specified for speculative"
)
_SIMULATED = re.compile(_SPEC + r"(synthetic speculative acceptance is enabled.*)")
_SIMULATED_DEPTH = re.compile(_SPEC + r"synthetic acceptance: n_max = (\d{1,9}),")
_SLOTS = re.compile(
    r"srv +load_model: initializing, n_slots = (\d{1,9}), n_ctx_slot = (\d{1,12}), kv_unified = '(true|false)'"
)
_THREADS = re.compile(r"cmn +\S+: system_info: n_threads = (\d{1,6}) \(n_threads_batch = (\d{1,6})\)")
_CONTEXT = re.compile(r"llama_context: (n_ctx|n_batch|n_ubatch|flash_attn) += (\w{1,12})$")
_KV = re.compile(
    r"llama_kv_cache: size = +(\d{1,12}\.\d+) MiB \( *(\d{1,12}) cells, +\d+ layers, +\d+/(\d{1,9}) seqs\), "
    r"K \((\w+)\): .* V \((\w+)\):"
)
_PROMPT_CACHE = re.compile(
    r"srv +load_model: prompt cache is (?:enabled, size limit: (?:(\d{1,12}) MiB|no limit)|(disabled))"
)
_MODEL = re.compile(r"srv +load_model: loading model '(.*)'$")

_CONTEXT_KNOBS = {"n_ctx": "ctx-size", "n_batch": "batch-size", "n_ubatch": "ubatch-size"}
_FLASH = {"auto": "auto", "enabled": "on", "disabled": "off"}
_SIZE_KNOBS: Mapping[str, Mapping[str, str]] = {
    "draft-": {
        "n_max": "spec-draft-n-max",
        "n_min": "spec-draft-n-min",
        "p_min": "spec-draft-p-min",
        "cache_k": "spec-draft-type-k",
        "cache_v": "spec-draft-type-v",
    },
    "ngram-simple": {"size_n": "spec-ngram-simple-size-n", "size_m": "spec-ngram-simple-size-m"},
    "ngram-mod": {
        "n_match": "spec-ngram-mod-n-match",
        "n_min": "spec-ngram-mod-n-min",
        "n_max": "spec-ngram-mod-n-max",
    },
}
"""llama-server's words for the sizes of an implementation -> knob, by the beginning of the implementation's name."""


@dataclass(slots=True)
class LogFacts:
    """What a log tells. Everything is absent until it is read.

    Attributes:
        settings: by canonical knob name, of the target model where draft and target have the same.
        types: implementations added, in llama-server's words.
        live: whether the log proves that speculation runs (True) or does not (False).
        simulated_depth: n_max of simulated acceptance.
        kv_tokens: cells of the target's cache, over all slots.
        target_kv_bytes, draft_kv_bytes: memory of the caches.
        slots, slot_context: requests at a time, and the context of each.
        draft_line: the line that announces the loading of a draft model.
    """

    settings: dict[str, KnobValue] = field(default_factory=dict)
    types: list[str] = field(default_factory=list)
    live: bool | None = None
    simulated: str | None = None
    simulated_depth: int | None = None
    kv_tokens: int | None = None
    target_kv_bytes: int | None = None
    draft_kv_bytes: int = 0
    slots: int | None = None
    slot_context: int | None = None
    model: str | None = None
    draft_line: str | None = None
    warnings: tuple[str, ...] = ()


def read_log(text: str) -> LogFacts:
    """Reads a log from its first line. Never raises; text that is no llama-server log tells nothing."""
    facts = LogFacts()
    warnings: dict[str, None] = {}
    for level, message in _messages(text):
        if level == "I" and message.startswith("slot "):
            # The bulk of a long log, about single requests; it tells no setting.
            continue
        if _warns(level, message) and len(warnings) < MAX_WARNINGS:
            warnings[_REQUEST.sub("", message)] = None
        for pattern, take in _READERS:
            if match := pattern.match(message):
                take(facts, match)
                break
    facts.warnings = tuple(warnings)
    return facts


def _messages(text: str) -> Iterator[tuple[str, str]]:
    """(level, message without time stamp). Unmarked lines continue a message (the chat template) and are passed over,
    except the warnings of the argument parser, which come before the log."""
    for line in text.split("\n"):
        line = line.rstrip("\r")
        if match := _LINE.fullmatch(line):
            yield match[1], match[2]
        elif _BARE_WARNING.match(line):
            yield "W", line


def _warns(level: str, message: str) -> bool:
    if level in "WE":
        return not _HARMLESS.search(message)
    return bool(_TELLING.search(message))


def _take_draft_loads(facts: LogFacts, match: re.Match[str]) -> None:
    facts.draft_line = match.string


def _take_added(facts: LogFacts, match: re.Match[str]) -> None:
    facts.types.append(match[1])


def _take_sizes(facts: LogFacts, match: re.Match[str]) -> None:
    """Sizes belong to the implementation added last."""
    if not facts.types:
        return
    knobs = next((knobs for begin, knobs in _SIZE_KNOBS.items() if facts.types[-1].startswith(begin)), {})
    for pair in match[1].split(", "):
        word, _, value = pair.partition("=")
        if (knob := knobs.get(word)) and value:
            facts.settings.setdefault(knob, _value(value))


def _value(text: str) -> KnobValue:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _take_slots(facts: LogFacts, match: re.Match[str]) -> None:
    facts.slots, facts.slot_context = int(match[1]), int(match[2])
    facts.settings["parallel"] = facts.slots
    facts.settings["kv-unified"] = match[3] == "true"


def _take_threads(facts: LogFacts, match: re.Match[str]) -> None:
    facts.settings["threads"], facts.settings["threads-batch"] = int(match[1]), int(match[2])


def _take_context(facts: LogFacts, match: re.Match[str]) -> None:
    """The first context is the target's; a draft's comes later."""
    word, value = match[1], match[2]
    if word == "flash_attn":
        if value in _FLASH:
            facts.settings.setdefault("flash-attn", _FLASH[value])
    elif value.isascii() and value.isdigit():
        facts.settings.setdefault(_CONTEXT_KNOBS[word], int(value))


def _take_kv(facts: LogFacts, match: re.Match[str]) -> None:
    size = round(float(match[1]) * _MIB)
    if facts.draft_line:
        facts.draft_kv_bytes += size
        return
    facts.target_kv_bytes = (facts.target_kv_bytes or 0) + size
    if facts.kv_tokens is None:
        facts.kv_tokens = int(match[2]) * int(match[3])
        facts.settings["cache-type-k"], facts.settings["cache-type-v"] = match[4], match[5]


def _take_prompt_cache(facts: LogFacts, match: re.Match[str]) -> None:
    facts.settings["cache-ram"] = 0 if match[2] else int(match[1]) if match[1] else -1


def _take_model(facts: LogFacts, match: re.Match[str]) -> None:
    facts.model = facts.model or match[1]


def _take_live(facts: LogFacts, _: re.Match[str]) -> None:
    facts.live = True


def _take_not_live(facts: LogFacts, _: re.Match[str]) -> None:
    facts.live = False


def _take_simulated(facts: LogFacts, match: re.Match[str]) -> None:
    facts.simulated = match[1]


def _take_simulated_depth(facts: LogFacts, match: re.Match[str]) -> None:
    facts.simulated_depth = int(match[1])


_READERS: tuple[tuple[re.Pattern[str], Callable[[LogFacts, re.Match[str]], None]], ...] = (
    (_DRAFT_LOADS, _take_draft_loads),
    (_ADDED, _take_added),
    (_SIZES, _take_sizes),
    (_SLOTS, _take_slots),
    (_THREADS, _take_threads),
    (_CONTEXT, _take_context),
    (_KV, _take_kv),
    (_PROMPT_CACHE, _take_prompt_cache),
    (_MODEL, _take_model),
    (_LIVE, _take_live),
    (_NOT_LIVE, _take_not_live),
    (_SIMULATED, _take_simulated),
    (_SIMULATED_DEPTH, _take_simulated_depth),
)


def settings_of(facts: LogFacts) -> Settings:
    """Effective settings, without those of an implementation that was added and then failed."""
    if facts.live is False:
        return {name: value for name, value in facts.settings.items() if not name.startswith("spec-")}
    return dict(facts.settings)
