from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.engines.sglang import PerRequest, acceptance_from_meta
from tests.engines.sglang.recorded import STARTED, meta_info

RECORDED = {
    "none": None,
    "ngram": PerRequest(64, 448, 448, (64,) * 7),
    "mtp1": PerRequest(511, 511, 0, ()),
    "mtp3-simulated": PerRequest(205, 615, 306, (205, 101)),
    "tp2-122b-mtp3-simulated": PerRequest(158, 474, 354, (158, 158, 38)),
}
NEW = {
    "spec_num_correct_drafts": 306,
    "spec_num_proposed_drafts": 615,
    "spec_verify_ct": 205,
    "spec_correct_drafts_histogram": [0, 104, 101],
}
OLD = {
    "spec_accepted_drafts": 306,
    "spec_proposed_drafts": 615,
    "spec_verify_ct": 205,
    "spec_accept_histogram": [0, 104, 101],
}


@pytest.mark.parametrize("name", STARTED)
def test_recorded_requests(name: str) -> None:
    meta = meta_info(name)
    found = acceptance_from_meta(meta)
    assert found == RECORDED[name]
    if found:
        assert sum(found.accepted_per_position) == found.accepted
        # The prompt's own token, then one a verify step beside those accepted; the last step may run past the end.
        emitted = 1 + found.drafts + found.accepted
        completed = meta["completion_tokens"]
        assert isinstance(completed, int)
        assert completed <= emitted <= completed + len(found.accepted_per_position)


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        (NEW, PerRequest(205, 615, 306, (205, 101))),
        (OLD, PerRequest(205, 615, 306, (205, 101))),
        ({"spec_correct_drafts_histogram": [1, 2, 3]}, PerRequest(6, None, 8, (5, 3))),
        ({"spec_verify_ct": 4, "spec_num_correct_drafts": 3}, PerRequest(4, None, 3)),
        # A histogram that does not count every step says nothing about positions.
        ({**NEW, "spec_correct_drafts_histogram": [1]}, PerRequest(205, 615, 306)),
        ({**NEW, "spec_correct_drafts_histogram": [0, "x"]}, PerRequest(205, 615, 306)),
        ({"spec_verify_ct": 0, "spec_num_correct_drafts": 0}, None),
        ({"spec_verify_ct": True, "spec_num_correct_drafts": 1}, None),
        ({"spec_verify_ct": -1, "spec_num_correct_drafts": 1}, None),
        ({"completion_tokens": 5}, None),
        ({}, None),
    ],
    ids=str,
)
def test_names_of_versions(meta: dict[str, object], expected: PerRequest | None) -> None:
    assert acceptance_from_meta(meta) == expected


def test_drafted_tokens_of_an_adaptive_depth_are_not_believed() -> None:
    assert acceptance_from_meta(NEW, adaptive=True) == PerRequest(205, None, 306, (205, 101))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9))
def test_positions_sum_to_what_was_accepted(histogram: list[int]) -> None:
    found = acceptance_from_meta({"spec_accept_histogram": histogram})
    if sum(histogram) == 0:
        assert found is None
    else:
        assert found is not None
        assert sum(found.accepted_per_position) == found.accepted
        assert list(found.accepted_per_position) == sorted(found.accepted_per_position, reverse=True)
        assert all(count <= found.drafts for count in found.accepted_per_position)


@given(st.dictionaries(st.sampled_from([*NEW, *OLD]), st.none() | st.integers() | st.text() | st.lists(st.integers())))
def test_any_fields_are_read_without_an_error(meta: dict[str, object]) -> None:
    found = acceptance_from_meta(meta)
    assert found is None or found.drafts >= 1
