"""The one place that knows concrete classes: it puts rooms together for the command line.

What needs the rooms is loaded when it is first used: numerics and database take a second to import, and
`spectune --help` needs neither.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spectune.assemble.campaigns import (
        Prepared,
        campaign,
        find_campaign,
        open_campaign,
        plan,
        prepare,
        prompt_source,
        readable,
        unfinished,
        usable_cores,
        without_secrets,
        writable,
    )
    from spectune.assemble.endpoints import Bench, Endpoint, bench, look, verify

_IN_ENDPOINTS = {"Bench", "Endpoint", "bench", "look", "verify"}

__all__ = [
    "Bench",
    "Endpoint",
    "Prepared",
    "bench",
    "campaign",
    "find_campaign",
    "look",
    "open_campaign",
    "plan",
    "prepare",
    "prompt_source",
    "readable",
    "unfinished",
    "usable_cores",
    "verify",
    "without_secrets",
    "writable",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "endpoints" if name in _IN_ENDPOINTS else "campaigns"
    return getattr(import_module(f"spectune.assemble.{module}"), name)
