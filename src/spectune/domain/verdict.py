"""Verdicts and conclusions: what was decided, by how much, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spectune.domain.estimate import Ratio


class Decision(StrEnum):
    """KEEP: the candidate becomes the incumbent. REVERT: it is slower or breaks a constraint.
    TIE: the difference is provably smaller than the minimum gain. INCONCLUSIVE: the interval does not tell."""

    KEEP = "keep"
    REVERT = "revert"
    TIE = "tie"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Effect:
    """Candidate against reference in one slice of the measurements, on the objective's metric.

    Attributes:
        cell: key of the cell; "" means all cells under the objective's weights.
        domain: "" means all domains, equally weighted.
        ratio: candidate / reference.
    """

    cell: str
    domain: str
    ratio: Ratio


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about one trial.

    Attributes:
        decision: see Decision.
        reason: in words, with numbers.
        reference: candidate id it was compared with.
        overall: ratio under the objective; None where there was nothing to compare.
        effects: by cell and domain.
        provisional: from one deployment only; a winner must be confirmed by interleaved re-measuring.
    """

    decision: Decision
    reason: str
    reference: str
    overall: Ratio | None = None
    effects: tuple[Effect, ...] = ()
    provisional: bool = True


@dataclass(frozen=True, slots=True)
class Best:
    """The best candidate of one slice.

    Attributes:
        cell, domain: as in Effect.
        candidate: id; the baseline's where nothing is provably better.
        ratio: against the baseline; None for the baseline itself.
        runner_up: id of a candidate that can't be told apart from it, "" where there is none.
    """

    cell: str
    domain: str
    candidate: str
    ratio: Ratio | None = None
    runner_up: str = ""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The answer of a campaign.

    Attributes:
        winner: candidate id; the baseline's when nothing beats it; None when there is no decision.
        changed: whether the winner differs from the baseline.
        reason: in words.
        overall: winner against baseline, from confirmed trials; None without.
        best: per level, sampling and domain.
        noise: deployment-to-deployment spread of the baseline, standard deviation of the log ratio; None when unknown.
    """

    winner: str | None
    changed: bool
    reason: str
    overall: Ratio | None = None
    best: tuple[Best, ...] = ()
    noise: float | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
