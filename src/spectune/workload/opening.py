"""From the text of a campaign file's workload.source to a source of prompts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from spectune.domain.errors import InputError
from spectune.domain.ports import PromptSource
from spectune.domain.workload import FILE_FORMATS, MADE_SOURCES, split_source
from spectune.workload import records, text
from spectune.workload.agentic import agentic
from spectune.workload.builtin_set import builtin_source
from spectune.workload.dealing import check_domains
from spectune.workload.jsonl import jsonl_source
from spectune.workload.lengths import VALID as VALID_LENGTHS
from spectune.workload.lengths import parse_lengths
from spectune.workload.repetitive import repetitive
from spectune.workload.synthetic import synthetic
from spectune.workload.trace_rows import FORMATS, columns_of
from spectune.workload.traces import trace_source

VALID = (
    f"Valid are {', '.join(MADE_SOURCES)} (synthetic:in=lognormal(512,0.5),out=uniform(64,256)), the path of a file, "
    f"or the path with its format in front: {', '.join(f'{name}:PATH' for name in FILE_FORMATS)}."
)
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "builtin": {},
    "agentic": {"tools": "tools=text or tools=api"},
    "repetitive": {},
    "synthetic": {"in": VALID_LENGTHS, "out": VALID_LENGTHS, "end": "end=natural or end=fixed"},
}


def open_source(
    source: str,
    *,
    domains: Sequence[str] = (),
    max_tokens: int | None = None,
    seed: int = 1,
    tokens_per_word: float = text.TOKENS_PER_WORD,
    base: Path = Path(),
) -> PromptSource:
    """The prompts that a text stands for.

    Args:
        source: "builtin", "agentic", "repetitive", "synthetic:in=lognormal(512,0.5),out=uniform(64,256)", the path of a
            file whose format is found by its content, or "mooncake:PATH" and the like; see docs/workloads.md.
        domains: those to take; empty takes all.
        max_tokens: upper bound on every answer; of agentic and repetitive prompts the cap itself.
        seed: decides order and content of what is made; files are not changed by it.
        tokens_per_word: of the generated text, as measured with the server's tokenizer.
        base: folder that relative paths start from.

    Raises:
        InputError: when there is no such source, format or file, or the file can't be used; it names what is valid.
    """
    if not tokens_per_word > 0:
        raise ValueError(f"tokens_per_word is {tokens_per_word}")
    kind, rest = split_source(source)
    if kind in MADE_SOURCES:
        made = _made(kind, _options(kind, rest), domains, max_tokens, seed, tokens_per_word, base)
        check_domains(domains, made.info.domains)
        return made
    path = base / Path(rest).expanduser()
    if not path.is_file():
        raise InputError(f"workload.source: no file {path}", _nearest(source) + VALID)
    form = kind or sniff(path)
    if form in FORMATS:
        return trace_source(path, form, domains, max_tokens, tokens_per_word)
    return jsonl_source(path, domains, max_tokens)


def sniff(path: Path) -> str:
    """The format of a file, by its beginning: a key of FILE_FORMATS.

    Raises:
        InputError: when it can't be read or is of none.
    """
    beginning = records.head(path).lstrip()
    if beginning[:1] == b"[":
        return "sharegpt"
    first, *_ = beginning.split(b"\n", 1)
    if beginning[:1] == b"{":
        return "mooncake" if _is_mooncake(beginning) else "jsonl"
    columns = columns_of(first.strip())
    for form in ("azure", "burstgpt"):
        if all(name in columns for name in FORMATS[form].columns):
            return form
    if not beginning:
        raise InputError(f"workload.source: {path} is empty", VALID)
    if any(line.lstrip()[:1] == b"{" for line in beginning.split(b"\n")):
        return "jsonl"
    shown = first[:60].decode(errors="replace").strip()
    raise InputError(
        f"workload.source: {path} is of no known format; it begins with {shown!r}",
        " ".join(("JSON lines, a JSON array, or a trace.", *(form.expected for form in FORMATS.values()))),
    )


def _is_mooncake(beginning: bytes) -> bool:
    """By the first line that is JSON, for the first of all may be damaged."""
    for line in beginning.split(b"\n"):
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        return isinstance(entry, dict) and "input_length" in entry and "output_length" in entry
    return False


def _made(
    kind: str,
    options: Mapping[str, str],
    domains: Sequence[str],
    max_tokens: int | None,
    seed: int,
    tokens_per_word: float,
    base: Path,
) -> PromptSource:
    match kind:
        case "builtin":
            return builtin_source(domains, max_tokens, seed)
        case "repetitive":
            return repetitive(max_tokens)
        case "agentic":
            api_tools = _choice(options, "tools", ("text", "api")) == "api"
            return agentic(seed, max_tokens, api_tools)
        case _:
            return synthetic(
                input=parse_lengths(options.get("in", "512"), base),
                output=parse_lengths(options.get("out", "256"), base),
                seed=seed,
                fixed_length=_choice(options, "end", ("natural", "fixed")) == "fixed",
                tokens_per_word=tokens_per_word,
                max_tokens=max_tokens,
            )


def _options(kind: str, rest: str) -> dict[str, str]:
    """ "in=uniform(1,2),out=3" -> {"in": "uniform(1,2)", "out": "3"}; commas inside brackets do not separate."""
    known = _OPTIONS[kind]
    found: dict[str, str] = {}
    for part in _split_outside_brackets(rest):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or name not in known:
            there = "; ".join(f"{key}: {form}" for key, form in known.items()) or "It takes none."
            raise InputError(f"workload.source: {kind} has no option {part.strip()!r}", there)
        if name in found:
            raise InputError(f"workload.source: {kind} has the option {name!r} twice", "Write it once.")
        found[name] = value.strip()
    return found


def _split_outside_brackets(text_: str) -> list[str]:
    parts, depth = [""], 0
    for character in text_:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def _choice(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    value = options.get(name, values[0])
    if value not in values:
        raise InputError(f"workload.source: {name}={value}", f"Valid are {', '.join(values)}.")
    return value


def _nearest(source: str) -> str:
    head = source.partition(":")[0]
    near = difflib.get_close_matches(head, (*MADE_SOURCES, *FILE_FORMATS), n=1)
    return f"Did you mean {near[0]}? " if near else ""
