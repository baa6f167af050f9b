"""Baseline against itself on a real llama-server: how often does the judge call it a tie?

    python -m bench.judge.real_server [--tries 10] [--pairs 8] [--seconds 5] [--model tiny|builtin] [--min-gain 0.03]

Each try is a campaign of its own that confirms "another" candidate with the very settings of the baseline, A B B A ...,
after two baselines. The server, the load generator and the judge are the real ones. The tiny model has random weights:
its text is worthless, its timing is not. Prints a line a try and a table in Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from spectune.assemble.clock import SystemClock
from spectune.deploy.listeners import free_port
from spectune.deploy.process import LocalProcesses
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Deployment, Hardware, Seen, Service
from spectune.domain.events import (
    CampaignOpened,
    Decided,
    Deployed,
    Event,
    Measured,
    Provenance,
    TrialEnded,
    TrialStarted,
    Verified,
)
from spectune.domain.finding import Finding, Status, Verification
from spectune.domain.history import History
from spectune.domain.ports import Limits, Target
from spectune.domain.spec import BudgetSpec, CampaignSpec, ObjectiveSpec, WorkloadSpec
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Decision, Verdict
from spectune.engines.llamacpp.adapter import LlamaCpp
from spectune.judge.paired import PairedJudge
from spectune.load.generator import HttpLoad
from spectune.provision import hardware, llama_server, models
from spectune.workload import builtin_source
from tests.support.tiny_gguf import make_tiny

BASELINE = Candidate()
# The same server under another name: a setting that llama-server has by default changes nothing.
TWIN = Candidate(knobs={"n-predict": -1})


class Bench:
    """Runs single arms and judges them as a campaign would."""

    def __init__(self, model: Path, spec: CampaignSpec, folder: Path) -> None:
        self._spec = spec
        self._clock = SystemClock()
        binary = llama_server.ensure("auto", lambda text, fraction: None)
        self._service = Service(
            "llama.cpp",
            str(binary),
            str(model),
            {"threads": 1, "ctx-size": 2048, "parallel": 2},
            {},
            "127.0.0.1",
            1,
            "m",
        )
        self._deployer = LocalProcesses(folder, self._clock)
        self._load = HttpLoad(self._clock, hardware.load_average, hardware.usable_cores())
        self._prompts = builtin_source(max_tokens=spec.workload.max_tokens)
        self._started = 0

    def opened(self) -> CampaignOpened:
        machine = Hardware("", "", hardware.usable_cores(), 0)
        provenance = Provenance("bench", llama_server.RELEASE, machine, self._prompts.info)
        return CampaignOpened(self._clock.now(), self._spec, self._service, BASELINE, provenance)

    def arm(self, number: int, candidate: Candidate, purpose: Purpose) -> list[Event]:
        """One deployment of the baseline's settings, recorded as a trial of `candidate`."""
        self._started += 1
        events: list[Event] = [TrialStarted(self._clock.now(), number, 1, candidate, purpose, "")]
        launch = LlamaCpp().launch(replace(self._service, port=free_port("127.0.0.1")), BASELINE)
        with self._deployer.deploy(launch, f"bench.{self._started}") as running:
            deployment = Deployment((), {}, launch.url, running.pid, running.started_unix, running.ready_s, 0.0, Seen())
            events.append(Deployed(self._clock.now(), number, deployment))
            events.append(Verified(self._clock.now(), number, Verification((Finding("bench", Status.OK, "", ""),))))
            target = Target(launch.url, launch.model_id, lambda: None, {}, launch.keep_alive)
            for lane, cell in enumerate(self._spec.cells):
                limits = Limits(self._spec.budget.cell_seconds, 1e-6)
                prompts = self._prompts.deal(lane, len(self._spec.cells))
                found = self._load.measure(target, cell, prompts, limits, lambda text: None)
                events.append(Measured(self._clock.now(), number, found.measurement, found.records))
        events.append(TrialEnded(self._clock.now(), number, TrialState.VALID, ""))
        return events

    def attempt(self, pairs: int) -> tuple[Verdict, int]:
        """A whole try: the last verdict, and how many pairs it took until it was a tie (or all there were)."""
        history = History.of([self.opened()])
        arms = [(BASELINE, Purpose.BASELINE)] * 2
        arms += [(BASELINE if index % 4 in {0, 3} else TWIN, Purpose.CONFIRM) for index in range(2 * pairs)]
        verdict = Verdict(Decision.INCONCLUSIVE, "", BASELINE.id)
        for number, (candidate, purpose) in enumerate(arms, start=1):
            for event in self.arm(number, candidate, purpose):
                history = history.then(event)
            verdict = PairedJudge().decide(self._spec, history, history.trials[number])
            history = history.then(Decided(self._clock.now(), number, verdict))
            confirmed = (number - 2) // 2
            if number > 2 and number % 2 == 0 and confirmed >= 4 and verdict.decision is Decision.TIE:
                return self._of_twin(history), confirmed
        return self._of_twin(history), pairs

    def _of_twin(self, history: History) -> Verdict:
        last = max(n for n, t in history.trials.items() if t.candidate.id == TWIN.id)
        return PairedJudge().decide(self._spec, history, history.trials[last])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=8, help="most A B pairs of a try; it ends early at a tie")
    parser.add_argument("--seconds", type=float, default=5.0, help="measured in each deployment")
    parser.add_argument("--model", choices=("tiny", "builtin"), default="tiny")
    parser.add_argument("--min-gain", type=float, default=0.03, help="a tie is a difference provably smaller than this")
    asked = parser.parse_args()
    spec = CampaignSpec(
        name="aa",
        workload=WorkloadSpec(concurrency=(1,), temperatures=(0.0,), max_tokens=32),
        objective=ObjectiveSpec(min_gain=asked.min_gain),
        budget=BudgetSpec(cell_seconds=asked.seconds, confirm_pairs=asked.pairs),
    )
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = models.ensure_builtin(lambda text, fraction: None)
        if asked.model == "tiny":
            make_tiny(model, folder / "tiny.gguf")
            model = folder / "tiny.gguf"
        bench = Bench(model, spec, folder / "logs")
        print("| try | verdict | pairs | gain (95 %) | minutes | load average |\n| --- | --- | --- | --- | --- | --- |")
        for index in range(asked.tries):
            began = time.monotonic()
            verdict, pairs = bench.attempt(asked.pairs)
            counts[verdict.decision.value] += 1
            gain = verdict.overall.percent if verdict.overall else "unknown"
            minutes = (time.monotonic() - began) / 60
            load = hardware.load_average()
            print(f"| {index + 1} | {verdict.decision} | {pairs} | {gain} | {minutes:.1f} | {load:.1f} |", flush=True)
    print(f"\n{dict(counts)}", file=sys.stderr)


if __name__ == "__main__":
    main()
