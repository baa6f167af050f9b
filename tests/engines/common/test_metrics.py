from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.deployment import Page
from spectune.engines.common.metrics import by_position, samples, totals

PAGE = """\
# TYPE e:tokens counter
e:tokens_total{rank="0"} 10.0
e:tokens_total{rank="1"} 5.0
# TYPE e:share gauge
e:share NaN
e:largest +Inf
e:accepted_per_pos{position="1",rank="0"} 2
e:accepted_per_pos{position="0",rank="0"} 3
e:accepted_per_pos{position="0",rank="1"} 4
e:gap{position="0"} 3
e:gap{position="2"} 1
e:unlabelled 1
"""
LONG = f"e:long {10**400}\n"


@pytest.mark.parametrize(
    "page",
    [
        None,
        Page(503, PAGE),
        Page(200, ""),
        Page(200, "not a page"),
        Page(200, PAGE + "e:tokens_total{ 3"),
        Page(200, PAGE + "e:tokens_total x\n"),
    ],
    ids=str,
)
def test_what_is_no_metrics_page_has_no_samples(page: Page | None) -> None:
    assert samples(page) == ()


def test_totals_are_summed_over_their_labels() -> None:
    names = {"e:tokens_total": "tokens", "e:share": "share", "e:largest": "largest", "e:gone": "gone"}
    assert totals(samples(Page(200, PAGE + LONG)), {**names, "e:long": "long"}) == {"tokens": 15}


@pytest.mark.parametrize(
    ("name", "told"), [("e:accepted_per_pos", (7, 2)), ("e:gap", ()), ("e:unlabelled", ()), ("e:gone", ())]
)
def test_positions_are_told_when_none_is_missing(name: str, told: tuple[int, ...]) -> None:
    assert by_position(samples(Page(200, PAGE)), name) == told


@given(st.text() | st.text(alphabet='a{}="\\ 1#\n,.').map(lambda text: f"a{{{text}"))
def test_of_any_text_only_finite_samples_are_read(text: str) -> None:
    assert all(math.isfinite(sample.value) and sample.name in text + "a" for sample in samples(Page(200, text)))
