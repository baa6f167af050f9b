"""One case of a check: what was asked, what was observed, and how the check must end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spectune.domain.asked import Asked
from spectune.domain.finding import Status
from spectune.verify.observed import Observed


@dataclass(frozen=True, slots=True)
class Case:
    """Attributes:
    status: how the check ends.
    says: words that its finding must show under "seen".
    """

    status: Status
    asked: Asked
    observed: Observed
    says: str = ""


def ok(asked: Asked, observed: Observed, says: str = "") -> Case:
    return Case(Status.OK, asked, observed, says)


def violated(asked: Asked, observed: Observed, says: str = "") -> Case:
    return Case(Status.VIOLATED, asked, observed, says)


def unknown(asked: Asked, observed: Observed, says: str = "") -> Case:
    return Case(Status.UNKNOWN, asked, observed, says)


Cases = Mapping[str, tuple[Case, ...]]
"""Check -> its cases."""
