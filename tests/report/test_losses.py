"""Where the candidate of the answer is slower than what you have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.report import render_html, render_json, render_markdown
from spectune.report.data import build
from spectune.report.losses import losses
from spectune.report.model import CandidateData, Cost, Interval
from spectune.report.tabular import read_json
from tests.report import sample

DATA = build(sample.decided(), "c1")
CELL = DATA.cells[0]


def interval(low: float | None, value: float, high: float | None) -> Interval:
    return Interval(value, low, high, 20, 0.95)


def made(per_user: Interval | None, together: Interval | None, answer: bool) -> CandidateData:
    """A candidate measured in one cell; the baseline if it is not the answer."""
    known = next(c for c in DATA.candidates if c.is_answer is answer and c.is_baseline is not answer)
    return replace(known, cells=(replace(known.cells[0], per_user=per_user, aggregate=together),))


@pytest.mark.parametrize(
    ("before", "after", "lower"),
    [
        (interval(98, 100, 102), interval(78, 80, 82), True),
        (interval(98, 100, 102), interval(90, 95, 99), False),
        (interval(98, 100, 102), interval(110, 120, 130), False),
        (interval(99.9, 100, 100.1), interval(99.4, 99.5, 99.6), False),
        (interval(None, 100, None), interval(78, 80, 82), False),
        (interval(98, 100, 102), interval(None, 80, None), False),
        (None, interval(78, 80, 82), False),
        (interval(98, 100, 102), None, False),
    ],
)
def test_a_speed_is_lower_where_the_intervals_are_apart(
    before: Interval | None, after: Interval | None, lower: bool
) -> None:
    for each, together in (((before, after), (None, None)), ((None, None), (before, after))):
        pair = [made(each[0], together[0], False), made(each[1], together[1], True)]
        assert bool(losses(pair, (CELL,))) is lower


def test_the_largest_loss_comes_first() -> None:
    fast, slow, slower = interval(98, 100, 102), interval(78, 80, 82), interval(49, 50, 51)
    found = losses([made(fast, fast, False), made(slow, slower, True)], (CELL,))
    assert found == (
        Cost(f"aggregate speed, {CELL.label}", "100\u00a0tok/s", "50.0\u00a0tok/s (\u221250\u00a0%)"),
        Cost(f"per-user speed, {CELL.label}", "100\u00a0tok/s", "80.0\u00a0tok/s (\u221220\u00a0%)"),
    )


@pytest.mark.parametrize("name", ["nothing-better", "broken-baseline", "just-opened"])
def test_what_you_have_loses_nothing_against_itself(name: str) -> None:
    assert build(sample.HISTORIES[name](), "c1").answer.losses == ()


def test_a_report_written_before_losses_were_told_is_read() -> None:
    text = render_json(replace(DATA, answer=replace(DATA.answer, losses=())))
    assert read_json(text.replace('"losses": []', '"other": []')).answer.losses == ()
    assert losses(DATA.candidates, DATA.cells) == DATA.answer.losses


def test_every_form_of_the_report_tells_them() -> None:
    lost = (Cost("aggregate speed, 64 users", "1 578 tok/s", "1 320 tok/s"),)
    data = replace(DATA, answer=replace(DATA.answer, losses=lost))
    for text in (render_html(data), render_markdown(data), render_json(data)):
        for word in ("aggregate speed, 64 users", "1 578 tok/s", "1 320 tok/s"):
            assert word in text
