"""What SGLang's own log says about the settings and the room it runs with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from spectune.domain.deployment import Adjustment
from spectune.engines.common.adjustments import adjustment
from spectune.engines.common.reprs import fields
from spectune.engines.sglang.adjustments import SENTENCES, questions
from spectune.engines.sglang.kernels import kernel_note

MAX_WARNINGS = 40
_GIB = 1 << 30
"""SGLang writes GB and means 2**30 bytes."""

_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?((?: (?:DP|PP|TP|EP|ATTN_\w+)\d{1,5})*)\] ")
_COLOUR = re.compile(r"\x1b?\[(?:\d{1,2}(?:;\d{1,2})*)?m")
_BREAK = re.compile(r"[\r\n]")
_BUSY = ("Prefill batch", "Decode batch", "INFO: ")
"""The bulk of a long log: lines for some steps, whose figures are averages since the start, and for HTTP requests."""

_BARE_DEPRECATION = re.compile(r"'--[\w-]{1,80}' is deprecated")
_SIZE = r"(\d{1,9}(?:\.\d{1,6})?) ?GB"
_ARGS = re.compile(r"server_args=(?=ServerArgs\(|\{)")
_WEIGHTS = re.compile(rf"Load weight end\..*mem usage={_SIZE}")
_KV = re.compile(r"KV Cache is allocated\. .*?#tokens: (\d{1,12}), (.*)")
_KV_SIZE = re.compile(rf"\b(?:K|V|KV) size: {_SIZE}")
_STATE = re.compile(r"Mamba Cache is allocated\. max_mamba_cache_size: \d{1,9}, (.*)")
_STATE_SIZE = re.compile(rf"\b\w+ size: {_SIZE}")
_GRAPH = re.compile(r"Capture ((?:target|draft) [\w ]{1,30}?) CUDA graph (begin|end)\.(.*)", re.IGNORECASE)
_GRAPH_SIZE = re.compile(rf"mem usage={_SIZE}")
_BATCHES = re.compile(r"\bbs=\[([\d, ]{1,4000})\]")
_ROOM = re.compile(
    r"max_total_num_tokens=(\d{1,12}), chunked_prefill_size=(-?\d{1,9}|None), .*"
    r"max_running_requests=(\d{1,9}), context_len=(\d{1,12})"
)

_Parts = dict[str, dict[str, float]]


@dataclass(slots=True)
class LogFacts:
    """What a log tells. Everything is absent until it is read.

    Attributes:
        args: fields of the settings line.
        memory: part -> rank -> GiB, as the ranks tell it; graphs by their own names.
        graph_requests: most requests of a decode step that runs as a graph, of one rank.
        kv_tokens, max_running, context: of one rank, from the line that ends a start.
        notes: facts about kernels.
    """

    args: Mapping[str, object] = field(default_factory=dict)
    memory: _Parts = field(default_factory=dict)
    graph_requests: int | None = None
    kv_tokens: int | None = None
    max_running: int | None = None
    context: int | None = None
    warnings: tuple[str, ...] = ()
    adjustments: tuple[Adjustment, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def bytes_by_part(self) -> dict[str, int]:
        """Memory on all GPUs together. A part that only some ranks tell (SGLang lets rank 0 speak for others) is taken
        to be alike on the rest."""
        ranks = max((len(told) for told in self.memory.values()), default=0)
        return {
            part: round(sum(told.values()) / len(told) * ranks * _GIB) for part, told in self.memory.items() if told
        }


def read_log(text: str) -> LogFacts:
    """Reads a log from its first line. Never raises; text that is no SGLang log tells nothing."""
    facts = LogFacts()
    warnings: dict[str, None] = {}
    adjustments: dict[str, Adjustment] = {}
    notes: dict[str, None] = {}
    for rank, message in messages(text):
        if _take(facts, rank, message):
            continue
        if changed := adjustment(message, SENTENCES):
            adjustments.setdefault(changed.name, changed)
        elif note := kernel_note(message):
            notes[note] = None
        elif len(warnings) < MAX_WARNINGS and questions(message):
            warnings[message] = None
    facts.warnings, facts.notes = tuple(warnings), tuple(notes)
    facts.adjustments = tuple(adjustments.values())
    return facts


def messages(text: str) -> Iterator[tuple[str, str]]:
    """(rank, message without time stamp); the rank is "" for the server's main process and on a single GPU.

    A message may begin in the middle of a line, behind a progress bar. What has no stamp (tracebacks, bars, other
    libraries) is passed over, except the argument parser's deprecations.
    """
    for raw in _BREAK.split(text):
        stamps = list(_STAMP.finditer(raw))
        if not stamps:
            if "deprecated" in raw and _BARE_DEPRECATION.search(raw):
                yield "", _COLOUR.sub("", raw).strip()
            continue
        for stamp, following in zip(stamps, [*stamps[1:], None], strict=True):
            message = raw[stamp.end() : following.start() if following else len(raw)].strip()
            if message and not message.startswith(_BUSY):
                yield stamp[1].strip(), message


def _take(facts: LogFacts, rank: str, message: str) -> bool:
    for pattern, take in _READERS:
        if match := pattern.match(message):
            take(facts, rank, match)
            return True
    return False


def _add(facts: LogFacts, part: str, rank: str, gib: float) -> None:
    told = facts.memory.setdefault(part, {})
    told[rank] = told.get(rank, 0.0) + gib


def _take_args(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    facts.args = facts.args or fields(match.string[match.end() :])


def _take_weights(facts: LogFacts, rank: str, match: re.Match[str]) -> None:
    """A rank loads the target first, then its draft."""
    part = "draft weights" if rank in facts.memory.get("weights", {}) else "weights"
    _add(facts, part, rank, float(match[1]))


def _take_kv(facts: LogFacts, rank: str, match: re.Match[str]) -> None:
    _add(facts, "kv", rank, sum(map(float, _KV_SIZE.findall(match[2]))))


def _take_state(facts: LogFacts, rank: str, match: re.Match[str]) -> None:
    _add(facts, "state", rank, sum(map(float, _STATE_SIZE.findall(match[1]))))


def _take_graph(facts: LogFacts, rank: str, match: re.Match[str]) -> None:
    """Batch sizes are told when a capture begins (0.5.15) or ends (0.5.23)."""
    name, end, rest = match[1].lower(), match[2] == "end", match[3]
    if end and (size := _GRAPH_SIZE.search(rest)):
        _add(facts, f"graphs: {name}", rank, float(size[1]))
    if name.startswith("target") and "prefill" not in name and (listed := _BATCHES.search(rest)):
        batches = [int(part) for part in listed[1].split(",") if part.strip().isdigit()]
        facts.graph_requests = max([*batches, facts.graph_requests or 0])


def _take_room(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    if facts.kv_tokens is None:
        facts.kv_tokens, facts.max_running, facts.context = int(match[1]), int(match[3]), int(match[4])


_READERS: tuple[tuple[re.Pattern[str], Callable[[LogFacts, str, re.Match[str]], None]], ...] = (
    (_ARGS, _take_args),
    (_WEIGHTS, _take_weights),
    (_KV, _take_kv),
    (_STATE, _take_state),
    (_GRAPH, _take_graph),
    (_ROOM, _take_room),
)
