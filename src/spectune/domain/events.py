"""Events: what the ledger holds, in order. The state of a campaign is nothing but their fold (see history)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Deployment, Hardware, Service
from spectune.domain.finding import Answer, ProbeRun, Verification
from spectune.domain.measurement import Measurement, RequestRecord
from spectune.domain.priors import Prior
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Conclusion, Verdict
from spectune.domain.workload import WorkloadInfo


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where and with what a campaign runs.

    Attributes:
        spectune: version of this program.
        engine_version: as the binary tells it.
        files: role ("model", "draft model", "binary") -> sha256.
        simulated: set when nothing here was measured on a real engine.
    """

    spectune: str
    engine_version: str
    hardware: Hardware
    workload: WorkloadInfo
    files: Mapping[str, str] = field(default_factory=dict)
    simulated: str = ""


@dataclass(frozen=True, slots=True)
class CampaignOpened:
    """First event. `service` has every path and port resolved; `baseline` is the service as it is; `priors` are the
    earlier campaigns that its forecasts rest on beside its own trials."""

    at: float
    spec: CampaignSpec
    service: Service
    baseline: Candidate
    provenance: Provenance
    priors: tuple[Prior, ...] = ()
    kind: Literal["campaign-opened"] = "campaign-opened"


@dataclass(frozen=True, slots=True)
class CampaignResumed:
    """A later process took the campaign up again. `cleaned` names what it had to end or remove."""

    at: float
    spectune: str
    cleaned: tuple[str, ...] = ()
    kind: Literal["campaign-resumed"] = "campaign-resumed"


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """`beside` starts a second trial, numbered one higher, on a server of its own; the two are measured in turns."""

    at: float
    trial: int
    attempt: int
    candidate: Candidate
    purpose: Purpose
    reason: str
    beside: Candidate | None = None
    kind: Literal["trial-started"] = "trial-started"


@dataclass(frozen=True, slots=True)
class Deployed:
    at: float
    trial: int
    deployment: Deployment
    kind: Literal["deployed"] = "deployed"


@dataclass(frozen=True, slots=True)
class Verified:
    """Findings of one stage, and the greedy answers they rest on; the stages of a trial add up.

    Attributes:
        answers: as ledgers of version 1 keep them, asked one at a time; empty in newer ones.
        probes: one run for every number of requests in flight.
    """

    at: float
    trial: int
    verification: Verification
    answers: tuple[Answer, ...] = ()
    probes: tuple[ProbeRun, ...] = ()
    kind: Literal["verified"] = "verified"


@dataclass(frozen=True, slots=True)
class Measured:
    at: float
    trial: int
    measurement: Measurement
    records: tuple[RequestRecord, ...]
    kind: Literal["measured"] = "measured"


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """`log` is the end of the server's log where the trial failed, "" otherwise."""

    at: float
    trial: int
    state: TrialState
    reason: str
    log: str = ""
    kind: Literal["trial-ended"] = "trial-ended"


@dataclass(frozen=True, slots=True)
class Decided:
    at: float
    trial: int
    verdict: Verdict
    kind: Literal["decided"] = "decided"


@dataclass(frozen=True, slots=True)
class CampaignEnded:
    at: float
    conclusion: Conclusion
    kind: Literal["campaign-ended"] = "campaign-ended"


@dataclass(frozen=True, slots=True)
class CampaignPaused:
    """The maintenance window has no room for another trial; the service is as it was until the next one.

    Attributes:
        until: begin of the next window, seconds since the epoch.
    """

    at: float
    until: float
    reason: str
    kind: Literal["campaign-paused"] = "campaign-paused"


@dataclass(frozen=True, slots=True)
class Promoted:
    """A candidate went into the real service.

    Attributes:
        candidate, label: its id and name.
        unit, where: the service, and its host's name.
        number: of the promotion on that host and unit; given again once it is undone.
        file: path of what was written: a drop-in, or the changed unit file.
        words: why it was promoted although spectune would refuse; empty where it would not.
    """

    at: float
    candidate: str
    label: str
    unit: str
    where: str
    number: int
    file: str
    words: str = ""
    kind: Literal["promoted"] = "promoted"


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A promotion was undone."""

    at: float
    unit: str
    where: str
    number: int
    kind: Literal["rolled-back"] = "rolled-back"


Event = (
    CampaignOpened
    | CampaignResumed
    | CampaignPaused
    | TrialStarted
    | Deployed
    | Verified
    | Measured
    | TrialEnded
    | Decided
    | CampaignEnded
    | Promoted
    | RolledBack
)
