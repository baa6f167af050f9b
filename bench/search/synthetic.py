"""Forecasts on a real llama-server whose acceptance is known exactly.

    python -m bench.search.synthetic [--measure 1 4] [--predict 2 3 6] [--rates 0.85 0.71 0.59 0.48 0.39 0.31]
                                     [--users 1 4] [--seconds 20] [--layers 12] [--hidden 256]

llama-server accepts drafts with the given probabilities (`--spec-synth-rates`: by position, each the share of drafts
whose first tokens up to it are all accepted), whatever the text. The baseline is measured twice, then two depths; the
model is fitted to those alone, and the other depths are measured after it has spoken. Prints Markdown: fitted against
true acceptance, and forecast against measured speed. Both models have random weights: their text is worthless, their
timing is not. Needs a quiet machine, or the speeds mean nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from statistics import median

from spectune import assemble
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.events import Event
from spectune.domain.forecast import Forecast
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import BudgetSpec, CampaignSpec, ObjectiveSpec, ServiceSpec, WorkloadSpec
from spectune.domain.trial import Purpose, Trial
from spectune.predict.acceptance import AcceptanceFit, fit_acceptance
from spectune.predict.points import counts
from spectune.predict.speed import SpeedForecaster
from spectune.provision import hardware, models
from tests.support.tiny_gguf import make_tiny

BASELINES = 2
SPEED = MetricName.PER_USER_SPEED


class InOrder:
    """Tries the baseline twice and then the candidates, one after the other."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = candidates

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        done = len(history.finished)
        if done < BASELINES:
            return Proposal(history.baseline, Purpose.BASELINE, "")
        if done - BASELINES < len(self._candidates):
            return Proposal(self._candidates[done - BASELINES], Purpose.EXPLORE, "")
        return Stop("all are measured")


class ToStderr:
    def event(self, event: Event, history: History) -> None:
        pass

    def progress(self, trial: int, text: str) -> None:
        sys.stderr.write(f"trial {trial}: {text}\n")


def specification(asked: argparse.Namespace, folder: Path) -> tuple[CampaignSpec, list[Candidate]]:
    """The campaign, and the candidates, those to be measured first."""
    source = models.ensure_builtin(lambda text, fraction: None)
    make_tiny(source, folder / "target.gguf", layers=asked.layers, hidden=asked.hidden)
    make_tiny(source, folder / "draft.gguf", seed=1)
    rates = ",".join(f"{rate:g}" for rate in asked.rates)
    candidates = [
        Candidate(
            Speculation(Method.DRAFT, k, draft_model=str(folder / "draft.gguf"), settings={"spec-synth-rates": rates})
        )
        for k in [*asked.measure, *asked.predict]
    ]
    users = max(asked.users)
    args = {"threads": asked.threads, "ctx-size": 2048 * users, "parallel": users}
    spec = CampaignSpec(
        name="synthetic",
        service=ServiceSpec(model=str(folder / "target.gguf"), args=args),
        workload=WorkloadSpec(concurrency=tuple(asked.users), temperatures=(0.0,), max_tokens=256, ignore_eos=True),
        objective=ObjectiveSpec(confidence=0.9),
        budget=BudgetSpec(minutes=600, trials=100, cell_seconds=asked.seconds, precision=0.001),
    )
    return spec, candidates


def measured(spec: CampaignSpec, candidates: Sequence[Candidate], folder: Path) -> History:
    prepared = assemble.prepare(spec, lambda text, fraction: None)
    with assemble.writable(folder) as ledger:
        identity = assemble.open_campaign(ledger, prepared)
        assemble.campaign(ledger, identity, prepared, folder, ToStderr(), InOrder(candidates)).run()
        return History.of(ledger.events(identity))


def up_to(history: History, trials: int) -> History:
    """What was known after so many trials."""
    return replace(history, trials={n: trial for n, trial in history.trials.items() if n <= trials}, conclusion=None)


