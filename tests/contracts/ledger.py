"""What every ledger must do, whatever database holds it. A subclass gives the `store` fixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

import pytest

from spectune.domain.candidate import Candidate
from spectune.domain.errors import LedgerError
from spectune.domain.events import CampaignResumed, Event, Promoted, RolledBack
from spectune.domain.history import History
from spectune.domain.ports import CampaignRow, Ledger
from tests.ledger.samples import BASELINE, DRAFT, ended, measured, opened, records, started, trial_events


class ResumableLedger(Ledger, Protocol):
    """A ledger that finds a campaign to resume."""

    def latest(self, name: str) -> str | None: ...

    def in_service(self) -> tuple[tuple[str, Promoted | RolledBack], ...]: ...


Store = Callable[[], AbstractContextManager[ResumableLedger]]
"""Opens the same store, for writing, every time it is called."""


UNKEEPABLE: dict[str, Event] = {
    "integer too large": replace(measured(1), records=(replace(records(1)[0], sent_ns=1 << 64),)),
    "text of a record": replace(measured(1), records=(*records(3), replace(records(1)[0], detail="\udcff"))),
    "text in the body": replace(started(1), reason="\udcff"),
    "no knob value": replace(started(1), candidate=Candidate(knobs={"a": [1]})),  # type: ignore[dict-item]
}


class LedgerContract:
    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def ledger(self, store: Store) -> Iterator[ResumableLedger]:
        with store() as ledger:
            yield ledger

    def test_a_fresh_ledger_is_empty(self, ledger: ResumableLedger) -> None:
        assert ledger.campaigns() == ()
        assert ledger.latest("demo") is None

    def test_events_come_back_in_order_and_exactly(self, ledger: ResumableLedger) -> None:
        written: list[Event] = [opened(), *trial_events(1, BASELINE), *trial_events(2), ended()]
        campaign = ledger.open(opened())
        for event in written[1:]:
            ledger.append(campaign, event)
        assert repr(list(ledger.events(campaign))) == repr(written)

    def test_another_process_finds_everything(self, store: Store) -> None:
        with store() as ledger:
            campaign = ledger.open(opened())
            for event in trial_events(1):
                ledger.append(campaign, event)
        with store() as ledger:
            resumed = CampaignResumed(60.0, "0.1.0", ("pid 3",))
            ledger.append(campaign, resumed)
            assert list(ledger.events(campaign)) == [opened(), *trial_events(1), resumed]
            assert History.of(ledger.events(campaign)).trials[1].cells["c2 T0.7"].records == records(5)

    @pytest.mark.parametrize("count", [0, 1, 2000])
    def test_records_are_kept_whatever_their_number(self, ledger: ResumableLedger, count: int) -> None:
        campaign = ledger.open(opened())
        ledger.append(campaign, started(1))
        ledger.append(campaign, measured(1, count))
        ledger.append(campaign, measured(1, 3))
        assert list(ledger.events(campaign))[2:] == [measured(1, count), measured(1, 3)]

    def test_campaigns_do_not_mix(self, ledger: ResumableLedger) -> None:
        first, second = ledger.open(opened("a")), ledger.open(opened("b"))
        ledger.append(second, started(1))
        ledger.append(first, measured(7))
        ledger.append(second, measured(1))
        assert list(ledger.events(first)) == [opened("a"), measured(7)]
        assert list(ledger.events(second)) == [opened("b"), started(1), measured(1)]

    def test_events_may_be_appended_while_others_are_read(self, ledger: ResumableLedger) -> None:
        campaign = ledger.open(opened())
        ledger.append(campaign, measured(1))
        ledger.append(campaign, measured(2))
        reading = ledger.events(campaign)
        assert next(reading) == opened()
        ledger.append(campaign, measured(3))
        assert list(reading) == [measured(1), measured(2)]

    def test_promotions_of_all_campaigns_in_the_order_of_time(self, ledger: ResumableLedger) -> None:
        first, second = ledger.open(opened("a")), ledger.open(opened("b"))
        assert ledger.in_service() == ()
        early = Promoted(100.0, DRAFT.id, DRAFT.label, "llm.service", "box", 1, "/etc/x", "because")
        undone = RolledBack(200.0, "llm.service", "box", 1)
        late = replace(early, at=300.0)
        for campaign, event in ((second, early), (first, late), (second, undone), (second, started(1))):
            ledger.append(campaign, event)
        assert ledger.in_service() == ((second, early), (second, undone), (first, late))
        assert list(ledger.events(second)) == [opened("b"), early, undone, started(1)]

    def test_ids_are_unique_and_name_the_campaign(self, ledger: ResumableLedger) -> None:
        ids = [ledger.open(opened("same")) for _ in range(20)]
        assert len(set(ids)) == 20
        assert all(id.startswith("same-20260301-142530-") for id in ids)

    def test_ids_of_a_name_sort_by_time(self, ledger: ResumableLedger) -> None:
        ids = [ledger.open(opened(at=1_772_375_130.0 + 700 * n)) for n in range(10)]
        assert ids == sorted(ids)

    def test_latest_is_the_newest_of_its_name(self, ledger: ResumableLedger) -> None:
        ledger.open(opened("a"))
        newest = ledger.open(opened("a"))
        ledger.open(opened("ab"))
        assert ledger.latest("a") == newest
        assert ledger.latest("A") is None

    def test_latest_goes_by_order_when_the_clock_went_back(self, ledger: ResumableLedger) -> None:
        ledger.open(opened(at=2e9))
        newest = ledger.open(opened(at=1e9))
        assert ledger.latest("demo") == newest
        assert ledger.campaigns()[0].id == newest

    def test_list_of_campaigns(self, ledger: ResumableLedger) -> None:
        running, won, unchanged, undecided, again = (ledger.open(opened(name)) for name in "abcde")
        ledger.append(running, started(1))
        for campaign in (won, unchanged, again):
            for event in (*trial_events(1, BASELINE), *trial_events(2), started(2, attempt=2)):
                ledger.append(campaign, event)
        ledger.append(won, ended(DRAFT.id))
        ledger.append(unchanged, ended(BASELINE.id))
        ledger.append(undecided, ended(None))
        ledger.append(again, ended(DRAFT.id))
        ledger.append(again, CampaignResumed(99.0, "0.1.0"))
        at = opened().at
        assert ledger.campaigns() == (
            CampaignRow(again, "e", at, 2, False, ""),
            CampaignRow(undecided, "d", at, 0, True, ""),
            CampaignRow(unchanged, "c", at, 2, True, "none"),
            CampaignRow(won, "b", at, 2, True, DRAFT.label),
            CampaignRow(running, "a", at, 1, False, ""),
        )

    def test_the_list_tells_what_is_simulated(self, ledger: ResumableLedger) -> None:
        real = opened()
        ledger.open(replace(real, provenance=replace(real.provenance, simulated="a simulated SGLang")))
        assert [row.simulated for row in ledger.campaigns()] == ["a simulated SGLang"]

    def test_a_winner_that_was_never_tried_is_shown_by_its_id(self, ledger: ResumableLedger) -> None:
        ledger.append(ledger.open(opened()), ended("0badc0de"))
        assert ledger.campaigns()[0].winner == "0badc0de"

    def test_an_unknown_campaign_is_an_error_that_names_the_nearest(self, ledger: ResumableLedger) -> None:
        campaign = ledger.open(opened())
        wrong = campaign[:-1] + "x"
        for attempt in (lambda: ledger.append(wrong, started(1)), lambda: ledger.events(wrong)):
            with pytest.raises(LedgerError, match=wrong) as caught:
                attempt()
            assert campaign in caught.value.advice

    def test_a_campaign_is_opened_once(self, ledger: ResumableLedger) -> None:
        campaign = ledger.open(opened())
        with pytest.raises(LedgerError, match="second time"):
            ledger.append(campaign, opened())
        assert list(ledger.events(campaign)) == [opened()]

    @pytest.mark.parametrize("bad", UNKEEPABLE.values(), ids=UNKEEPABLE)
    def test_what_can_not_be_kept_exactly_is_refused_whole(self, ledger: ResumableLedger, bad: Event) -> None:
        campaign = ledger.open(opened())
        with pytest.raises(LedgerError):
            ledger.append(campaign, bad)
        ledger.append(campaign, started(1))
        assert list(ledger.events(campaign)) == [opened(), started(1)]
