"""When a service that has users may be stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from spectune.domain.errors import HostError

SPAN = r"^(([01]\d|2[0-3]):[0-5]\d)-(([01]\d|2[0-3]):[0-5]\d)$"
"""Spelling of a span of the day, as a pattern that JSON Schema knows too."""


def _span(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(SPAN, value):
        return value
    raise PydanticCustomError("span", "should be a span of the day, such as '01:00-05:00'")


Span = Annotated[str, Field(pattern=SPAN), BeforeValidator(_span)]
"""A span of the day: "01:00-05:00"."""


@dataclass(frozen=True, slots=True)
class DrainSpec:
    """When a unit that serves may be stopped. Its users' requests are cut off unless busy_requests is set."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    busy_requests: Annotated[
        int | None,
        Field(
            ge=0, description="Stop it only while at most so many requests run or wait in it; null stops it at once."
        ),
    ] = None
    wait_s: Annotated[
        float, Field(ge=0, description="Wait so many seconds for that, then refuse; 0 refuses at once.")
    ] = 600.0


@dataclass(frozen=True, slots=True)
class Busy:
    """What a server has to do at one moment.

    Attributes:
        running, waiting: requests.
        source: page that tells.
    """

    running: int
    waiting: int
    source: str

    @property
    def requests(self) -> int:
        return self.running + self.waiting

    @property
    def words(self) -> str:
        """ "3 requests run and 1 waits (GET /metrics)"."""
        running = f"{self.running} request{'s' * (self.running != 1)} run{'s' * (self.running == 1)}"
        waiting = f"{self.waiting} wait{'s' * (self.waiting == 1)}"
        return f"{running} and {waiting} (GET {self.source})"


class ServiceBusy(HostError):
    """A service has more to do than it may be stopped with. Nothing was changed."""
