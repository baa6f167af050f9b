"""The one place that knows concrete classes: it puts rooms together for the command line."""

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
