"""Ctrl-C, SIGTERM and SIGHUP: the same wish, and heard wherever it arrives."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

_TWICE_S = 1.0
_AGAIN_S = 0.05


def listen() -> None:
    """Makes SIGTERM and SIGHUP act as Ctrl-C does, and Ctrl-C act wherever it arrives. For the main thread."""
    told = _AsCtrlC()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup wants it ignored
            signal.signal(number, told)
    sys.unraisablehook = _SayAgain(sys.unraisablehook)


class _AsCtrlC:
    """Losing the terminal or being told to stop must clean up as Ctrl-C does, so whoever handles that at the moment is
    called: an event loop cancels its work and closes what is open.

    What comes again at once is the same wish: timeout(1) tells the process and then its group. A loop that is closing
    would be broken off by it.
    """

    def __init__(self) -> None:
        self._heard = float("-inf")

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._heard < _TWICE_S:
            return
        self._heard = now
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # ignored, as in the background of a script
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)


class _SayAgain:
    """Python runs a signal's handler between any two instructions. Where those belong to a destructor or the callback
    of a weak reference (every import ends with one), what it raises is reported and dropped, and the program would go
    on as if nobody had pressed Ctrl-C. So the signal is sent once more, a moment later.
    """

    def __init__(self, report: Callable[[sys.UnraisableHookArgs], object]) -> None:
        self._report = report

    def __call__(self, dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            self._report(dropped)
            return
        again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