def acceptance_table(fit: AcceptanceFit, rates: Sequence[float], depths: Sequence[int]) -> Iterator[str]:
    """Conditional acceptance at each position of the deepest candidate, and tokens per step of each depth."""
    (group,) = fit.groups
    true = [rate / before for rate, before in zip(rates, (1.0, *rates), strict=False)]
    found, low, high = fit.conditional(max(depths), group)
    yield "| | true | fitted (90 %) | off |\n| --- | --- | --- | --- |"
    for j in range(max(depths)):
        span = f"{found[j]:.3f} ({low[j]:.3f} to {high[j]:.3f})"
        yield f"| accepted at position {j + 1}, if reached | {true[j]:.3f} | {span} | {_off(found[j], true[j])} |"
    sums = list(accumulate(rates))
    for k in depths:
        tokens = fit.tokens(k, group)
        yield f"| tokens a step, k={k} | {1 + sums[k - 1]:.3f} | {tokens:.3f} | {_off(tokens, 1 + sums[k - 1])} |"


def speed_table(found: Sequence[Forecast], trials: Sequence[Trial]) -> Iterator[str]:
    """Forecast and measured speed of each trial, cell by cell."""
    yield "| k | cell | forecast tok/s (90 %) | measured tok/s (90 %) | off |\n| --- | --- | --- | --- | --- |"
    offs = []
    for forecast, trial in zip(found, trials, strict=True):
        for key, cell in trial.cells.items():
            made, seen = forecast.cells[key][SPEED], cell.measurement.metrics[SPEED]
            offs.append(made.value / seen.value - 1)
            texts = (f"{e.value:.1f} ({e.low:.1f} to {e.high:.1f})" for e in (made, seen))
            depth = trial.candidate.speculation.depth
            yield f"| {depth} | {key} | {' | '.join(texts)} | {_off(made.value, seen.value)} |"
    sizes = [abs(off) for off in offs]
    yield f"\nmedian {100 * median(sizes):.1f} %, most {100 * max(sizes):.1f} % off over {len(offs)} cells"


def _off(found: float, true: float) -> str:
    return f"{100 * (found / true - 1):+.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=int, nargs=2, default=(1, 4), help="depths that the model is fitted to")
    parser.add_argument("--predict", type=int, nargs="+", default=(2, 3, 6), help="depths that it has to forecast")
    parser.add_argument("--rates", type=float, nargs="+", default=(0.85, 0.71, 0.59, 0.48, 0.39, 0.31))
    parser.add_argument("--users", type=int, nargs="+", default=(1, 4))
    parser.add_argument("--seconds", type=float, default=20.0, help="measured in each cell")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=12, help="of the target; the draft has 2")
    parser.add_argument("--hidden", type=int, default=256, help="width of the target; the draft's is 64")
    asked = parser.parse_args()
    depths = [*asked.measure, *asked.predict]
    if len(asked.rates) < max(depths) or any(b > a for a, b in zip((1.0, *asked.rates), asked.rates, strict=False)):
        parser.error(f"--rates needs {max(depths)} values, none above the one before it")
    with tempfile.TemporaryDirectory() as name:
        spec, candidates = specification(asked, Path(name))
        history = measured(spec, candidates, Path(name))
    trials = history.finished
    broken = [trial for trial in trials if not trial.valid]
    if len(trials) < BASELINES + len(candidates) or broken:
        reasons = "; ".join(f"{trial.candidate.label}: {trial.state_reason}" for trial in broken)
        sys.exit(f"not every trial can be used: {reasons or 'the campaign ended early'}")
    known = up_to(history, BASELINES + len(asked.measure))
    asked_for = candidates[len(asked.measure) :]
    made = SpeedForecaster().forecast(spec, known, asked_for)
    fit = fit_acceptance([(depth, "all", found) for _, depth, _, found in counts(known.finished)])
    print("\n".join(acceptance_table(fit, asked.rates, sorted(depths))) + "\n")
    print("\n".join(speed_table([made[c.id] for c in asked_for], trials[BASELINES + len(asked.measure) :])))
    print(f"baseline against itself: {', '.join(_changes(*trials[:BASELINES]))}")
    print(f"load average {hardware.load_average():.1f}, threads {asked.threads}")


def _changes(first: Trial, second: Trial) -> Iterator[str]:
    """How far two trials of the same candidate differ in each cell."""
    for key in first.cells.keys() & second.cells.keys():
        before, after = (trial.cells[key].measurement.metrics[SPEED].value for trial in (first, second))
        yield f"{key} {_off(after, before)}"


if __name__ == "__main__":
    main()
