"""Trials: a candidate deployed, verified and measured, as folded from the ledger's events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Deployment
from spectune.domain.finding import ProbeRun, Verification
from spectune.domain.measurement import Measurement, RequestRecord
from spectune.domain.verdict import Verdict


class Purpose(StrEnum):
    """Why a trial is made: the service as it is; something new; the incumbent again, because the machine may have
    drifted; or one arm of the interleaved comparison that confirms a winner."""

    BASELINE = "baseline"
    EXPLORE = "explore"
    ANCHOR = "anchor"
    CONFIRM = "confirm"


class TrialState(StrEnum):
    """RUNNING also describes a trial that was cut off by a kill; resuming starts it again as a new attempt."""

    RUNNING = "running"
    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"
    PRUNED = "pruned"


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """A measurement with the raw records behind it."""

    measurement: Measurement
    records: tuple[RequestRecord, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """Attributes:
    number: 1, 2, ... in a campaign; an attempt after a kill keeps the number.
    attempt: 1, unless earlier attempts were cut off.
    purpose, reason: why it was proposed.
    state, state_reason: how it ended; for INVALID the reason is a short key with words after a colon.
    log: the end of the server's log where the trial failed.
    probes: greedy answers to the probe prompts, for comparison with the baseline's.
    cells: cell key -> what was measured.
    beside: number of the trial on a second server that this one is measured in turns with; None where it is alone.
    started_at, ended_at: seconds since the epoch.
    """

    number: int
    attempt: int
    candidate: Candidate
    purpose: Purpose
    reason: str
    started_at: float
    state: TrialState = TrialState.RUNNING
    state_reason: str = ""
    log: str = ""
    deployment: Deployment | None = None
    verification: Verification = field(default_factory=Verification)
    probes: tuple[ProbeRun, ...] = ()
    cells: Mapping[str, MeasuredCell] = field(default_factory=dict)
    verdict: Verdict | None = None
    beside: int | None = None
    ended_at: float | None = None

    @property
    def valid(self) -> bool:
        """Whether it may be compared. UNKNOWN trials (a check could not tell) are compared, never promoted."""
        return self.state in {TrialState.VALID, TrialState.UNKNOWN}


def partners(trials: Iterable[Trial]) -> dict[int, int]:
    """Number of each trial of a confirmation -> number of the other one of its pair: the trial beside it, or else its
    neighbour among those measured one after the other (B A A B ...). A trial whose partner is to come is absent."""
    confirming = [trial for trial in trials if trial.purpose is Purpose.CONFIRM]
    found = {trial.number: trial.beside for trial in confirming if trial.beside is not None}
    alone = [trial.number for trial in confirming if trial.beside is None]
    for first, second in zip(alone[::2], alone[1::2], strict=False):
        found |= {first: second, second: first}
    return found
