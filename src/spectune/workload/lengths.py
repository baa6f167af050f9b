"""Distributions of lengths as people write them: "512", "uniform(64,256)", "lognormal(512,0.5)", "file(PATH)"."""

from __future__ import annotations

import hashlib
import math
import random
import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spectune.domain.errors import InputError
from spectune.workload.problems import Problems
from spectune.workload.records import Lines

VALID = (
    "A length is a number, fixed(N), uniform(LOW,HIGH), lognormal(MEDIAN,SIGMA) with SIGMA of the logarithm, "
    "or file(PATH) with one number a line."
)

_MOST = 1_000_000
_CALL = re.compile(r"(?P<name>[a-z]+)\((?P<arguments>.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of lengths in tokens.

    Attributes:
        text: as it was written.
        identity: equal exactly for equal distributions; covers a file's content.
        draw: one length, at least 1.
        notes: bad lines of a file.
    """

    text: str
    identity: str
    draw: Callable[[random.Random], int]
    notes: tuple[str, ...] = ()


def fixed(tokens: int) -> Lengths:
    """Always the same."""
    _check(1 <= tokens <= _MOST, f"{tokens} tokens")
    return Lengths(str(tokens), f"fixed {tokens}", lambda rng: tokens)


def uniform(low: int, high: int) -> Lengths:
    """Every length from low to high, both included, equally often."""
    _check(1 <= low <= high <= _MOST, f"uniform({low},{high})")
    return Lengths(f"uniform({low},{high})", f"uniform {low} {high}", lambda rng: rng.randint(low, high))


def lognormal(median: float, sigma: float) -> Lengths:
    """The logarithm is normal with mean ln(median) and standard deviation sigma; rounded, cut to 1 .. a million."""
    _check(1 <= median <= _MOST and 0 <= sigma <= 5, f"lognormal({median:g},{sigma:g})")
    mean = math.log(median)

    def draw(rng: random.Random) -> int:
        return min(_MOST, max(1, round(rng.lognormvariate(mean, sigma))))

    return Lengths(f"lognormal({median:g},{sigma:g})", f"lognormal {median!r} {sigma!r}", draw)


def from_file(path: Path) -> Lengths:
    """The lengths of a file, one number a line, each drawn equally often.

    Raises:
        InputError: when it can't be read, or more than half of its lines are no lengths.
    """
    lines, found, problems = Lines(path), array("q"), Problems(str(path), "line")
    for _, number, line in lines.scan():
        try:
            length = int(line)
        except ValueError:
            problems.add(number, "not a number")
            continue
        if 1 <= length <= _MOST:
            found.append(length)
        else:
            problems.add(number, f"{length} is no length from 1 to {_MOST}")
    problems.check(len(found), "One number of tokens a line.")
    identity = hashlib.sha256(lines.sha256.encode()).hexdigest()
    return Lengths(f"file({path})", f"file {identity}", lambda rng: rng.choice(found), problems.notes())


def parse_lengths(text: str, base: Path = Path()) -> Lengths:
    """Reads a distribution.

    Args:
        text: see the module.
        base: folder that a file's relative path starts from.

    Raises:
        InputError: naming what is wrong and what is valid.
    """
    text = text.strip()
    call = _CALL.fullmatch(text)
    name, arguments = (call["name"], call["arguments"]) if call else ("fixed", text)
    if name == "file":
        return from_file(base / Path(arguments.strip()).expanduser())
    if name not in {"fixed", "uniform", "lognormal"}:
        raise InputError(f"workload.source: no distribution of lengths {name!r}", VALID)
    try:
        numbers = [float(argument) for argument in arguments.split(",")]
        match name, numbers:
            case "fixed", [tokens]:
                return fixed(_whole(tokens))
            case "uniform", [low, high]:
                return uniform(_whole(low), _whole(high))
            case "lognormal", [median, sigma]:
                return lognormal(median, sigma)
    except ValueError:
        pass
    raise InputError(f"workload.source: cannot read the length {text!r}", VALID)


def _whole(number: float) -> int:
    if not number.is_integer():
        raise ValueError(number)
    return int(number)


def _check(right: bool, text: str) -> None:
    if not right:
        raise InputError(f"workload.source: {text} is out of range (1 to {_MOST} tokens, low before high)", VALID)
