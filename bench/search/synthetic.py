"""Forecasts on a real llama-server whose acceptance is known exactly.

    python -m bench.search.synthetic [--measure 1 4] [--predict 2 3 6] [--rates 0.85 0.71 0.59 0.48 0.39 0.31]
                                     [--users 1 4] [--starts 3] [--rounds 3] [--seconds 4]
                                     [--layers 12] [--hidden 256]

llama-server accepts drafts with the given probabilities (`--spec-synth-rates`: by position, each the share of drafts
whose first tokens up to it are all accepted), whatever the text. The model is fitted to the baseline and to two depths
alone, and forecasts the others. Prints Markdown: fitted against true acceptance, and forecast against measured speed.
Both models have random weights: their text is worthless, their timing is not. Needs a quiet machine.

A shared machine is a tenth faster in one minute than in the next, which would be taken for what a depth costs. So the
servers of all depths run at once and are measured in turns of a few seconds, all others idle; in each round what all
have in common is taken out (`bench.search.rounds`), and all are started several times. A second table tells how far
the others are off from every choice of one, two and three depths.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, combinations
from pathlib import Path
from statistics import mean, median

from bench.search.rounds import CONFIDENCE, SPEED, Rounds, of_candidates, over_starts, scatter
from spectune import assemble
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.forecast import Forecast
from spectune.domain.history import History
from spectune.domain.spec import BudgetSpec, CampaignSpec, ObjectiveSpec, ServiceSpec, WorkloadSpec
from spectune.predict.acceptance import AcceptanceFit, fit_acceptance
from spectune.predict.points import counts
from spectune.predict.speed import SpeedForecaster
from spectune.provision import models
from tests.support.tiny_gguf import make_tiny


def specification(asked: argparse.Namespace, folder: Path) -> tuple[CampaignSpec, list[Candidate]]:
    """The campaign, and the candidates, those to be fitted first."""
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
        workload=WorkloadSpec(concurrency=tuple(asked.users), temperatures=(0.0,), max_tokens=128, ignore_eos=True),
        objective=ObjectiveSpec(confidence=CONFIDENCE),
        budget=BudgetSpec(cell_seconds=asked.seconds),
    )
    return spec, candidates


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


def speed_table(found: Sequence[Forecast], history: History) -> Iterator[str]:
    """Forecast and measured speed of each candidate, cell by cell."""
    yield "| k | cell | forecast tok/s (90 %) | measured tok/s (90 %) | off |\n| --- | --- | --- | --- | --- |"
    offs = []
    for forecast in found:
        trials = history.of_candidate(forecast.candidate.id)
        for key, metrics in forecast.cells.items():
            made, seen = metrics[SPEED], over_starts(trials, key)
            offs.append(made.value / seen.value - 1)
            texts = (f"{e.value:.1f} ({e.low:.1f} to {e.high:.1f})" for e in (made, seen))
            depth = forecast.candidate.speculation.depth
            yield f"| {depth} | {key} | {' | '.join(texts)} | {_off(made.value, seen.value)} |"
    sizes = [abs(off) for off in offs]
    yield f"\nmedian {100 * median(sizes):.1f} %, most {100 * max(sizes):.1f} % off over {len(offs)} cells"


def choices_table(spec: CampaignSpec, history: History, candidates: Sequence[Candidate]) -> Iterator[str]:
    """How far the others are off from every choice of one, two and three depths."""
    yield "| depths measured | forecasts | median off | most | in the 90 % interval |\n| --- | --- | --- | --- | --- |"
    for few in (1, 2, 3):
        misses = [
            (metrics[SPEED], over_starts(history.of_candidate(name), key).value)
            for chosen in combinations(candidates, few)
            for name, forecast in forecasts(spec, history, chosen, candidates).items()
            for key, metrics in forecast.cells.items()
        ]
        offs = [abs(made.value / seen - 1) for made, seen in misses]
        inside = mean(made.low <= seen <= made.high for made, seen in misses)
        shares = f"{100 * median(offs):.1f} % | {100 * max(offs):.1f} % | {100 * inside:.0f} %"
        yield f"| {few} | {len(misses)} | {shares} |"


def forecasts(
    spec: CampaignSpec, history: History, known: Sequence[Candidate], candidates: Sequence[Candidate]
) -> Mapping[str, Forecast]:
    """Of all candidates that are not known, by id, from the baseline and those that are."""
    ids = {history.baseline.id, *(c.id for c in known)}
    others = [c for c in candidates if c.id not in ids]
    return SpeedForecaster().forecast(spec, of_candidates(history, ids), others)


def _off(found: float, true: float) -> str:
    return f"{100 * (found / true - 1):+.1f} %"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=int, nargs=2, default=(1, 4), help="depths that the model is fitted to")
    parser.add_argument("--predict", type=int, nargs="+", default=(2, 3, 6), help="depths that it has to forecast")
    parser.add_argument("--rates", type=float, nargs="+", default=(0.85, 0.71, 0.59, 0.48, 0.39, 0.31))
    parser.add_argument("--users", type=int, nargs="+", default=(1, 4))
    parser.add_argument("--starts", type=int, default=3, help="of all servers, at least 2")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each server in a start, at least 2")
    parser.add_argument("--seconds", type=float, default=4.0, help="measured in each cell of a turn")
    parser.add_argument(
        "--ledger", type=Path, default=Path("synthetic-runs"), help="folder that takes the measurements"
    )
    parser.add_argument("--from-ledger", type=Path, help="measure nothing: forecast from the ledger of this folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=12, help="of the target; the draft has 2")
    parser.add_argument("--hidden", type=int, default=256, help="width of the target; the draft's is 64")
    asked = parser.parse_args()
    depths = [*asked.measure, *asked.predict]
    if asked.starts < 2 or asked.rounds < 2:
        parser.error("--starts and --rounds must be at least 2")
    if len(asked.rates) < max(depths) or any(b > a for a, b in zip((1.0, *asked.rates), asked.rates, strict=False)):
        parser.error(f"--rates needs {max(depths)} values, none above the one before it")
    return asked


def measured(asked: argparse.Namespace, folder: Path) -> History:
    """Starts and measures all candidates, and leaves a ledger in the folder."""
    with tempfile.TemporaryDirectory() as name:
        spec, candidates = specification(asked, Path(name))
        prepared = assemble.prepare(spec, lambda text, fraction: None)
        rounds = Rounds(prepared, [prepared.baseline, *candidates], Path(name), partial(print, file=sys.stderr))
        with assemble.writable(folder) as ledger:
            identity = assemble.open_campaign(ledger, prepared)
            for event in rounds.measured(asked.starts, asked.rounds):
                ledger.append(identity, event)
    return kept(folder)


def kept(folder: Path) -> History:
    """What the ledger of a folder holds."""
    with assemble.readable(folder) as ledger:
        return assemble.find_campaign(ledger, None)[1]


def main() -> None:
    asked = arguments()
    history = kept(asked.from_ledger) if asked.from_ledger else measured(asked, asked.ledger)
    spec = history.opened.spec
    by_depth = {trial.candidate.speculation.depth: trial.candidate for trial in history.finished}
    fitted, others = [by_depth[k] for k in asked.measure], [by_depth[k] for k in asked.predict]
    candidates = [*fitted, *others]
    made = forecasts(spec, history, fitted, candidates)
    known = of_candidates(history, {c.id for c in fitted})
    fit = fit_acceptance([(depth, "all", found) for _, depth, _, found in counts(known.finished)])
    print("\n".join(acceptance_table(fit, asked.rates, sorted([*asked.measure, *asked.predict]))) + "\n")
    print("\n".join(speed_table([made[c.id] for c in others], history)))
    print("\n" + "\n".join(choices_table(spec, history, candidates)))
    print(f"\nstarts of one candidate differ by a standard deviation of {', '.join(scatter(history))}")


if __name__ == "__main__":
    main()
