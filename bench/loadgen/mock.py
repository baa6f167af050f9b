"""The mock server and the C reader: built, started on a core of their own, and what the mock says really happened."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spectune.domain.errors import HostError

_HERE = Path(__file__).parent
_FINISHED = frozenset({"-", "slowbody"})


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the two programs lie."""

    mock: Path
    reader: Path


def build(folder: Path) -> Programs:
    """Compiles both into a folder.

    Raises:
        HostError: there is no C compiler, or it fails.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise HostError("no C compiler (cc, gcc or clang): the mock server cannot be built")
    folder.mkdir(parents=True, exist_ok=True)
    for source, name in (("mockd.c", "mockd"), ("reader.c", "reader")):
        command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(folder / name), str(_HERE / source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HostError(f"{source} does not compile: {done.stderr[-500:]}")
    return Programs(folder / "mockd", folder / "reader")


@dataclass(frozen=True, slots=True)
class Served:
    """One request as the mock served it; times on CLOCK_MONOTONIC, ns.

    Attributes:
        fault: what was done to it; "-" is nothing, "gone" a client that went away.
        first_ns: 0 where no token left.
    """

    fault: str
    asked_ns: int
    first_ns: int
    last_ns: int
    tokens: int
    chunks: int

    @property
    def finished(self) -> bool:
        return self.fault in _FINISHED


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, median and 99th percentile; milliseconds unless said otherwise."""

    mean: float | None = None
    p50: float | None = None
    p99: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if not values:
            return cls()
        return cls(float(np.mean(values)), float(np.median(values)), float(np.quantile(values, 0.99)))


NOTHING = Spread()
"""Of what was not said."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What the server did, from its log."""

    served: tuple[Served, ...]

    def last(self, requests: int) -> Truth:
        """Only the requests that came last: some clients try a few before they measure."""
        ordered = sorted(self.served, key=lambda s: s.asked_ns)
        return Truth(tuple(ordered[-requests:]))

    def between(self, begin_ns: int, end_ns: int) -> Truth:
        """Only the requests that came in that time; they were sent a little before they came."""
        slack_ns = 1_000_000
        return Truth(tuple(s for s in self.served if begin_ns <= s.asked_ns <= end_ns + slack_ns))

    def speed_between(self, begin_ns: int, end_ns: int) -> float:
        """Tokens per second that left in that time."""
        sent = sum(_within(s, begin_ns, end_ns) for s in self.served)
        return 1e9 * sent / (end_ns - begin_ns) if end_ns > begin_ns else 0.0

    @property
    def tokens(self) -> int:
        """Of answers that were finished."""
        return sum(s.tokens for s in self.served if s.finished)

    @property
    def faulty(self) -> int:
        return sum(not s.finished and s.fault != "gone" for s in self.served)

    @property
    def ttft(self) -> Spread:
        return Spread.of([(s.first_ns - s.asked_ns) / 1e6 for s in self.served if s.first_ns])

    @property
    def tpot(self) -> Spread:
        return Spread.of(
            [(s.last_ns - s.first_ns) / 1e6 / (s.tokens - 1) for s in self.served if s.finished and s.tokens > 1]
        )

    @property
    def latency(self) -> Spread:
        return Spread.of([(s.last_ns - s.asked_ns) / 1e6 for s in self.served if s.finished])

    @property
    def span_ns(self) -> tuple[int, int]:
        """From the first request to the last token."""
        return min(s.asked_ns for s in self.served), max(max(s.last_ns, s.asked_ns) for s in self.served)

    @property
    def sent_tokens(self) -> int:
        """All that left, whoever still listened."""
        return sum(s.tokens for s in self.served)

    @property
    def tok_s(self) -> float:
        """Over all of it, ramp and drain included."""
        begin, end = self.span_ns
        return 1e9 * self.sent_tokens / (end - begin) if end > begin else 0.0


def _within(served: Served, begin: int, end: int) -> float:
    """Tokens of a request between two moments, as if they had left evenly."""
    if not served.first_ns:
        return 0.0
    length = served.last_ns - served.first_ns
    if length <= 0:
        return float(served.tokens) if begin <= served.first_ns < end else 0.0
    return served.tokens * max(0, min(end, served.last_ns) - max(begin, served.first_ns)) / length


class Mock:
    """A running mock server."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log
        assert process.stdout
        self.port = int(process.stdout.readline().removeprefix("listening on "))
        self.url = f"http://127.0.0.1:{self.port}"

    def truth(self) -> Truth:
        """Stops the server and returns what it did."""
        self.stop()
        rows = [line.split("\t") for line in self._log.read_text().splitlines()]
        return Truth(tuple(Served(row[2], *map(int, row[3:])) for row in rows if len(row) == 8))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        if self.process.stdout:
            self.process.stdout.close()


@contextmanager
def serving(programs: Programs, log: Path, core: int, flags: Sequence[str]) -> Iterator[Mock]:
    """A mock server on one core."""
    command = [str(programs.mock), "--log", str(log), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        os.sched_setaffinity(process.pid, {core})
        yield Mock(process, log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
