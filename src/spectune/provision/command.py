"""Runs build tools as children that never outlive us unnoticed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spectune.domain.errors import HostError
from spectune.provision.cache import told

_KEPT_LINES = 400
_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Output:
    """How a command ended, and the end of what it wrote (both streams, in order)."""

    code: int
    tail: str


@dataclass(frozen=True, slots=True)
class Runner:
    """Where commands write and what they inherit.

    Attributes:
        log: file that all output is appended to.
        env: the whole environment.
        lock: descriptor of a cache lock that the commands keep holding should we be killed.
    """

    log: Path
    env: Mapping[str, str]
    lock: int

    def run(
        self, argv: Sequence[str], heard: Callable[[str], None] = lambda line: None, cwd: Path | None = None
    ) -> Output:
        """Runs a command to its end. Whatever ends us before, Ctrl-C included, ends it too; after a kill -9 it ends
        by itself at its next line of output.

        Args:
            heard: gets every line as it comes.

        Raises:
            HostError: it can't be started, or the log can't be written.
        """
        tail: deque[str] = deque(maxlen=_KEPT_LINES)
        with told(self.log), self.log.open("a", encoding="utf-8", buffering=1) as log:
            log.write(f"$ {' '.join(argv)}\n")
            try:
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**self.env},
                    cwd=cwd,
                    pass_fds=(self.lock,),
                    start_new_session=True,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                )
            except OSError as error:
                raise HostError(f"cannot start {argv[0]}: {error.strerror}") from error
            assert child.stdout is not None
            try:
                with child.stdout:
                    for line in child.stdout:
                        log.write(line)
                        tail.append(line)
                        heard(line.rstrip("\n"))
                code = child.wait()
            except BaseException:
                _end(child)
                raise
        return Output(code, "".join(tail))


def _end(child: subprocess.Popen[str]) -> None:
    """Ends a child's whole session. SIGINT first: ninja removes half-written outputs on it."""
    try:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
    finally:  # also when a second Ctrl-C ends the waiting
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
