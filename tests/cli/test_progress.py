"""What is printed while a campaign runs."""

from __future__ import annotations

import io

from rich.console import Console

from spectune.cli.progress import ConsoleObserver
from spectune.domain.events import CampaignResumed
from spectune.domain.history import History
from tests.ledger.samples import opened


def test_a_run_that_was_interrupted_before_its_first_trial_names_none() -> None:
    out = io.StringIO()
    observer = ConsoleObserver(Console(file=out, width=120), lambda: 0.0)
    observer.event(CampaignResumed(1.0, "0.1"), History.of([opened()]))
    assert "no trial of it had ended" in out.getvalue()
    assert "trial 0" not in out.getvalue()
