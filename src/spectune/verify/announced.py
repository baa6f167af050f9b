"""Checks on what the server says about itself in its log: output that is not valid, warnings that are new."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from spectune.domain.asked import Asked
from spectune.verify.check import Result, ok, unknown, violated
from spectune.verify.observed import Observed

SHOWN = 3
"""Warnings quoted in a finding; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Benign:
    """A kind of warning that changes neither speed nor answers.

    Attributes:
        engine: adapter name.
        pattern: regular expression, found anywhere in the line.
        meaning: why it may be passed over.
    """

    engine: str
    pattern: str
    meaning: str


BENIGN: tuple[Benign, ...] = (
    Benign("llama.cpp", r"no API key is set", "about access, not about speed"),
    Benign("llama.cpp", r"default port will be changed", "the port is always given"),
    Benign("llama.cpp", r"need to evaluate at least 1 token", "a prompt that was cached whole; harmless"),
    Benign("llama.cpp", r"n_past was set to", "follows from a prompt that was cached whole"),
    Benign("llama.cpp", r"cancel task, id_task", "a client went away"),
    Benign(
        "llama.cpp", r"n_ctx_(seq|per_seq) \(\d+\) < n_ctx_train", "a smaller context than the model allows is asked"
    ),
    Benign("llama.cpp", r"synthetic speculative acceptance is enabled", "reported by the check output-valid"),
    Benign("vllm", r"Development endpoints are enabled", "about access, not about speed"),
    Benign("vllm", r"DeprecationWarning|FutureWarning", "about the engine's own code"),
)


def worrying(lines: Iterable[str], engine: str) -> tuple[str, ...]:
    """The warning lines that the catalogue does not call benign."""
    known = [entry.pattern for entry in BENIGN if engine in {"", entry.engine}]
    return tuple(line for line in lines if not any(re.search(pattern, line) for pattern in known))


def kind(line: str) -> str:
    """A warning without what differs from start to start: numbers, paths and spacing."""
    without_paths = re.sub(r"'[^']*/[^']*'|(?<!\S)/\S+", "<path>", line)
    return " ".join(re.sub(r"\d+(\.\d+)?", "#", without_paths).split())


def output_valid(asked: Asked, observed: Observed) -> Result:
    """Whether the server itself calls its output invalid."""
    wanted = "real output of the model"
    if observed.seen.invalid_output is not None:
        return violated(wanted, f"simulated: {observed.seen.invalid_output}")
    if not observed.evidence.log.strip():
        return unknown(wanted, "no log to look for simulated acceptance or dummy weights in")
    return ok(wanted, "the log speaks of no simulated acceptance and no dummy weights")


def new_warnings(asked: Asked, observed: Observed) -> Result:
    """Warnings of a kind that the baseline does not print and the catalogue does not know."""
    wanted = "no warnings beyond the baseline's"
    if not observed.evidence.log.strip():
        return unknown(wanted, "no log to look for warnings in")
    lines = worrying(observed.seen.warnings, asked.service.engine)
    if asked.is_baseline:
        return ok(wanted, f"{len(lines)} warnings, the service's own" if lines else "no warnings")
    if lines and asked.baseline_warnings is None:
        return unknown(wanted, f"the baseline's warnings are not known; here: {_quoted(lines)}")
    before = {kind(line) for line in asked.baseline_warnings or ()}
    fresh = tuple({kind(line): line for line in lines if kind(line) not in before}.values())
    return unknown(wanted, _quoted(fresh)) if fresh else ok(wanted, "none that is new")


def _quoted(lines: tuple[str, ...]) -> str:
    more = f"; and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "; ".join(f'"{line.strip()}"' for line in lines[:SHOWN]) + more
