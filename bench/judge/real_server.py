"""Baseline against itself on a real llama-server: how often does the judge call it a tie?

    python -m bench.judge.real_server [--tries 10] [--pairs 4] [--seconds 25] [--model tiny|builtin|PATH] [--alone]

Each try is a campaign of its own, with everything real but the strategy and few probes: two baselines, then "another"
candidate with the very settings of the baseline is confirmed against it in pairs, side by side or (--alone) one after
the other. The tiny model has random weights: its text is worthless, its timing is not. Prints a line a try as Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from spectune import assemble
from spectune.domain.candidate import Candidate
from spectune.domain.events import Event
from spectune.domain.history import History
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import BudgetSpec, CampaignSpec, ObjectiveSpec, ServiceSpec, WorkloadSpec
from spectune.domain.trial import Purpose
from spectune.domain.verdict import Decision, Verdict
from spectune.provision import hardware, models

BASELINES = 2
DOMAIN = "chat"
"""One kind of text: the judge gives all kinds the same weight, and in half a minute there are too few of each."""
PROBES = 2
"""Answers are not what is examined here, and asking 8 prompts twice takes as long as measuring."""


class AgainstItself:
    """Confirms the baseline against its twin: the same server under another name, since a setting that llama-server has
    by default changes nothing."""

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        done = history.finished
        if len(done) < BASELINES:
            return Proposal(history.baseline, Purpose.BASELINE, "")
        twin = Candidate(history.baseline.speculation, {**history.baseline.knobs, "predict": -1})
        pairs, odd = divmod(len(done) - BASELINES, 2)
        if pairs >= spec.budget.confirm_pairs:
            return Stop("all pairs are made")
        if spec.budget.side_by_side:
            return Proposal(history.baseline, Purpose.CONFIRM, "", beside=twin)
        first = pairs % 2 == odd
        return Proposal(history.baseline if first else twin, Purpose.CONFIRM, "")


class Silent:
    def event(self, event: Event, history: History) -> None:
        pass

    def progress(self, trial: int, text: str) -> None:
        pass


def attempt(spec: CampaignSpec, folder: Path) -> Verdict:
    """One campaign; the verdict on the twin after its last pair."""
    prepared = assemble.prepare(spec, lambda text, fraction: None)
    prepared = replace(prepared, probes=prepared.probes[:PROBES], sampled=())
    with assemble.writable(folder) as ledger:
        identity = assemble.open_campaign(ledger, prepared)
        assemble.campaign(ledger, identity, prepared, folder, Silent(), AgainstItself()).run()
        history = History.of(ledger.events(identity))
    twins = [trial for trial in history.finished if trial.candidate.id != history.baseline.id]
    verdict = twins[-1].verdict
    return verdict or Verdict(Decision.INCONCLUSIVE, "no verdict", history.baseline.id)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=25.0, help="measured on each server of a pair")
    parser.add_argument("--model", default="builtin", help="tiny, builtin or the path of a GGUF file")
    parser.add_argument("--min-gain", type=float, default=0.03, help="a tie is a difference provably smaller than this")
    parser.add_argument("--alone", action="store_true", help="one server after the other")
    parser.add_argument("--keep", type=Path, help="directory that the ledgers are left in")
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="spectune-aa-") as name:
        folder = Path(name) if asked.keep is None else asked.keep
        folder.mkdir(parents=True, exist_ok=True)
        model = asked.model
        if asked.model == "tiny":
            from tests.support.tiny_gguf import make_tiny

            make_tiny(models.ensure_builtin(lambda text, fraction: None), folder / "tiny.gguf")
            model = str(folder / "tiny.gguf")
        spec = CampaignSpec(
            name="aa",
            service=ServiceSpec(model=model, args={"threads": 1, "ctx-size": 2048, "parallel": 1}),
            workload=WorkloadSpec(concurrency=(1,), temperatures=(0.0,), max_tokens=64, domains=(DOMAIN,)),
            objective=ObjectiveSpec(min_gain=asked.min_gain),
            budget=BudgetSpec(
                minutes=60,
                cell_seconds=asked.seconds,
                precision=0.001,
                confirm_pairs=asked.pairs,
                side_by_side=not asked.alone,
            ),
        )
        print("| try | verdict | gain (95 %) | minutes | load average |\n| --- | --- | --- | --- | --- |")
        for index in range(asked.tries):
            began = time.monotonic()
            verdict = attempt(spec, folder / str(index))
            counts[verdict.decision.value] += 1
            gain = verdict.overall.percent if verdict.overall else "unknown"
            minutes = (time.monotonic() - began) / 60
            load = hardware.load_average()
            print(f"| {index + 1} | {verdict.decision} | {gain} | {minutes:.1f} | {load:.1f} |", flush=True)
    print(f"\n{dict(counts)}", file=sys.stderr)


if __name__ == "__main__":
    main()
