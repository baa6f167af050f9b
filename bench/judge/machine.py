"""A machine that scatters and drifts, and campaigns measured on it: the judge's test bench with known truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Hardware, Service
from spectune.domain.events import CampaignOpened, Provenance
from spectune.domain.finding import Finding, Status, Verification
from spectune.domain.history import History
from spectune.domain.measurement import Measurement, Outcome, Phase, RequestRecord, TokenSource
from spectune.domain.spec import BudgetSpec, CampaignSpec, ConstraintSpec, ObjectiveSpec, WorkloadSpec
from spectune.domain.trial import MeasuredCell, Purpose, Trial, TrialState
from spectune.domain.verdict import Verdict
from spectune.domain.workload import Cell, WorkloadInfo

DOMAINS = ("chat", "code_edit", "prose")
TRIAL_S, START_S = 45.0, 8.0
TOKENS = 129


@dataclass(frozen=True, slots=True)
class Weather:
    """What a machine does to the speed; standard deviations of log speeds.

    Attributes:
        name: in tables.
        deployment: from one start of the server to the next.
        wave, wave_s: stationary autoregressive drift and its correlation time, seconds.
        trend: log speed per second.
        cell: of a cell within a deployment.
        request: of the same request repeated.
        prompt: of a candidate's effect from prompt to prompt; the same each time the prompt is asked.
        outliers, stall: share of requests that stall, and by which factor they are slower.
    """

    name: str
    deployment: float
    wave: float
    trend: float
    cell: float
    wave_s: float = 120.0
    request: float = 0.05
    prompt: float = 0.08
    outliers: float = 0.02
    stall: float = 2.0


_QUARTER_IN_HALF_AN_HOUR = math.log(0.75) / 1800

WEATHERS = (
    Weather("quiet (0.5 %)", 0.005, 0.0025, 0.0, 0.0025),
    Weather("usual (1.5 %), wave 1 %, trend", 0.015, 0.01, _QUARTER_IN_HALF_AN_HOUR, 0.005),
    Weather("rough (3 %), wave 2 %, trend", 0.03, 0.02, _QUARTER_IN_HALF_AN_HOUR, 0.01),
)


def steady(noise: float) -> Weather:
    """A machine without a trend that scatters so much from start to start, and half as much otherwise."""
    return Weather(f"{100 * noise:g} %", noise, noise / 2, 0.0, noise / 2)


BASELINE = Candidate()


def candidate(depth: int) -> Candidate:
    return Candidate(Speculation(Method.DRAFT, depth))


def spec_of(pairs: int = 4) -> CampaignSpec:
    """A campaign over two levels and two temperatures."""
    return CampaignSpec(
        "bench",
        workload=WorkloadSpec(concurrency=(1, 4), temperatures=(0.0, 0.7)),
        objective=ObjectiveSpec(),
        constraints=ConstraintSpec(),
        budget=BudgetSpec(confirm_pairs=pairs),
    )


@dataclass
class Machine:
    """Measures candidates one after the other; its clock advances with each trial.

    Attributes:
        truth: candidate id -> (cell key, domain) -> true log gain over the baseline.
        prompts: of a slice, one more or less. Each pair of a confirmation has prompts of its own.
        trial_s: seconds measured in a trial.
        start_s: seconds of a start.
        per_user: whether a slice has so many prompts for each user of its level, as in a measurement of fixed length.
    """

    spec: CampaignSpec
    weather: Weather
    rng: np.random.Generator
    truth: Mapping[str, Mapping[tuple[str, str], float]]
    prompts: int = 5
    trial_s: float = TRIAL_S
    per_user: bool = False
    start_s: float = START_S
    now: float = 1_000_000.0
    _wave: float = 0.0
    _prompt_speed: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    _prompt_effect: dict[tuple[str, str, int], list[float]] = field(default_factory=dict)
    history: History = field(init=False)

    def __post_init__(self) -> None:
        service = Service("llama.cpp", "/server", "/model", {}, {}, "127.0.0.1", 1, "m")
        hardware = Hardware("bench", "cpu", 2, 1)
        provenance = Provenance("0", "0", hardware, WorkloadInfo("bench", "0", 1, {}), simulated="bench")
        self.history = History(CampaignOpened(self.now, self.spec, service, BASELINE, provenance))
        self._wave = self.weather.wave * self.rng.standard_normal()

    def measure(self, tried: Candidate, purpose: Purpose) -> Trial:
        """Runs a trial and adds it, undecided, to the history."""
        start = self.now
        arms = sum(trial.purpose is Purpose.CONFIRM for trial in self.history.ordered)
        hand = 1 + arms // 2 if purpose is Purpose.CONFIRM else 0
        self._pass(self.start_s)
        deviation = self.weather.deployment * self.rng.standard_normal()
        cells: dict[str, MeasuredCell] = {}
        seconds = self.trial_s / len(self.spec.cells)
        for cell in self.spec.cells:
            began = self.now
            self._pass(seconds / 2)
            drift = self._wave + self.weather.trend * (self.now - 1_000_000.0)
            own = self.weather.cell * self.rng.standard_normal()
            records = tuple(
                record
                for domain in DOMAINS
                for record in self._requests(tried.id, cell, domain, hand, deviation + drift + own)
            )
            self._pass(seconds / 2)
            measurement = Measurement(cell, began, seconds, {}, {}, {Outcome.OK: len(records)}, cell.level.value)
            cells[cell.key] = MeasuredCell(measurement, records)
        number = len(self.history.trials) + 1
        checked = Verification((Finding("bench", Status.OK, "", ""),))
        trial = Trial(
            number,
            1,
            tried,
            purpose,
            "",
            start,
            state=TrialState.VALID,
            verification=checked,
            cells=cells,
            ended_at=self.now,
        )
        self.history = replace(self.history, trials={**self.history.trials, number: trial})
        return trial

    def note(self, trial: Trial, verdict: Verdict) -> None:
        """Adds the verdict on a trial to the history."""
        decided = replace(trial, verdict=verdict)
        self.history = replace(self.history, trials={**self.history.trials, trial.number: decided})

    def _pass(self, seconds: float) -> None:
        keep = math.exp(-seconds / self.weather.wave_s)
        fresh = math.sqrt(1 - keep**2) * self.weather.wave * self.rng.standard_normal()
        self._wave = keep * self._wave + fresh
        self.now += seconds

    def _requests(self, identity: str, at: Cell, domain: str, hand: int, shift: float) -> list[RequestRecord]:
        """The prompts of a slice in order; slower or faster trials get through fewer or more of them.

        Args:
            hand: number of the set of prompts.
        """
        weather, rng, cell = self.weather, self.rng, at.key
        most = self.prompts * (at.level.users if self.per_user else 1) + 1
        slice_ = (f"{cell} {domain}", hand)
        speeds = self._prompt_speed.setdefault(slice_, list(rng.normal(math.log(45), 0.2, most)))
        truth = self.truth.get(identity)
        effects = [0.0] * most
        if truth is not None:
            drawn = self._prompt_effect.setdefault((identity, *slice_), list(rng.normal(0, weather.prompt, most)))
            effects = [truth[cell, domain] + one for one in drawn]
        count = int(rng.integers(most - 2, most + 1))
        noise = rng.normal(0, weather.request, count) - math.log(weather.stall) * (rng.random(count) < weather.outliers)
        return [
            record(f"{cell} {domain} {hand}/{i}", domain, math.exp(speeds[i] + effects[i] + shift + noise[i]))
            for i in range(count)
        ]


def record(prompt: str, domain: str, speed: float) -> RequestRecord:
    """A request that ended well, at so many tok/s."""
    last = round((TOKENS - 1) / speed * 1e9)
    return RequestRecord(prompt, domain, Outcome.OK, Phase.STEADY, 0, 0, 0, last, last, TOKENS, TokenSource.USAGE)
