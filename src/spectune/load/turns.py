"""Two servers of one machine loaded in turns of a few requests, with the same prompts.

What disturbs the machine for longer than a turn disturbs both alike, and cancels out of their comparison prompt by
prompt. On a virtual machine whose speed wandered by 10 %, pairs of single requests a second apart differed by 8 %
without any correlation from pair to pair, so that their mean over 111 pairs was known to 0.8 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from spectune.domain.measurement import Outcome
from spectune.domain.ports import Limits
from spectune.domain.workload import Prompt
from spectune.load import summary
from spectune.load.running import Run, Task
from spectune.load.speeds import Precision, Speeds
from spectune.load.window import Window

TURNS = 16
"""Turns that the time of one server is cut into; a turn is never shorter than one request of each user."""

_LOST = frozenset({Outcome.CONNECT_FAILED, Outcome.RESET})
"""Outcomes after which a server may be gone."""

_SHORTEST_S = 0.4
_FEWEST = 4


class Deck:
    """Prompts of which both servers are dealt the same, turn by turn."""

    def __init__(self, prompts: Iterator[Prompt]) -> None:
        self._prompts = prompts
        self._hand: list[Prompt] = []
        self._taken = 0

    def deal(self) -> Iterator[Prompt]:
        """The prompts of this turn for one server, as many as it asks for."""
        for place in count():
            if place == len(self._hand):
                prompt = next(self._prompts, None)
                if prompt is None:
                    return
                self._hand.append(prompt)
            self._taken = max(self._taken, place + 1)
            yield self._hand[place]

    def next_turn(self) -> None:
        """Lays aside what was dealt to either server."""
        del self._hand[: self._taken]
        self._taken = 0


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of both servers, and why they ended."""

    first: tuple[Run, ...]
    second: tuple[Run, ...]
    stopped: str


def take_turns(
    first: Task,
    second: Task,
    limits: Limits,
    load: Callable[[Task], Run],
    progress: Callable[[Speeds], None],
    monotonic: Callable[[], float],
) -> Turns:
    """A B B A A B B A ..., until both have had the time of the limits or are known as well as these ask.

    Args:
        load: loads a server for one turn.
        progress: hears of the speeds of each turn.

    Raises:
        InputError, HostError: as `load`.
    """
    deck = Deck(first.prompts)
    turn = Limits(min(limits.seconds, max(limits.seconds / TURNS, _SHORTEST_S)), 0.0, 1)
    runs: tuple[list[Run], list[Run]] = ([], [])
    spent = [0.0, 0.0]
    stopped = ""
    for number in count():
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            task = (first, second)[which]
            begun = monotonic()
            options = replace(task.options, processes=1)
            listener = Precision(turn, progress)
            run = load(replace(task, prompts=deck.deal(), seconds=turn.seconds, listener=listener, options=options))
            spent[which] += monotonic() - begun
            runs[which].append(_to_the_last_answer(run))
            if run.lost or _gone(runs[which]):
                runs[which][-1] = replace(runs[which][-1], lost=True)
                return Turns(tuple(runs[0]), tuple(runs[1]), "the server is gone")
        deck.next_turn()
        stopped = stopped or next((run[-1].stopped for run in runs if "prompts" in run[-1].stopped), "")
        if number % 2 == 0 and not stopped:
            continue
        if not stopped and min(spent) >= limits.seconds:
            stopped = "time is up"
        if not stopped and number + 1 >= _FEWEST and all(_precise(run, limits.precision) for run in runs):
            stopped = "precise enough"
        if stopped:
            return Turns(tuple(runs[0]), tuple(runs[1]), stopped)
    raise AssertionError("unreachable")


def _gone(runs: list[Run]) -> bool:
    """Whether two turns on end met nothing but broken connections; one turn is too short to tell."""
    outcomes = {r.record.outcome for run in runs[-2:] for r in run.recorded}
    return len(runs) > 1 and bool(outcomes) and outcomes <= _LOST


def _to_the_last_answer(run: Run) -> Run:
    """Counts until the last request that counts is over: the load is kept up that long, and a turn is so short that
    little else is left of it."""
    ends = [r.record.end_ns for r in summary.steady(run.recorded)]
    return replace(run, window=Window(run.window.opened_ns, max([run.window.closed_ns, *ends])))


def _precise(runs: list[Run], precision: float) -> bool:
    kept = (r.record for run in runs for r in summary.steady(run.recorded))
    speed = summary.per_user_speed(kept)
    return speed is not None and speed.half_width <= precision
