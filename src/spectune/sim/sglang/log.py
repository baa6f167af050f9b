"""The engine's log on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO


class Log:
    """Writes lines as the engine does; those of the scheduler carry its rank where there are several."""

    def __init__(self, tp_size: int, stream: TextIO | None = None, clock: Callable[[], float] = time.time) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._rank = " TP0" if tp_size > 1 else ""

    def line(self, text: str) -> None:
        """One line of the main process."""
        self._write("", text)

    def scheduler(self, text: str) -> None:
        """One line of the scheduler process."""
        self._write(self._rank, text)

    def raw(self, text: str) -> None:
        """Text without a date."""
        self._stream.write(text + "\n")
        self._stream.flush()

    def _write(self, prefix: str, text: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self._clock()))
        self._stream.write(f"[{stamp}{prefix}] {text}\n")
        self._stream.flush()
