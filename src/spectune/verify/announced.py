"""Checks on what the server says about itself in its log: output that is not valid, warnings that are new."""

from __future__ import annotations

import re

from spectune.domain.asked import Asked
from spectune.verify.check import Result, ok, unknown, violated
from spectune.verify.observed import Observed
from spectune.verify.traps import known, worrying

SHOWN = 3
"""Warnings quoted in a finding; the rest is counted."""


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
    """Warnings of a kind that the baseline does not print and the registry does not call harmless; a known trap among
    them is named."""
    wanted = "no warnings beyond the baseline's"
    if not observed.evidence.log.strip():
        return unknown(wanted, "no log to look for warnings in")
    engine, version = asked.service.engine, observed.seen.version
    lines = worrying(observed.seen.warnings, engine, version)
    if asked.is_baseline:
        return ok(wanted, f"{len(lines)} warnings, the service's own" if lines else "no warnings")
    if lines and asked.baseline_warnings is None:
        return unknown(wanted, f"the baseline's warnings are not known; here: {_quoted(lines)}")
    before = {kind(line) for line in asked.baseline_warnings or ()}
    fresh = tuple({kind(line): line for line in lines if kind(line) not in before}.values())
    if not fresh:
        return ok(wanted, "none that is new")
    trap = next((trap for line in fresh if (trap := known(line, engine, version))), None)
    if trap is None:
        return unknown(wanted, _quoted(fresh))
    return unknown(wanted, f"{_quoted(fresh)}: {trap.name}, {trap.meaning}", trap.advice)


def _quoted(lines: tuple[str, ...]) -> str:
    more = f"; and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "; ".join(f'"{line.strip()}"' for line in lines[:SHOWN]) + more
