"""The registry of known traps: what an engine says or does, what it means, what to do about it, and where it was seen.

The entries are data (trap_table). A trap is recognised by its sign, which is a pattern in a warning or in the log; or,
where no line tells of it, by a condition that one of the checks or a doubt of the measurement looks at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from spectune.verify.trap_table import TRAPS
from spectune.verify.trap_types import Trap

__all__ = ["TRAPS", "Trap", "as_markdown", "in_range", "known", "worrying"]

_PART = re.compile(r"(>=|<=|==|<|>)\s*([\w.]+)")


def in_range(version: str | None, versions: str) -> bool:
    """Whether a version lies in a range like ">=0.5,<0.6". An unknown version may lie in any."""
    if version is None:
        return True
    ours = _numbers(version)
    return not ours or all(_holds(ours, sign, _numbers(bound)) for sign, bound in _PART.findall(versions))


def _numbers(version: str) -> tuple[int, ...]:
    found = re.findall(r"\d{1,9}", version.partition("+")[0])
    return tuple(map(int, found))


def _holds(ours: tuple[int, ...], sign: str, bound: tuple[int, ...]) -> bool:
    width = max(len(ours), len(bound))
    a, b = ours + (0,) * (width - len(ours)), bound + (0,) * (width - len(bound))
    return {">=": a >= b, "<=": a <= b, "==": a == b, "<": a < b, ">": a > b}[sign]


def known(line: str, engine: str, version: str | None = None) -> Trap | None:
    """The first trap whose sign is in a line; the engine "" stands for any."""
    for trap in TRAPS:
        concerns = not trap.engine or engine in {"", trap.engine}
        if trap.sign and concerns and in_range(version, trap.versions) and re.search(trap.sign, line):
            return trap
    return None


def worrying(lines: Iterable[str], engine: str, version: str | None = None) -> tuple[str, ...]:
    """The lines that the registry does not call harmless."""
    found = ((line, known(line, engine, version)) for line in lines)
    return tuple(line for line, trap in found if trap is None or not trap.harmless)


def as_markdown() -> list[str]:
    """Two tables for docs, as lines."""
    lines = [
        "## Known traps",
        "",
        "| trap | engine | versions | sign | caught by | meaning | advice | source |",
        "| - | - | - | - | - | - | - | - |",
    ]
    for trap in TRAPS:
        if not trap.harmless:
            cells = (
                f"`{trap.name}`",
                trap.engine or "any",
                trap.versions or "all",
                _code(trap.sign),
                f"`{trap.check}`",
            )
            lines.append(f"| {' | '.join((*cells, trap.meaning, trap.advice, trap.source))} |")
    lines += ["", "## Warnings known to be harmless", "", "| engine | pattern | meaning |", "| - | - | - |"]
    lines += [f"| {trap.engine} | {_code(trap.sign)} | {trap.meaning} |" for trap in TRAPS if trap.harmless]
    return lines


def _code(pattern: str) -> str:
    return f"`{pattern.replace('|', '&#124;')}`" if pattern else "none in the log"
