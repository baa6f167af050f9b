from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectune.domain.candidate import Candidate, Speculation
from spectune.domain.errors import LedgerError
from spectune.domain.events import Event, Measured
from spectune.ledger.codec import decode, encode
from tests.ledger.generated import EVENTS
from tests.ledger.samples import decided, ended, measured, opened, started

GENERATED = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)


@given(EVENTS)
@GENERATED
def test_round_trip_is_exact(event: Event) -> None:
    bare = replace(event, records=()) if isinstance(event, Measured) else event
    # By repr, for which True is not 1, 1 is not 1.0, -0.0 is not 0.0, and a NaN is like another.
    assert repr(decode(encode(event), "c", 1)) == repr(bare)


@pytest.mark.parametrize("value", [True, False, 0, 1, 0.0, 1.0, -1, 1 << 70, "1", "true", "Infinity", "", float("inf")])
def test_knob_values_keep_their_type(value: bool | int | float | str) -> None:
    event = started(1, Candidate(Speculation(settings={"x": value}), {"y": value}))
    assert repr(decode(encode(event), "c", 1)) == repr(event)


def test_records_are_not_in_the_json() -> None:
    body = encode(measured(1, 100))
    assert "chat-0000" not in body
    assert len(body) < 3000


def _changed(event: Event, **values: object) -> str:
    return json.dumps({**json.loads(encode(event)), **values})


UNREADABLE = [
    ("", "Invalid JSON"),
    ("{", "Invalid JSON"),
    ("null", "object"),
    ("[]", "object"),
    ("{}", "'kind'"),
    (_changed(started(1), kind="trial-moved"), "trial-moved"),
    (_changed(started(1), kind="decided"), "decided"),
    (_changed(started(1), purpose="fun"), "purpose"),
    (_changed(started(1), trial=None), "trial"),
    (_changed(started(1), colour="red"), "colour"),
    (_changed(decided(1), verdict={}), "verdict"),
    (encode(opened())[:-1], "Invalid JSON"),
    (encode(ended()).replace('"changed"', '"altered"'), "changed"),
]


@pytest.mark.parametrize(("body", "why"), UNREADABLE)
def test_an_unreadable_event_is_named_by_campaign_and_seq(body: str, why: str) -> None:
    with pytest.raises(LedgerError) as caught:
        decode(body, "demo-1", 17)
    assert "event 17 of campaign 'demo-1'" in caught.value.message
    assert why in caught.value.message
    assert caught.value.advice


@given(
    st.text(max_size=40) | EVENTS.map(encode).flatmap(lambda body: st.integers(0, len(body)).map(lambda n: body[:n]))
)
@GENERATED
def test_any_text_is_an_event_or_a_ledger_error(body: str) -> None:
    try:
        event = decode(body, "c", 1)
    except LedgerError:
        return
    assert repr(decode(encode(event), "c", 1)) == repr(event)


def test_an_event_that_breaks_its_own_bounds_is_refused() -> None:
    event = opened()
    broken = replace(event, spec=replace(event.spec, budget=replace(event.spec.budget, minutes=-1.0)))
    with pytest.raises(LedgerError, match="minutes"):
        encode(broken)
