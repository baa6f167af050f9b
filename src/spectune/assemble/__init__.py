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
        open_campaign,
        prepare,
        prompt_source,
        usable_cores,
        without_secrets,
    )
    from spectune.assemble.clock import SystemClock
    from spectune.assemble.compare_servers import against
    from spectune.assemble.endpoints import Bench, Endpoint, Listener, bench, look, new_run, verify
    from spectune.assemble.ledgers import find_campaign, readable, unfinished, writable
    from spectune.assemble.measuring import for_url
    from spectune.assemble.planning import earlier, plan
    from spectune.assemble.promotions import chosen, promote, promote_within, record_rollback, rollback, status
    from spectune.assemble.service_file import spec_from_unit
    from spectune.assemble.services import Site, around, site
    from spectune.campaign import Campaign
    from spectune.judge.two_runs import compare_runs
    from spectune.ledger.store import SqlLedger
    from spectune.predict.export import acceptance_export, surface_csv

_ELSEWHERE = {
    **dict.fromkeys(("Bench", "Endpoint", "Listener", "bench", "look", "new_run", "verify"), "assemble.endpoints"),
    "Campaign": "campaign",
    "SqlLedger": "ledger.store",
    "SystemClock": "assemble.clock",
    "against": "assemble.compare_servers",
    "for_url": "assemble.measuring",
    "compare_runs": "judge.two_runs",
    **dict.fromkeys(("earlier", "plan"), "assemble.planning"),
    **dict.fromkeys(("find_campaign", "readable", "unfinished", "writable"), "assemble.ledgers"),
    **dict.fromkeys(
        ("chosen", "promote", "promote_within", "record_rollback", "rollback", "status"), "assemble.promotions"
    ),
    **dict.fromkeys(("Site", "around", "site"), "assemble.services"),
    "spec_from_unit": "assemble.service_file",
    **dict.fromkeys(("acceptance_export", "surface_csv"), "predict.export"),
}

__all__ = [
    "Bench",
    "Campaign",
    "Endpoint",
    "Listener",
    "Prepared",
    "Site",
    "SqlLedger",
    "SystemClock",
    "acceptance_export",
    "against",
    "around",
    "bench",
    "campaign",
    "chosen",
    "compare_runs",
    "earlier",
    "find_campaign",
    "for_url",
    "look",
    "new_run",
    "open_campaign",
    "plan",
    "prepare",
    "promote",
    "promote_within",
    "prompt_source",
    "readable",
    "record_rollback",
    "rollback",
    "site",
    "spec_from_unit",
    "status",
    "surface_csv",
    "unfinished",
    "usable_cores",
    "verify",
    "without_secrets",
    "writable",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _ELSEWHERE.get(name, "assemble.campaigns")
    return getattr(import_module(f"spectune.{module}"), name)
