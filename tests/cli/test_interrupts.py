"""Told to stop: once, twice at once, where Ctrl-C is ignored, and where Python would drop it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from spectune.cli import interrupts
from spectune.load.quiet import until_done

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """Signals handled as the command line handles them."""
    hook, before = sys.unraisablehook, {number: signal.getsignal(number) for number in _HANDLED}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.listen()
    yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)


def test_an_event_loop_that_is_told_twice_at_once_still_closes_what_is_open() -> None:
    """timeout(1) tells a process, and then its group, to which it belongs."""
    closed = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for after in (0.01, 0.03):
            loop.call_later(after, os.kill, os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.1)
            closed.append("in order")

    with pytest.raises(KeyboardInterrupt):
        until_done(work())
    assert closed == ["in order"]


def test_where_ctrl_c_is_ignored_a_wish_to_end_is_not() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)


class Forgotten:
    """Told to stop while it is destroyed, which Python reports and forgets."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def __del__(self) -> None:
        signal.raise_signal(self._number)


def forget(things: list[Forgotten]) -> None:
    things.clear()
    time.sleep(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_python_drops_is_heard_a_moment_later(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        forget([Forgotten(number)])
    assert capsys.readouterr().err == ""


def test_other_errors_that_python_drops_are_reported_as_ever() -> None:
    reported: list[sys.UnraisableHookArgs] = []
    sys.unraisablehook = reported.append
    interrupts.listen()

    class Broken:
        def __del__(self) -> None:
            raise ZeroDivisionError

    broken = Broken()
    del broken
    assert [dropped.exc_type for dropped in reported] == [ZeroDivisionError]
