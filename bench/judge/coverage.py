"""How often the judge is right, on simulated campaigns with known truth.

    python -m bench.judge.coverage [--campaigns 20] [--seed 1] [--workers 2] [--ties]

Prints the tables of docs/statistics.md as Markdown.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from bench.judge.machine import BASELINE, DOMAINS, WEATHERS, Machine, Weather, candidate, spec_of, steady
from spectune.domain.estimate import Ratio
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose
from spectune.domain.verdict import Decision, Verdict
from spectune.judge.paired import PairedJudge

GAINS = (0.0, 0.03, 0.05, 0.10, 0.20)
DEPTHS = (1, 2, 3, 4, 5, 6)
GAINING = 3
Truth = dict[str, dict[tuple[str, str], float]]


@dataclass
class Tally:
    """Counts over campaigns: name -> (times it happened, times it could have)."""

    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    widths: list[float] = field(default_factory=list)
    noises: list[float] = field(default_factory=list)

    def add(self, name: str, happened: bool) -> None:
        yes, all_ = self.counts.get(name, (0, 0))
        self.counts[name] = (yes + happened, all_ + 1)

    def merge(self, other: Tally) -> None:
        for name, (yes, all_) in other.counts.items():
            mine = self.counts.get(name, (0, 0))
            self.counts[name] = (mine[0] + yes, mine[1] + all_)
        self.widths += other.widths
        self.noises += other.noises

    def share(self, name: str) -> str:
        yes, all_ = self.counts.get(name, (0, 0))
        return f"{100 * yes / all_:.1f} %" if all_ else "-"


def campaign(weather: Weather, gain: float, same: bool, seed: int, pairs: int = 4, prompts: int = 5) -> Tally:
    """One campaign: two baselines, six explorations with an anchor after every third, confirming pairs of the
    candidate that looked best, whether or not it was kept.

    Args:
        gain: true overall gain of one candidate; the others gain nothing and lose more with depth.
        same: whether all candidates are the baseline under another name.
        pairs: of confirmation, an even number.
        prompts: in a slice, one more or less.
    """
    rng = np.random.default_rng(seed)
    spec, judge, tally = spec_of(pairs), PairedJudge(), Tally()
    truth: Truth = {} if same else {candidate(k).id: true_gains(spec, k, gain, rng) for k in DEPTHS}
    machine = Machine(spec, weather, rng, truth, prompts)

    def step(depth: int, purpose: Purpose, decide: bool = True) -> Verdict | None:
        trial = machine.measure(candidate(depth) if depth else BASELINE, purpose)
        if not decide:
            return None
        reference = machine.history.incumbent.id
        verdict = judge.decide(spec, machine.history, trial)
        machine.note(trial, verdict)
        _score(tally, spec, truth, trial.candidate.id, reference, purpose, verdict)
        return verdict

    step(0, Purpose.BASELINE)
    step(0, Purpose.BASELINE)
    looks: dict[int, float] = {}
    for place, depth in enumerate(rng.permutation(DEPTHS), start=1):
        verdict = step(int(depth), Purpose.EXPLORE)
        if verdict is not None and verdict.overall is not None:
            looks[int(depth)] = math.log(verdict.overall.value) + looks.get(_depth_of(verdict.reference), 0.0)
        if place % 3 == 0:
            step(0, Purpose.ANCHOR)
    chosen = max(looks, key=lambda depth: looks[depth])
    for depth in (0, chosen, chosen, 0) * (pairs // 2):
        step(depth, Purpose.CONFIRM, decide=False)
    last = next(t for t in reversed(machine.history.ordered) if t.candidate.id == candidate(chosen).id)
    _score_end(tally, spec, judge, machine.history, truth, chosen, last.number)
    return tally


def _depth_of(identity: str) -> int:
    return next((depth for depth in DEPTHS if candidate(depth).id == identity), 0)


def overall(depth: int, gain: float) -> float:
    """True log gain of a depth over the baseline."""
    return math.log1p(gain) if depth == GAINING else -0.03 * abs(depth - GAINING)


def true_gains(spec: CampaignSpec, depth: int, gain: float, rng: np.random.Generator) -> dict[tuple[str, str], float]:
    """True log gains: code edits gain more than prose, single users more than many, overall as asked."""
    by_domain = dict(zip(DOMAINS, (0.0, 0.15, -0.15), strict=True))
    by_cell = rng.normal(0, 0.05, len(spec.cells))
    by_cell -= by_cell.mean()
    return {
        (cell.key, domain): overall(depth, gain) + by_domain[domain] + float(shift)
        for cell, shift in zip(spec.cells, by_cell, strict=True)
        for domain in DOMAINS
    }


def _true(spec: CampaignSpec, truth: Truth, identity: str, cell: str, domain: str) -> float:
    table = truth.get(identity)
    if table is None:
        return 0.0
    return float(np.mean([x for (c, d), x in table.items() if cell in ("", c) and domain in ("", d)]))


def _covers(ratio: Ratio, log: float) -> bool:
    return ratio.low <= math.exp(log) <= ratio.high


def _score(
    tally: Tally, spec: CampaignSpec, truth: Truth, identity: str, reference: str, purpose: Purpose, verdict: Verdict
) -> None:
    if verdict.overall is None:
        return
    if purpose in (Purpose.BASELINE, Purpose.ANCHOR):
        tally.add("anchor covered", _covers(verdict.overall, 0.0))
        tally.add("anchor tie", verdict.decision is Decision.TIE)
        return
    for effect in verdict.effects:
        true = _true(spec, truth, identity, effect.cell, effect.domain)
        true -= _true(spec, truth, reference, effect.cell, effect.domain)
        kind = f"{'c' if effect.cell else ''}{'d' if effect.domain else ''}"
        tally.add(f"explore covered {kind}", _covers(effect.ratio, true))
    true = _true(spec, truth, identity, "", "") - _true(spec, truth, reference, "", "")
    if true <= 1e-9:
        tally.add("explore kept wrongly", verdict.decision is Decision.KEEP)
    if _depth_of(identity) == GAINING and reference == BASELINE.id:
        tally.add("explore kept", verdict.decision is Decision.KEEP)


def _score_end(
    tally: Tally, spec: CampaignSpec, judge: PairedJudge, history: History, truth: Truth, chosen: int, number: int
) -> None:
    identity = candidate(chosen).id
    verdict = judge.decide(spec, history, history.trials[number])
    if verdict.overall is not None:
        tally.add("confirm tie", verdict.decision is Decision.TIE)
        tally.add("confirm no claim", verdict.decision in (Decision.TIE, Decision.INCONCLUSIVE))
        tally.widths.append(math.log(verdict.overall.high / verdict.overall.low) / 2)
    for effect in verdict.effects:
        true = _true(spec, truth, identity, effect.cell, effect.domain)
        kind = f"{'c' if effect.cell else ''}{'d' if effect.domain else ''}"
        tally.add(f"confirm covered {kind}", _covers(effect.ratio, true))
    conclusion = judge.conclude(spec, history)
    tally.add("promoted", conclusion.changed)
    wrong = conclusion.changed and _true(spec, truth, identity, "", "") <= 1e-9
    tally.add("promoted wrongly", wrong)
    if conclusion.noise is not None:
        tally.noises.append(conclusion.noise)
    for best in conclusion.best:
        named = _true(spec, truth, best.candidate, best.cell, best.domain)
        tally.add("slice named wrongly", best.candidate != BASELINE.id and named <= 1e-9)


Job = tuple[Weather, float, bool, int, int, int]


def _job(args: Job) -> Tally:
    return campaign(*args)


def run(workers: int, jobs: Sequence[Job]) -> Iterable[Tally]:
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_job, jobs, chunksize=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--campaigns", type=int, default=20, help="per line of the tables; twice as many where nothing gains"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--ties", action="store_true", help="only: what it takes to call the baseline a tie with itself"
    )
    options = parser.parse_args()
    started = time.monotonic()
    if options.ties:
        _print_ties(options.workers, options.campaigns, options.seed)
        return
    arms = [(weather, gain, same) for weather in WEATHERS for gain, same in [(0.0, True), *((g, False) for g in GAINS)]]
    # Errors are rare, so the lines without a gain get twice the campaigns. Each campaign has a seed of its own.
    runs = [arm for arm in arms for _ in range(options.campaigns * (2 if arm[1] == 0 else 1))]
    jobs = [(*arm, options.seed * 1_000_003 + i, 4, 5) for i, arm in enumerate(runs)]
    tallies = {arm: Tally() for arm in arms}
    for job, tally in zip(jobs, run(options.workers, jobs), strict=True):
        tallies[job[:3]].merge(tally)
    _print_same(tallies)
    _print_gains(tallies)
    _print_coverage(tallies)
    print(f"\n{len(jobs)} campaigns, {time.monotonic() - started:.0f} s")


def _print_ties(workers: int, campaigns: int, seed: int) -> None:
    """Share of ties over the machine's noise, the pairs of confirmation and the prompts in a slice."""
    print("| noise | pairs | prompts a slice | tie | promoted | half-width |\n| --- | --- | --- | --- | --- | --- |")
    start = seed * 2_000_003
    for noise in (0.0025, 0.005, 0.01):
        weather = steady(noise)
        for pairs, prompts in ((4, 5), (4, 10), (8, 5), (8, 10)):
            total = Tally()
            for tally in run(workers, [(weather, 0.0, True, start + i, pairs, prompts) for i in range(campaigns)]):
                total.merge(tally)
            start += campaigns
            shares = f"{total.share('confirm tie')} | {total.share('promoted')}"
            print(
                f"| {weather.name} | {pairs} | {prompts} | {shares} | {100 * np.median(total.widths):.1f} % |",
                flush=True,
            )


