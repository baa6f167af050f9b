from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Acceptance
from spectune.report.pool import added, flag_changes, flag_groups, pooled

estimates = st.builds(
    lambda value, spread, n: Estimate(value, value * (1 - spread), value * (1 + spread), n),
    st.floats(0.01, 1e4),
    st.floats(0.001, 0.5),
    st.integers(1, 1000),
)


def test_one_trial_keeps_its_interval() -> None:
    only = pooled([Estimate(50.0, 48.0, 53.0, 10)])
    assert only is not None
    assert (only.value, only.low, only.high, only.n) == (50.0, 48.0, 53.0, 10)
    assert pooled([]) is None


def test_equal_trials_narrow_by_the_root_of_their_number() -> None:
    one = Estimate(50.0, 49.0, 51.0, 10)
    four = pooled([one] * 4)
    assert four is not None
    assert four.low is not None
    assert four.high is not None
    assert four.value == pytest.approx(50.0)
    assert four.n == 40
    assert math.log(four.high / four.low) == pytest.approx(math.log(51 / 49) / 2)


def test_trials_that_disagree_widen_the_interval() -> None:
    agree = pooled([Estimate(50.0, 49.0, 51.0, 10)] * 2)
    differ = pooled([Estimate(45.0, 44.1, 45.9, 10), Estimate(55.0, 53.9, 56.1, 10)])
    assert agree is not None
    assert differ is not None
    assert differ.low is not None
    assert differ.high is not None
    assert differ.high - differ.low > 5 * ((agree.high or 0) - (agree.low or 0))
    assert differ.low < 45.5
    assert differ.high > 54


def test_coverage_with_spread_between_deployments() -> None:
    """True speed 50, deployments differ by 3 %, each trial sees itself within 2 %: intervals of 8 trials hold 50."""
    rng = random.Random(5)
    held = 0
    for _ in range(400):
        trials = []
        for _ in range(8):
            seen = 50 * math.exp(rng.gauss(0, 0.03) + rng.gauss(0, 0.02 / 1.96))
            trials.append(Estimate(seen, seen * math.exp(-0.02), seen * math.exp(0.02), 10))
        found = pooled(trials)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 50 <= found.high
    assert 0.87 <= held / 400 <= 0.98


@given(st.lists(estimates, min_size=2, max_size=8))
def test_the_pooled_value_lies_within_the_trials(trials: list[Estimate]) -> None:
    found = pooled(trials)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert min(e.low for e in trials) <= found.value <= max(e.high for e in trials)
    assert 0 < found.low <= found.value <= found.high


def test_unknown_spread_stays_unknown() -> None:
    found = pooled([Estimate(v, -math.inf, math.inf, 1) for v in (40.0, 60.0)])
    assert found is not None
    assert (found.value, found.low, found.high) == (50.0, None, None)


def test_draft_counts_add_up_and_shares_are_weighted() -> None:
    total = added([Acceptance(100, 200, 120, (0.8, 0.4), "a"), Acceptance(300, 600, 240, (0.6, 0.2), "a")])
    assert total is not None
    assert (total.drafts, total.drafted, total.accepted, total.source) == (400, 800, 360, "a")
    assert total.per_position == pytest.approx((0.65, 0.25))
    assert added([]) is None
    mixed = added([Acceptance(100, 200, 120, (0.8, 0.4)), Acceptance(300, 600, 240)])
    assert mixed is not None
    assert mixed.per_position == ()


@pytest.mark.parametrize(
    ("argv", "groups"),
    [
        (["s"], ()),
        (["s", "-m", "x", "--slots", "--temp", "-1"], (("-m", "x"), ("--slots",), ("--temp", "-1"))),
        (["s", "serve", "model", "--k", "1", "2"], (("serve", "model"), ("--k", "1", "2"))),
        (["s", "-", "--a=b"], (("-",), ("--a=b",))),
    ],
)
def test_flag_groups(argv: list[str], groups: tuple[tuple[str, ...], ...]) -> None:
    assert flag_groups(argv) == groups


def test_flag_changes_are_quoted_and_count_repeats() -> None:
    add, drop = flag_changes(["s", "--a", "1", "--b"], ["s", "--a", "2", "--b", "--b", "--m", "a b"])
    assert add == ("--a 2", "--b", "--m 'a b'")
    assert drop == ("--a 1",)
