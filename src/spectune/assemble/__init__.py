"""The one place that knows concrete classes: it puts rooms together for the command line.

What needs the rooms is loaded when it is first used: numerics and database take a second to import, and
`spectune --help` needs neither.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spectune.assemble.admission import check_any_allowed, chosen
    from spectune.assemble.campaigns import (
        Prepared,
        campaign,
        open_campaign,
        prepare,
        prompt_source,
        usable_cores,
        without_secrets,
    )
    from spectune.assemble.checkup import verify
    from spectune.assemble.clock import SystemClock
    from spectune.assemble.compare_servers import Comparison, against
    from spectune.assemble.endpoints import Endpoint, look
    from spectune.assemble.ledgers import find_campaign, is_unfinished, readable, running, unfinished, writable
    from spectune.assemble.load_test import Bench, Listener, bench, new_run
    from spectune.assemble.measuring import for_url
    from spectune.assemble.named import check_model, check_program
    from spectune.assemble.outlook import Outlook, foreseen
    from spectune.assemble.planning import plan
    from spectune.assemble.promotions import (
        promote,
        promote_within,
        record_rollback,
        rollback,
        status,
    )
    from spectune.assemble.service_file import spec_from_unit
    from spectune.assemble.services import Site, around, site
    from spectune.assemble.transfer import priors
    from spectune.campaign import Campaign
    from spectune.judge.two_runs import compare_runs
    from spectune.ledger.store import SqlLedger
    from spectune.predict.export import acceptance_export, surface_csv
    from spectune.predict.outlook import Crossover

_ELSEWHERE = {
    **dict.fromkeys(("Endpoint", "look"), "assemble.endpoints"),
    **dict.fromkeys(("Bench", "Listener", "bench", "new_run"), "assemble.load_test"),
    "verify": "assemble.checkup",
    "Campaign": "campaign",
    "SqlLedger": "ledger.store",
    "SystemClock": "assemble.clock",
    **dict.fromkeys(("check_model", "check_program"), "assemble.named"),
    **dict.fromkeys(("Comparison", "against"), "assemble.compare_servers"),
    "for_url": "assemble.measuring",
    "compare_runs": "judge.two_runs",
    **dict.fromkeys(("Outlook", "foreseen"), "assemble.outlook"),
    "plan": "assemble.planning",
    **dict.fromkeys(
        ("find_campaign", "is_unfinished", "readable", "running", "unfinished", "writable"), "assemble.ledgers"
    ),
    **dict.fromkeys(("check_any_allowed", "chosen"), "assemble.admission"),
    **dict.fromkeys(("promote", "promote_within", "record_rollback", "rollback", "status"), "assemble.promotions"),
    **dict.fromkeys(("Site", "around", "site"), "assemble.services"),
    "priors": "assemble.transfer",
    "spec_from_unit": "assemble.service_file",
    "Crossover": "predict.outlook",
    **dict.fromkeys(("acceptance_export", "surface_csv"), "predict.export"),
}

__all__ = [
    "Bench",
    "Campaign",
    "Comparison",
    "Crossover",
    "Endpoint",
    "Listener",
    "Outlook",
    "Prepared",
    "Site",
    "SqlLedger",
    "SystemClock",
    "acceptance_export",
    "against",
    "around",
    "bench",
    "campaign",
    "check_any_allowed",
    "check_model",
    "check_program",
    "chosen",
    "compare_runs",
    "find_campaign",
    "for_url",
    "foreseen",
    "is_unfinished",
    "look",
    "new_run",
    "open_campaign",
    "plan",
    "prepare",
    "priors",
    "promote",
    "promote_within",
    "prompt_source",
    "readable",
    "record_rollback",
    "rollback",
    "running",
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
