"""Load tests of a running server as they are saved, and what comes out when two of them are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import NormalDist

from spectune.domain.candidate import Method
from spectune.domain.deployment import Hardware
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.measurement import Measurement, RequestRecord, Slo
from spectune.domain.metrics import MetricName
from spectune.domain.redaction import redact_text
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Sampling, WorkloadInfo

FORMAT = 1
"""Version of the form of saved runs."""

RUN_SD = 0.015
"""How much one run of a server differs from its next by itself, standard deviation of the log: as on the
usual machine of docs/statistics.md."""


@dataclass(frozen=True, slots=True)
class BenchRun:
    """One load test. Secrets are left out or replaced by "***".

    Attributes:
        spectune: version of this program.
        started_unix: seconds since the epoch.
        url: base URL of the server, without user, password or key.
        model: name that was sent.
        engine, engine_version: as the server's own pages tell; "" where none was recognised.
        method, depth: speculation that the server says is live; None where it does not tell.
        client: the machine that sent the requests.
        workload: what was asked.
        api: endpoint that was asked ("chat", "completions").
        seconds, precision: limits of each cell.
        slo: what goodput counts; None where none was stated.
        cells: what was measured, in order.
        records: cell key -> every request of it; empty where they were not kept.
        format: version of this form.
    """

    spectune: str
    started_unix: float
    url: str
    model: str
    engine: str
    engine_version: str
    method: Method | None
    depth: int | None
    client: Hardware
    workload: WorkloadInfo
    api: str
    seconds: float
    precision: float
    slo: Slo | None = None
    cells: tuple[Measurement, ...] = ()
    records: Mapping[str, tuple[RequestRecord, ...]] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def measured(self) -> tuple[MeasuredCell, ...]:
        """Cells with the records that were kept of them."""
        return tuple(MeasuredCell(m, self.records.get(m.cell.key, ())) for m in self.cells)

    def adding(self, cell: MeasuredCell, keep_records: bool) -> BenchRun:
        """The run with one more cell; what servers wrote into their errors is kept without secrets."""
        more = replace(self, cells=(*self.cells, cell.measurement))
        if not keep_records:
            return more
        kept = tuple(replace(r, detail=redact_text(r.detail)) if r.detail else r for r in cell.records)
        return replace(more, records={**self.records, cell.measurement.cell.key: kept})


class Word(StrEnum):
    """What a comparison of two runs says about one metric at one level."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE_SHOWN = "no difference shown"
    NOT_COMPARABLE = "not comparable"


class Obstacle(StrEnum):
    """What makes two runs answers to different questions."""

    WORKLOAD = "workload"
    SAMPLING = "sampling"
    MACHINE = "machine"


class Basis(StrEnum):
    """What a ratio was computed from."""

    PAIRS = "pairs"
    """Requests of both runs for the same prompts; the geometric mean of their ratios."""
    ESTIMATES = "estimates"
    """The two values with their intervals."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The second run against the first in one metric at one level.

    Attributes:
        metric: what is compared.
        before, after: the values of the first and of the second run.
        word: see Word; holds for all differences of the comparison together.
        basis: what the ratio comes from; None where there is none.
        ratio: after / before with the interval of this difference alone; None where it is not comparable.
        p_value: that equal servers differ so much, adjusted for all differences (Holm).
    """

    metric: MetricName
    before: Estimate
    after: Estimate
    word: Word
    basis: Basis | None = None
    ratio: Ratio | None = None
    p_value: float | None = None


@dataclass(frozen=True, slots=True)
class ComparedLevel:
    """One level of two runs.

    Attributes:
        level: label.
        sampling: of the first run, or of the run that has the level.
        differences: one a metric; empty where only one run has the level.
        note: why it is not compared, or what to know about it; "" where there is nothing.
        doubts: names of the doubts that either run has here.
    """

    level: str
    sampling: Sampling
    differences: tuple[Difference, ...] = ()
    note: str = ""
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs side by side.

    Attributes:
        levels: in the order of the first run, then those that only the second has.
        obstacles: what differs so that nothing is comparable -> in words, with both values.
        overlooked: the same for what was told to be overlooked.
        changes: what else differs and may be the reason for a difference ("engine version": "b1 and b2").
        tests: differences judged together.
        run_sd: standard deviation of two runs of one server that the intervals allow for, relative.
        confidence: of each interval, and of all words together.
    """

    levels: tuple[ComparedLevel, ...]
    obstacles: Mapping[Obstacle, str]
    overlooked: Mapping[Obstacle, str]
    changes: Mapping[str, str]
    tests: int
    run_sd: float
    confidence: float = 0.95


def log_variance(estimate: Estimate) -> float | None:
    """Variance of the logarithm, from the interval's width; None where the interval or the value says nothing."""
    if not (0 < estimate.low <= estimate.value <= estimate.high < math.inf):
        return None
    return (math.log(estimate.high / estimate.low) / 2 / _normal(estimate.confidence)) ** 2


def quotient(new: Estimate, old: Estimate, extra_variance: float = 0.0, confidence: float = 0.95) -> Ratio | None:
    """new / old, both log-normal and independent; None where one is not above zero.

    Args:
        extra_variance: of the logarithm of the ratio, beyond what the estimates know of.

    The bounds are 0 and inf where one of the estimates has no known spread.
    """
    if not (0 < new.value < math.inf and 0 < old.value < math.inf):
        return None
    value, n = new.value / old.value, min(new.n, old.n)
    variances = log_variance(new), log_variance(old)
    if variances[0] is None or variances[1] is None:
        return Ratio(value, 0.0, math.inf, n, confidence)
    reach = math.exp(_normal(confidence) * math.sqrt(variances[0] + variances[1] + extra_variance))
    return Ratio(value, value / reach, value * reach, n, confidence)


def _normal(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
