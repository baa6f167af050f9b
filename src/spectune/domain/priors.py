"""Trials of earlier campaigns, as a later one takes them along for its forecasts: never a result, only an expectation.

They are in the opening event, so that a resumed campaign goes on as it would have, whatever has become of the ledger
that they came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity, Counters, Deployment, Seen
from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Acceptance, Measurement
from spectune.domain.metrics import MetricName
from spectune.domain.trial import MeasuredCell, Purpose, Trial, TrialState
from spectune.domain.workload import Cell

_KEPT = (MetricName.PER_USER_SPEED, MetricName.AGGREGATE_SPEED, MetricName.TTFT_P50, MetricName.REQUEST_RATE)


@dataclass(frozen=True, slots=True)
class PriorCell:
    """What was measured in one cell.

    Attributes:
        metrics: per-user and aggregate speed, time to the first token, and rate of requests.
        in_flight: mean number of requests in flight.
        output_tokens: that the server counted meanwhile; with `acceptance` it tells the share of steps with a draft.
    """

    cell: Cell
    metrics: Mapping[MetricName, Estimate]
    in_flight: float
    acceptance: Acceptance | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class PriorTrial:
    """Attributes:
    number: in its own campaign.
    ready_s, whole_s: seconds until the server was ready, and of the whole trial.
    """

    number: int
    candidate: Candidate
    cells: tuple[PriorCell, ...]
    capacity: Capacity
    ready_s: float = 0.0
    whole_s: float = 0.0

    @classmethod
    def of(cls, trial: Trial) -> Self:
        """What forecasts need of a trial; cells with a fatal doubt are left out."""
        measured = [cell.measurement for cell in trial.cells.values()]
        cells = tuple(_prior_cell(m) for m in measured if not any(doubt.fatal for doubt in m.doubts))
        capacity = trial.deployment.seen.capacity if trial.deployment is not None else Capacity()
        ready_s = trial.deployment.ready_s if trial.deployment is not None else 0.0
        whole_s = trial.ended_at - trial.started_at if trial.ended_at is not None else 0.0
        return cls(trial.number, trial.candidate, cells, capacity, ready_s, whole_s)

    def as_trial(self, number: int) -> Trial:
        """A trial of which nothing is known but what is kept here, under a number of the reader's choice."""
        deployment = Deployment((), {}, "", 0, 0.0, self.ready_s, 0.0, Seen(capacity=self.capacity))
        cells = {kept.cell.key: MeasuredCell(_measurement(kept), ()) for kept in self.cells}
        return Trial(
            number, 1, self.candidate, Purpose.EXPLORE, "", 0.0,
            state=TrialState.VALID, deployment=deployment, cells=cells, ended_at=self.whole_s,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prior:
    """What is taken along of one earlier campaign.

    Attributes:
        campaign: its id.
        differs: what was not the same then, for people ("engine 0.5.14, now 0.5.15"); each widens the noise.
        trials: valid ones that ran alone, in order.
    """

    campaign: str
    differs: tuple[str, ...]
    trials: tuple[PriorTrial, ...]

    @property
    def label(self) -> str:
        """For people: "6 trials of campaign demo-1 (other workload)"."""
        count = "1 trial" if len(self.trials) == 1 else f"{len(self.trials)} trials"
        return f"{count} of campaign {self.campaign}" + (f" ({'; '.join(self.differs)})" if self.differs else "")


def _prior_cell(measured: Measurement) -> PriorCell:
    before, after = measured.counters_before, measured.counters_after
    counts = [page.output_tokens for page in (before, after) if page is not None and page.drafts is not None]
    tokens = counts[1] - counts[0] if len(counts) == 2 and counts[0] is not None and counts[1] is not None else None
    metrics = {name: measured.metrics[name] for name in _KEPT if name in measured.metrics}
    return PriorCell(measured.cell, metrics, measured.in_flight, measured.acceptance, tokens)


def _measurement(kept: PriorCell) -> Measurement:
    before = Counters(output_tokens=0, drafts=0) if kept.output_tokens is not None else None
    after = Counters(output_tokens=kept.output_tokens, drafts=0) if kept.output_tokens is not None else None
    return Measurement(
        kept.cell, 0.0, 0.0, kept.metrics, {}, {}, kept.in_flight, kept.acceptance,
        counters_before=before, counters_after=after,
    )  # fmt: skip
