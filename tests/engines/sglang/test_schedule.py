from __future__ import annotations

import bisect
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.engines.sglang import BatchSteps, adaptive_config
from spectune.engines.sglang.schedule import MOST_STEPS, first_steps


def test_a_schedule() -> None:
    text = adaptive_config([BatchSteps(16, 1), BatchSteps(1, 3, (1,)), BatchSteps(64, 0)])
    assert json.loads(text) == {
        "1": {"candidate_steps": [1, 3], "up_hysteresis": 0.0, "down_hysteresis": -0.25, "ceiling_coeff": 0},
        "16": {"candidate_steps": [1]},
        "64": {"candidate_steps": [0]},
    }
    assert text.endswith("}\n")


def test_neighbours_alike_are_one_entry() -> None:
    text = adaptive_config([BatchSteps(1, 3), BatchSteps(4, 3), BatchSteps(16, 1), BatchSteps(32, 3)])
    assert list(json.loads(text)) == ["1", "16", "32"]


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ([], "no batch size was measured"),
        ([BatchSteps(1, 3), BatchSteps(1, 2)], "batch size 1 is given twice"),
        ([BatchSteps(1, 3), BatchSteps(1, 3)], "batch size 1 is given twice"),
        ([BatchSteps(0, 3)], "batch size must be at least 1, got 0"),
        ([BatchSteps(1, -1)], "depth must be 0 to 64 at batch size 1, got -1"),
        ([BatchSteps(8, 1, (65,))], "depth must be 0 to 64 at batch size 8, got 65"),
        ([BatchSteps(1, 0), BatchSteps(8, 0)], "the best depth is 0 everywhere"),
    ],
    ids=str,
)
def test_what_is_no_schedule_is_refused(measured: list[BatchSteps], message: str) -> None:
    with pytest.raises(InputError) as refused:
        adaptive_config(measured)
    assert message in refused.value.message


def test_the_first_depth() -> None:
    assert first_steps([BatchSteps(8, 2), BatchSteps(1, 0), BatchSteps(16, 1)]) == 2
    with pytest.raises(InputError, match="0 everywhere"):
        first_steps([BatchSteps(8, 0)])


rows = st.lists(
    st.builds(BatchSteps, st.integers(1, 512), st.integers(0, MOST_STEPS), st.tuples(st.integers(0, MOST_STEPS))),
    min_size=1,
    max_size=6,
    unique_by=lambda row: row.batch,
).filter(lambda found: any(row.best for row in found))


@given(rows)
def test_every_measured_batch_gets_its_depths(measured: list[BatchSteps]) -> None:
    """SGLang takes the largest entry that is not above the running batch size."""
    config = {int(batch): entry["candidate_steps"] for batch, entry in json.loads(adaptive_config(measured)).items()}
    batches = sorted(config)
    for row in measured:
        entry = batches[bisect.bisect_right(batches, row.batch) - 1]
        assert config[entry] == sorted({row.best, *row.others})
    assert first_steps(measured) in {steps for listed in config.values() for steps in listed}
