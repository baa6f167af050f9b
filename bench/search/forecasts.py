"""How far forecasts of depths not measured are off, on real measurements.

    python -m bench.search.forecasts [--replay DIRECTORY]

Every choice of one, two and three depths is taken as the measured ones, with both baselines, and all others are
forecast. The speeds of SGLang on H200s are those of docs/evidence/h200 (acceptance was set there, and is exact); with
--replay, llamacpp-draft.json of that folder is added, its runs in the order in which they were made, and the noise of
that file itself. Coverage is of the single measurements that the files hold: by the forecast's 90 % interval, which is
of the true speed, and by the same with the noise of one more measurement added. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path
from statistics import NormalDist

import numpy as np

from bench.search.simulate import events, opened
from bench.search.surfaces import Surface, Truth, campaign, measured, of_space
from spectune.domain.candidate import Candidate, Method
from spectune.domain.estimate import Estimate
from spectune.domain.events import Event, Measured
from spectune.domain.history import History
from spectune.domain.measurement import Acceptance
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal
from spectune.domain.spec import ObjectiveSpec, SpeculationSpace
from spectune.domain.trial import Purpose
from spectune.predict.points import scatter_of, speeds
from spectune.predict.speed import SpeedForecaster

CONFIDENCE = 0.9
CELL_SD = 0.03
"""Scatter of log speed within llamacpp-draft.json, from runs at two temperatures, whose steps cost alike."""

H200_SPEEDS: Mapping[int, tuple[float, float]] = {
    0: (186, 0.05),
    1: (257, 0.07),
    2: (370, 0.022),
    3: (426, 0.015),
    4: (484, 0.008),
}
"""Depth -> tok/s of one user, and the standard deviation of its logarithm that the interval tells (taken for none)."""

H200_ACCEPTANCE = 0.9
H200_DRAFTS = 500


@dataclass(frozen=True, slots=True)
class Seen:
    """One measurement in one cell: tok/s of a user, tok/s of all, standard deviation of their logarithms, counts."""

    per_user: float
    aggregate: float
    sd: float
    acceptance: Acceptance | None


Run = Mapping[str, Seen]
"""Cell key -> what one deployment measured."""


@dataclass(frozen=True, slots=True)
class Record:
    """Real measurements. `runs` are (depth, what was measured), in the order in which they were made."""

    surface: Surface
    runs: Sequence[tuple[int, Run]]

    @property
    def candidates(self) -> dict[int, Candidate]:
        """Depth -> candidate."""
        spaces = self.surface.spec.search.speculation
        return {0: self.surface.baseline} | {c.speculation.depth: c for s in spaces for c in of_space(s)}

    def history(self, depths: Sequence[int]) -> History:
        """What a campaign of the runs of these depths would have known."""
        history, rng = opened(self.surface), np.random.default_rng(0)
        for depth, run in self.runs:
            if depth in depths:
                purpose = Purpose.EXPLORE if depth else Purpose.BASELINE
                for event in events(self.surface, history, Proposal(self.candidates[depth], purpose, ""), 0.01, rng):
                    history = history.then(_as_seen(event, run))
        return history


def _as_seen(event: Event, run: Run) -> Event:
    """The simulated event with real figures in it."""
    if not isinstance(event, Measured):
        return event
    seen = run[event.measurement.cell.key]
    reach = math.exp(seen.sd * NormalDist().inv_cdf((1 + CONFIDENCE) / 2))
    metrics = {
        name: Estimate(value, value / reach, value * reach, 20, CONFIDENCE)
        for name, value in ((MetricName.PER_USER_SPEED, seen.per_user), (MetricName.AGGREGATE_SPEED, seen.aggregate))
    }
    return replace(event, measurement=replace(event.measurement, metrics=metrics, acceptance=seen.acceptance))


def h200() -> Record:
    """One user; a baseline twice alike, since it was measured often."""
    space = SpeculationSpace(Method.MTP, depths=tuple(k for k in H200_SPEEDS if k))
    spec = campaign("h200", [space], [1], [0.0], ObjectiveSpec(confidence=CONFIDENCE))
    (cell,) = spec.cells
    names = {0: Candidate(), **dict(zip(space.depths, of_space(space), strict=True))}
    truth, runs = {}, []
    for depth in (0, *H200_SPEEDS):
        speed, sd = H200_SPEEDS[depth]
        shares = tuple(H200_ACCEPTANCE ** (j + 1) for j in range(depth))
        accepted = Acceptance(H200_DRAFTS, H200_DRAFTS * depth, round(H200_DRAFTS * sum(shares)), shares)
        truth[names[depth].id] = {cell.key: Truth(speed, speed, shares)}
        runs.append((depth, {cell.key: Seen(speed, speed, sd, accepted if depth else None)}))
    return Record(Surface("122B-A10B geometry, SGLang, H200", spec, Candidate(), truth), runs)


def llamacpp(path: Path) -> Record:
    surface = measured(path)
    spec = replace(surface.spec, objective=replace(surface.spec.objective, confidence=CONFIDENCE))
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    keys = {(cell.level.users, cell.sampling.temperature): cell.key for cell in spec.cells}
    runs = []
    for start in range(0, len(rows), len(keys)):
        some = rows[start : start + len(keys)]
        runs.append((some[0]["k"], {keys[row["users"], row["temperature"]]: _seen(row) for row in some}))
    return Record(replace(surface, spec=spec), runs)


def _seen(row: Mapping[str, object]) -> Seen:
    drafts, drafted, accepted, speed, wall = (
        float(str(row[name])) for name in ("drafts", "drafted", "accepted", "decode_tok_s_per_user", "wall_tok_s")
    )
    shares = row["accepted_per_position"]
    assert isinstance(shares, list)
    counts = Acceptance(int(drafts), int(drafted), int(accepted), tuple(shares)) if drafts else None
    return Seen(speed, wall, CELL_SD, counts)


@dataclass(frozen=True, slots=True)
class Miss:
    """How one forecast turned out: log of forecast over measured speed, and the standard deviations of the forecast
    and of one more measurement."""

    off: float
    sd: float
    noise: float

    def inside(self, with_noise: bool) -> bool:
        sd = math.hypot(self.sd, self.noise) if with_noise else self.sd
        return abs(self.off) <= sd * NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def misses(record: Record, few: int) -> Iterator[Miss]:
    """All forecasts after so many depths."""
    names, runs = record.candidates, dict(record.runs)
    for depths in combinations([depth for depth in names if depth], few):
        history = record.history((0, *depths))
        trials = history.finished
        scatter = scatter_of(speeds(trials), {trial.number: trial.candidate.id for trial in trials})
        made = SpeedForecaster().forecast(record.surface.spec, history, names.values())
        for depth in names.keys() - {0, *depths}:
            for key, metrics in made[names[depth].id].cells.items():
                found, true = metrics[MetricName.PER_USER_SPEED], runs[depth][key]
                reach = 2 * NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
                sd = math.log(found.high / found.low) / reach
                noise = math.sqrt(scatter.deployment + true.sd**2)
                yield Miss(math.log(found.value / true.per_user), sd, noise)


def noise_floor(record: Record) -> Iterator[str]:
    """How far the file's own measurements let anyone forecast."""
    times: dict[str, dict[int, list[float]]] = {}
    for depth, run in record.runs:
        for key, seen in run.items():
            tokens = 1 + seen.acceptance.accepted / seen.acceptance.drafts if seen.acceptance else 1.0
            times.setdefault(key, {}).setdefault(depth, []).append(math.log(tokens / seen.per_user))
    again = [100 * abs(math.expm1(b - a)) for cell in times.values() for a, b in pairwise(cell[0])]
    means = {key: {k: float(np.mean(logs)) for k, logs in cell.items()} for key, cell in times.items()}
    between = [
        abs(math.log((math.exp(cell[k - 1]) + math.exp(cell[k + 1])) / 2) - cell[k])
        for cell in means.values()
        for k in range(1, max(cell))
    ]
    yield f"- the baseline run again differs by {', '.join(f'{change:.0f} %' for change in again)} in its cells"
    yield (
        "- a step's time half-way between those of the next shallower and the next deeper run, no model needed, is off "
        f"by {100 * np.median(between):.1f} % (median) and {100 * max(between):.0f} % (most)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path, help="folder with llamacpp-draft.json")
    options = parser.parse_args()
    records = [h200()]
    if options.replay:
        records.append(llamacpp(options.replay / "llamacpp-draft.json"))
    print("| measurements | depths measured | forecasts | median off | in the interval | and with noise |")
    print("| --- | --- | --- | --- | --- | --- |")
    for record in records:
        for few in (1, 2, 3):
            found = list(misses(record, few))
            shares = [100 * np.mean([miss.inside(noisy) for miss in found]) for noisy in (False, True)]
            off = 100 * math.expm1(float(np.median([abs(miss.off) for miss in found])))
            inside = " | ".join(f"{share:.0f} %" for share in shares)
            print(f"| {record.surface.name} | {few} | {len(found)} | {off:.1f} % | {inside} |")
    for record in records[1:]:
        print(f"\nNoise of {record.surface.name}:\n")
        print("\n".join(noise_floor(record)))


if __name__ == "__main__":
    main()
