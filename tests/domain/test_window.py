from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.domain.window import Window, minutes

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: object = UTC) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("span", "now", "begin", "end"),
    [
        ("01:00-05:00", "2026-03-01 00:59", "2026-03-01 01:00", "2026-03-01 05:00"),
        ("01:00-05:00", "2026-03-01 01:00", "2026-03-01 01:00", "2026-03-01 05:00"),
        ("01:00-05:00", "2026-03-01 04:59", "2026-03-01 01:00", "2026-03-01 05:00"),
        ("01:00-05:00", "2026-03-01 05:00", "2026-03-02 01:00", "2026-03-02 05:00"),
        ("22:30-04:00", "2026-03-01 23:00", "2026-03-01 22:30", "2026-03-02 04:00"),
        ("22:30-04:00", "2026-03-02 03:59", "2026-03-01 22:30", "2026-03-02 04:00"),
        ("22:30-04:00", "2026-03-02 04:00", "2026-03-02 22:30", "2026-03-03 04:00"),
        ("00:00-23:59", "2026-12-31 23:59", "2027-01-01 00:00", "2027-01-01 23:59"),
    ],
)
def test_the_window_that_is_open_or_the_next(span: str, now: str, begin: str, end: str) -> None:
    assert Window.parse(span, UTC).around(at(now)) == (at(begin), at(end))


@pytest.mark.parametrize(
    ("span", "now", "hours"),
    [
        # Clocks go from 02:00 to 03:00, and from 03:00 to 02:00.
        ("01:00-05:00", "2026-03-29 00:30", 3),
        ("01:00-05:00", "2026-10-25 00:30", 5),
        ("22:00-04:00", "2026-03-28 21:00", 5),
    ],
)
def test_days_on_which_clocks_are_changed(span: str, now: str, hours: int) -> None:
    begin, end = Window.parse(span, BERLIN).around(at(now, BERLIN))
    assert end - begin == 3600 * hours


def test_a_window_that_the_clock_change_leaves_out_is_skipped() -> None:
    window = Window.parse("02:00-03:00", BERLIN)
    begin, end = window.around(at("2026-03-29 00:30", BERLIN))
    assert (window.words(begin), end - begin) == ("2026-03-30 02:00 CEST", 3600)


@pytest.mark.parametrize("text", ["1:00-5:00", "01:00", "25:00-05:00", "01:60-05:00", "01:00 to 05:00", "01:00-01:00"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Window.parse(text)


def test_without_a_zone_it_is_the_machines_own() -> None:
    now = datetime.now().timestamp()
    later = datetime.fromtimestamp(now) + timedelta(hours=1)
    window = Window.parse(f"{later:%H:%M}-{later + timedelta(hours=1):%H:%M}")
    begin, _ = window.around(now)
    assert 3400 < begin - now <= 3600
    assert window.words(begin).split()[2] == datetime.fromtimestamp(begin).astimezone().tzname()


@given(st.integers(0, 1439), st.integers(0, 1439), st.floats(1.6e9, 1.9e9), st.sampled_from([UTC, BERLIN, None]))
def test_the_next_window_begins_after_this_one_and_within_two_days(
    first: int, last: int, now: float, zone: ZoneInfo | None
) -> None:
    if first == last:
        return
    texts = [f"{one // 60:02d}:{one % 60:02d}" for one in (first, last)]
    window = Window.parse("-".join(texts), zone)
    begin, end = window.around(now)
    assert begin < end
    assert now < end
    following = window.around(end)
    assert end <= following[0] < following[1]
    assert begin - now <= 2 * 86400 + 3600


def test_time_spans_for_people() -> None:
    assert [minutes(seconds) for seconds in (5, 99, 100, 7200)] == ["5 s", "99 s", "2 min", "120 min"]
