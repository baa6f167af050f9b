"""Output for people and programs: one console for results, one for progress and errors."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from spectune.domain.errors import EngineFailure, SpectuneError

_PLAIN_WIDTH = 120
_PLAIN_PROGRESS_S = 20.0


def results() -> Console:
    """Standard output. Not on a terminal: no colours, and lines are not cut to a guessed width."""
    return Console() if sys.stdout.isatty() else Console(width=_PLAIN_WIDTH, no_color=True)


def messages() -> Console:
    """Standard error, for progress and errors."""
    return Console(stderr=True) if sys.stderr.isatty() else Console(stderr=True, width=_PLAIN_WIDTH, no_color=True)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def print_error(error: SpectuneError) -> None:
    """What happened, and what to do."""
    console = messages()
    console.print(f"error: {error.message}", style="bold red", markup=False, highlight=False, soft_wrap=True)
    if error.advice:
        console.print(error.advice, markup=False, highlight=False, soft_wrap=True)
    if isinstance(error, EngineFailure) and error.log_tail:
        console.print("the end of the server's log:", style="dim")
        console.print(error.log_tail.strip(), style="dim", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def working(text: str, every_s: float = _PLAIN_PROGRESS_S) -> Iterator[Callable[[str], None]]:
    """Shows what is done at the moment, told by calls: a live line on terminals, elsewhere a line now and then.

    The lines come from a thread of their own, as what is waited for may tell nothing for minutes.
    """
    console = messages()
    if console.is_terminal:
        with console.status(escape(text), spinner="dots") as status:
            yield lambda news: status.update(escape(f"{text}: {news}"))
        return
    latest, done, began = "", threading.Event(), time.monotonic()

    def hear(news: str) -> None:
        nonlocal latest
        latest = f": {news}"

    def tell() -> None:
        while not done.wait(every_s):
            spent = f"  after {time.monotonic() - began:.0f} s"
            console.print(text + latest + spent, markup=False, highlight=False, soft_wrap=True)

    console.print(text, markup=False, highlight=False, soft_wrap=True)
    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield hear
    finally:
        done.set()
        thread.join()


class Preparing:
    """A bar on terminals, and a line a message elsewhere."""

    def __init__(self, console: Console, bar: Progress | None) -> None:
        self._console = console
        self._bar = bar
        self._task: TaskID | None = bar.add_task("preparing", total=None) if bar else None
        self._said = ""
        self._quiet_until = time.monotonic() + 2.0

    def __call__(self, text: str, fraction: float | None) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task, description=text, completed=100 * (fraction or 0), total=100 if fraction else None
            )
        elif text != self._said and (fraction is None or time.monotonic() >= self._quiet_until):
            self._said = text
            self._quiet_until = time.monotonic() + _PLAIN_PROGRESS_S
            percent = "" if fraction is None else f"  {100 * fraction:.0f} %"
            self._console.print(text + percent, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def preparing() -> Iterator[Preparing]:
    """Shows what is being fetched, built or hashed."""
    console = messages()
    if not console.is_terminal:
        yield Preparing(console, None)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield Preparing(console, bar)