Tallies = dict[tuple[Weather, float, bool], Tally]


def _print_same(tallies: Tallies) -> None:
    print("\n### Baseline against itself\n")
    print("| machine | one trial: tie | one trial: covered | 4 pairs: tie | 4 pairs: tie or inconclusive | promoted |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (weather, _, same), tally in tallies.items():
        if same:
            names = ("anchor tie", "anchor covered", "confirm tie", "confirm no claim", "promoted")
            print(f"| {weather.name} | " + " | ".join(tally.share(name) for name in names) + " |")


def _print_gains(tallies: Tallies) -> None:
    print("\n### Power\n")
    print("| machine | true gain | explored: kept | promoted | promoted wrongly | half-width, 4 pairs | noise said |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for (weather, gain, same), tally in tallies.items():
        if not same:
            shares = " | ".join(tally.share(name) for name in ("explore kept", "promoted", "promoted wrongly"))
            width, noise = 100 * np.median(tally.widths), 100 * np.median(tally.noises)
            print(f"| {weather.name} | {100 * gain:.0f} % | {shares} | {width:.1f} % | {noise:.1f} % |")


def _print_coverage(tallies: Tallies) -> None:
    print("\n### Coverage of 95 % intervals\n")
    print(
        "| machine | explored: all | by domain | by cell | by both | confirmed: all | by domain | by cell | by both |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for weather in WEATHERS:
        total = Tally()
        for (own, _, same), tally in tallies.items():
            if own == weather and not same:
                total.merge(tally)
        names = [f"{stage} covered {kind}" for stage in ("explore", "confirm") for kind in ("", "d", "c", "cd")]
        print(f"| {weather.name} | " + " | ".join(total.share(name) for name in names) + " |")


if __name__ == "__main__":
    main()
