"""Several settings measured at once, in turns of a few seconds, so that what the machine does in a minute hits all."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev, variance

from scipy.special import stdtrit

from spectune import assemble
from spectune.assemble.campaigns import Prepared
from spectune.assemble.measuring import here
from spectune.deploy.listeners import free_port
from spectune.deploy.process import LocalProcesses
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Counters, Launch
from spectune.domain.estimate import Estimate
from spectune.domain.events import Event, Measured, TrialEnded, TrialStarted
from spectune.domain.history import History
from spectune.domain.measurement import Measurement
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Limits, Running, Target, launch_of
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.report.pool import added

SPEED = MetricName.PER_USER_SPEED
CONFIDENCE = 0.9

USED = (SPEED, MetricName.AGGREGATE_SPEED, MetricName.REQUEST_RATE, MetricName.TTFT_P50)
"""What a forecast is made from."""

Turns = Mapping[tuple[str, str], Sequence[Measurement]]
"""(candidate id, cell key) -> what its turns of one start measured."""


class Rounds:
    """Attributes:
    candidates: the baseline first.
    say: told what is measured.
    """

    def __init__(
        self, prepared: Prepared, candidates: Sequence[Candidate], folder: Path, say: Callable[[str], None]
    ) -> None:
        self.candidates, self.say = candidates, say
        self._prepared = prepared
        self._clock = assemble.SystemClock()
        self._deployer = LocalProcesses(folder / "logs", self._clock)
        self._load = here().generator()

    def measured(self, starts: int, rounds: int) -> Iterator[Event]:
        """One trial of each candidate a start, with what all have in common in a round taken out."""
        began, turns = [], []
        for start in range(starts):
            began.append(self._clock.now())
            turns.append(self._turns(start, rounds))
        number = 0
        for at, levelled in zip(began, level(turns), strict=True):
            for candidate in self.candidates:
                number += 1
                purpose = Purpose.BASELINE if candidate is self.candidates[0] else Purpose.EXPLORE
                yield TrialStarted(at, number, 1, candidate, purpose, "measured in turns with all others")
                for name, key in levelled:
                    if name == candidate.id:
                        yield Measured(at, number, merged(levelled[name, key]), ())
                yield TrialEnded(self._clock.now(), number, TrialState.VALID, "")

    def _turns(self, start: int, rounds: int) -> Turns:
        """Starts all servers and measures them in turns, every second round backwards."""
        spec = self._prepared.spec
        limits = Limits(spec.budget.cell_seconds, 1e-9)
        found: dict[tuple[str, str], list[Measurement]] = {}
        with ExitStack() as stack:
            targets = [stack.enter_context(self._target(start, c)) for c in self.candidates]
            prompts = {
                (candidate.id, cell.key): self._prepared.prompts.deal(lane, len(spec.cells) + 1)
                for candidate in self.candidates
                for lane, cell in enumerate(spec.cells, start=1)
            }
            for number in range(rounds):
                turns = list(zip(self.candidates, targets, strict=True))
                for candidate, target in turns[::-1] if number % 2 else turns:
                    for cell in spec.cells:
                        key = candidate.id, cell.key
                        made = self._load.measure(target, cell, prompts[key], limits, lambda text: None).measurement
                        found.setdefault(key, []).append(made)
                        speed = made.metrics[SPEED].value
                        at = f"start {start + 1}, round {number + 1}"
                        self.say(f"{at}: {candidate.label} {cell.key} {speed:.1f} tok/s")
        return found

    @contextmanager
    def _target(self, start: int, candidate: Candidate) -> Iterator[Target]:
        service = replace(self._prepared.service, port=free_port(self._prepared.service.host))
        launch = launch_of(self._prepared.engine, service, candidate)
        with self._deployer.deploy(launch, f"{start}.{candidate.id}") as running:
            counters = partial(self._counters, launch, running)
            yield Target(launch.url, launch.model_id, counters, launch.headers, launch.keep_alive)

    def _counters(self, launch: Launch, running: Running) -> Counters | None:
        path = launch.counters_path
        return None if path is None else self._prepared.engine.read(running.observe((path,))).counters


def level(starts: Sequence[Turns]) -> list[Turns]:
    """The same with what all candidates have in common in a round and cell taken out: how fast the machine was then."""
    weather = [{key: _common(turns, key) for _, key in turns} for turns in starts]
    usual = {key: mean(log for one in weather for log in one[key]) for key in weather[0]}
    return [
        {
            (name, key): [
                replace(one, metrics={metric: _scaled(one, metric, math.exp(usual[key] - now)) for metric in USED})
                for one, now in zip(some, then[key], strict=True)
            ]
            for (name, key), some in turns.items()
        }
        for turns, then in zip(starts, weather, strict=True)
    ]


def _common(turns: Turns, key: str) -> list[float]:
    """Mean log speed of all candidates in each round."""
    rounds = zip(*(some for (_, cell), some in turns.items() if cell == key), strict=True)
    return [mean(math.log(one.metrics[SPEED].value) for one in turn) for turn in rounds]


def _scaled(measured: Measurement, metric: MetricName, factor: float) -> Estimate:
    """A metric as it would have been on a machine so much faster."""
    found = measured.metrics[metric]
    factor = 1 / factor if metric is MetricName.TTFT_P50 else factor
    return replace(found, value=found.value * factor, low=found.low * factor, high=found.high * factor)


def merged(turns: Sequence[Measurement]) -> Measurement:
    """Turns of one start as one measurement."""
    metrics = {metric: geometric([one.metrics[metric].value for one in turns]) for metric in USED}
    drafting = [one.acceptance for one in turns if one.acceptance is not None and one.acceptance.drafts]
    plain = Measurement(turns[0].cell, turns[0].started_unix, sum(one.window_s for one in turns), metrics, {}, {}, 0.0)
    in_flight, stopped = mean(one.in_flight for one in turns), turns[0].stopped
    return replace(plain, in_flight=in_flight, acceptance=added(drafting), stopped=stopped)


def of_candidates(history: History, ids: Collection[str]) -> History:
    """What would be known if only these had been tried."""
    return replace(history, trials={n: trial for n, trial in history.trials.items() if trial.candidate.id in ids})


def over_starts(trials: Sequence[Trial], cell: str) -> Estimate:
    """A cell's speed over all starts."""
    return geometric([trial.cells[cell].measurement.metrics[SPEED].value for trial in trials])


def geometric(values: Sequence[float]) -> Estimate:
    """Geometric mean of at least two values with its interval by Student's t."""
    logs, n = [math.log(value) for value in values], len(values)
    reach = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * stdev(logs) / math.sqrt(n)
    low, middle, high = (math.exp(mean(logs) + sign * reach) for sign in (-1, 0, 1))
    return Estimate(middle, low, high, n, CONFIDENCE)


def scatter(history: History) -> Iterator[str]:
    """How far starts of the same candidate differ in each cell, over all candidates."""
    groups = [history.of_candidate(name) for name in {trial.candidate.id for trial in history.finished}]
    for key in groups[0][0].cells:
        speeds = [[math.log(one.cells[key].measurement.metrics[SPEED].value) for one in trials] for trials in groups]
        yield f"{100 * math.sqrt(mean(variance(logs) for logs in speeds)):.1f} % ({key})"
