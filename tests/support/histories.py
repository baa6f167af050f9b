"""Small histories for tests of pure logic: a few lines say what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Hardware, Service
from spectune.domain.estimate import Ratio
from spectune.domain.events import CampaignOpened, Decided, Event, Provenance, TrialEnded, TrialStarted
from spectune.domain.history import History
from spectune.domain.spec import BudgetSpec, CampaignSpec, SearchSpec, SpeculationSpace
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Decision, Effect, Verdict
from spectune.domain.workload import WorkloadInfo

BASELINE = Candidate()
DRAFTS = SpeculationSpace(Method.DRAFT, depths=(1, 2, 3, 4), draft_model="/d.gguf")


def draft(depth: int) -> Candidate:
    return Candidate(Speculation(Method.DRAFT, depth, draft_model="/d.gguf"))


def spec(**changes: object) -> CampaignSpec:
    """Draft depths 1 to 4, no other settings, two confirming pairs."""
    base = CampaignSpec(
        name="t", search=SearchSpec(speculation=(DRAFTS,)), budget=BudgetSpec(minutes=60, trials=40, confirm_pairs=2)
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def opened(campaign: CampaignSpec | None = None) -> CampaignOpened:
    service = Service("llama.cpp", "/bin/llama-server", "/m.gguf", {"threads": 2}, {}, "127.0.0.1", 8080, "m")
    hardware = Hardware("host", "cpu", 2, 1 << 30)
    provenance = Provenance("0", "b1", hardware, WorkloadInfo("builtin", "0", 1, {"chat": 1}))
    return CampaignOpened(0.0, campaign or spec(), service, BASELINE, provenance)


def verdict(decision: Decision, value: float = 1.0, slices: Sequence[tuple[float, float]] = ()) -> Verdict:
    """A verdict of one overall ratio, with (value, low) of further slices."""
    effects = tuple(Effect("c1 T0", "", Ratio(v, low, 2 * v - low, 4)) for v, low in slices)
    return Verdict(decision, "", BASELINE.id, Ratio(value, value - 0.05, value + 0.05, 4), effects)


class Story:
    """Builds a history trial by trial; every trial takes a minute."""

    def __init__(self, campaign: CampaignSpec | None = None) -> None:
        self.events: list[Event] = [opened(campaign)]
        self._at = 0.0

    def trial(
        self,
        candidate: Candidate,
        purpose: Purpose = Purpose.EXPLORE,
        decided: Verdict | None = None,
        state: TrialState = TrialState.VALID,
    ) -> Story:
        number = len(self.history.trials) + 1
        self.events += [
            TrialStarted(self._at, number, 1, candidate, purpose, ""),
            TrialEnded(self._at + 60, number, state, ""),
            Decided(self._at + 60, number, decided or verdict(Decision.TIE)),
        ]
        self._at += 60
        return self

    def pair(self, first: Candidate, second: Candidate, state: TrialState = TrialState.VALID) -> Story:
        """Two confirming trials side by side."""
        number = len(self.history.trials) + 1
        self.events += [
            TrialStarted(self._at, number, 1, first, Purpose.CONFIRM, "", beside=second),
            *(TrialEnded(self._at + 60, number + offset, state, "") for offset in range(2)),
            *(Decided(self._at + 60, number + offset, verdict(Decision.TIE)) for offset in range(2)),
        ]
        self._at += 60
        return self

    def baselines(self) -> Story:
        return self.trial(BASELINE, Purpose.BASELINE).trial(BASELINE, Purpose.BASELINE)

    @property
    def history(self) -> History:
        return History.of(self.events)
