from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.deployment import Page
from spectune.engines.vllm import PerRequest, Window, acceptance_from_metrics, window
from tests.engines.vllm.recorded import page

EMPTY = Page(200, "vllm:generation_tokens_total 0\nvllm:inter_token_latency_seconds_count 0\n")


def metrics(output: int, firsts: int, steps: int, drafts: int, drafted: int, per_position: list[int]) -> Page:
    lines = [
        f"vllm:generation_tokens_total {output}",
        f"vllm:time_to_first_token_seconds_count {firsts}",
        f"vllm:inter_token_latency_seconds_count {steps}",
        f"vllm:spec_decode_num_drafts_total {drafts}",
        f"vllm:spec_decode_num_draft_tokens_total {drafted}",
        f"vllm:spec_decode_num_accepted_tokens_total {sum(per_position)}",
    ]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{i}"}} {count}'
        for i, count in enumerate(per_position)
    ]
    return Page(200, "\n".join(lines) + "\n")


def test_recorded_counters() -> None:
    """6 requests, 1088 tokens: 1082 of them in 509 steps, of which 362 had a draft."""
    found = window(EMPTY, page("ngram", "metrics.txt"))
    assert found is not None
    assert (found.steps, found.drafts, found.drafted, found.accepted) == (509, 362, 1086, 573)
    assert found.tokens_per_step == pytest.approx(1082 / 509)
    assert found.tokens_per_draft == pytest.approx(1 + 573 / 362)
    assert found.draft_share == pytest.approx(362 / 509)
    assert found.positions == tuple((n / 362, n / 362) for n in (236, 186, 151))


def test_shorter_drafts_leave_a_range() -> None:
    """The recorded schedule of 3 and 1: 131 drafts, 160 tokens drafted, all accepted."""
    found = window(EMPTY, metrics(300, 9, 131, 131, 160, [131, 15, 14]))
    assert found is not None
    assert found.positions == ((1.0, 1.0), (15 / 131, 1.0), (14 / 131, 1.0))


def test_differences_count() -> None:
    found = window(metrics(100, 2, 50, 40, 80, [30, 10]), metrics(190, 5, 80, 60, 120, [40, 15]))
    assert found == Window(30, 20, 40, 15, 87 / 30, 1.75, ((0.5, 0.5), (0.25, 0.25)))


def test_nothing_happened() -> None:
    same = metrics(100, 2, 50, 40, 80, [30, 10])
    assert window(same, same) == Window(0, 0, 0, 0, None, None)
    assert window(EMPTY, EMPTY) == Window(0, 0, 0, 0, None, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, EMPTY),
        (EMPTY, Page(404, "")),
        (EMPTY, Page(200, "vllm:generation_tokens_total 3\n")),
        (metrics(100, 2, 50, 40, 80, [30, 10]), EMPTY),
    ],
    ids=["no page", "not found", "no steps", "restarted"],
)
def test_no_window(before: Page | None, after: Page | None) -> None:
    assert window(before, after) is None


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).map(sorted), min_size=1, max_size=50),
)
def test_the_range_holds_the_truth(drafts: list[list[int]]) -> None:
    """Each draft is (accepted, drafted); the true share at a position counts the drafts that reached it."""
    reached = [pair for pair in drafts if pair[1] > 0]
    accepted = [sum(taken > i for taken, _ in reached) for i in range(4)]
    drafted = [sum(length > i for _, length in reached) for i in range(4)]
    found = window(EMPTY, metrics(1, 1, 1, len(reached), sum(drafted), accepted))
    assert found is not None
    for (low, high), taken, tried in zip(found.positions, accepted, drafted, strict=False):
        assert 0 <= low <= high <= 1
        if tried:
            assert low <= taken / tried + 1e-9
            assert taken / tried <= high + 1e-9


def test_of_one_answer() -> None:
    body = json.loads(page("ngram", "completion.json").body)
    assert acceptance_from_metrics(body["metrics"]) == PerRequest(4, 10, 9, (3, 3, 3))


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, None),
        ([], None),
        ({}, None),
        ({"num_spec_steps": 0, "num_draft_tokens": 0, "num_accepted_draft_tokens": 0}, None),
        ({"num_spec_steps": 2, "num_draft_tokens": 4}, None),
        ({"num_spec_steps": 2, "num_draft_tokens": 4, "num_accepted_draft_tokens": 3}, PerRequest(2, 4, 3)),
        (
            {
                "num_spec_steps": 2,
                "num_draft_tokens": 4,
                "num_accepted_draft_tokens": 3,
                "acceptance_histogram": [0, 1, 1],
            },
            PerRequest(2, 4, 3, (2, 1)),
        ),
        (
            {
                "num_spec_steps": 2,
                "num_draft_tokens": 4,
                "num_accepted_draft_tokens": 3,
                "acceptance_histogram": [0, 1, None],
            },
            PerRequest(2, 4, 3),
        ),
    ],
    ids=str,
)
def test_answers_that_tell_less(told: object, expected: PerRequest | None) -> None:
    assert acceptance_from_metrics({"speculative_decoding": told}) == expected
