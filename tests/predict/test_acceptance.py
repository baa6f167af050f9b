from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spectune.domain.measurement import Acceptance
from spectune.predict.acceptance import fit_acceptance, tokens_per_step


def counted(conditional: list[float], drafts: int, rng: np.random.Generator | None = None) -> Acceptance:
    """Counts of so many drafts; expected ones without a generator."""
    reached, positions = float(drafts), []
    for chance in conditional:
        reached = float(rng.binomial(int(reached), chance)) if rng else reached * chance
        positions.append(reached)
    shares = tuple(count / drafts for count in positions)
    return Acceptance(drafts, drafts * len(conditional), round(sum(positions)), shares)


def in_total(acceptance: Acceptance) -> Acceptance:
    return Acceptance(acceptance.drafts, acceptance.drafted, acceptance.accepted)


@pytest.mark.parametrize("depth", [1, 3, 8])
@pytest.mark.parametrize("chance", [0.2, 0.7, 0.99])
def test_constant_acceptance_gives_the_published_formula(chance: float, depth: int) -> None:
    expected = (1 - chance ** (depth + 1)) / (1 - chance)
    assert tokens_per_step(np.full(depth, chance)) == pytest.approx(expected)


def test_steps_without_a_draft_emit_one_token() -> None:
    assert tokens_per_step(np.array([0.5, 0.5]), 0.0) == pytest.approx(1.0)
    assert tokens_per_step(np.array([0.5, 0.5]), 0.5) == pytest.approx(1.375)


def test_many_counts_are_reproduced_whatever_the_prior() -> None:
    truth = [0.55, 0.62, 0.7, 0.6, 0.81]
    fitted = fit_acceptance([(5, "0", counted(truth, 200_000))])
    found, low, high = fitted.conditional(5, "0")
    assert found == pytest.approx(truth, abs=0.04)
    assert all(low < truth)
    assert all(truth < high)


def test_without_counts_only_the_prior_speaks_and_it_is_wide() -> None:
    _, low, high = fit_acceptance([(3, "0", Acceptance(0, 0, 0))]).conditional(3, "0")
    assert all(low < 0.35)
    assert all(high > 0.9)


def test_deeper_positions_are_less_certain_the_further_they_are() -> None:
    fitted = fit_acceptance([(2, "0", counted([0.8, 0.75], 5000))])
    _, low, high = fitted.conditional(8, "0")
    width = high - low
    assert all(np.diff(width[1:]) > 0)
    assert width[7] > 2 * width[1]


def test_a_group_with_few_counts_leans_on_the_others() -> None:
    alone = fit_acceptance([(3, "0.8", counted([1.0, 1.0, 1.0], 4))])
    pooled = fit_acceptance([(3, "0", counted([0.5, 0.5, 0.5], 9000)), (3, "0.8", counted([1.0, 1.0, 1.0], 4))])
    own = fit_acceptance([(3, "0", counted([0.5, 0.5, 0.5], 9000)), (3, "0.8", counted([0.9, 0.9, 0.9], 9000))])
    assert pooled.tokens(3, "0.8") < alone.tokens(3, "0.8")
    assert own.tokens(3, "0.8") == pytest.approx(1 + 0.9 + 0.81 + 0.729, abs=0.08)
    assert own.tokens(3, "0") == pytest.approx(1.875, abs=0.05)


def test_totals_alone_fix_the_tokens_per_step() -> None:
    acceptance = in_total(counted([0.7, 0.7, 0.7], 20_000))
    assert fit_acceptance([(3, "0", acceptance)]).tokens(3, "0") == pytest.approx(2.533, abs=0.06)


@pytest.mark.parametrize("told", [True, False], ids=["by position", "in total"])
def test_two_depths_tell_the_others(told: bool) -> None:
    """Tokens per step of depths that were not measured: median error at most 4 %."""
    errors = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        first, fade = rng.uniform(0.4, 0.95), rng.uniform(0.85, 1.02)
        truth = [float(np.clip(first * fade**i, 0, 0.97)) for i in range(8)]
        seen = [(k, "0", counted(truth[:k], 2000, rng)) for k in (2, 5)]
        fitted = fit_acceptance([(k, g, a if told else in_total(a)) for k, g, a in seen])
        for depth in (1, 3, 4, 6, 7, 8):
            errors.append(abs(fitted.tokens(depth, "0") / tokens_per_step(np.array(truth[:depth])) - 1))
    assert np.median(errors) <= 0.02
    assert np.quantile(errors, 0.9) <= 0.07


@given(
    st.lists(st.floats(0.02, 0.98), min_size=1, max_size=8),
    st.integers(1000, 100_000),
    st.integers(1, 8),
)
@example(truth=[0.9765625, 0.02, 0.75], drafts=1000, depth=1)
def test_tokens_per_step_are_possible_and_more_acceptance_is_more(truth: list[float], drafts: int, depth: int) -> None:
    fitted = fit_acceptance([(len(truth), "0", counted(truth, drafts))])
    conditional, low, high = fitted.conditional(depth, "0")
    assert all((low >= 0) & (low <= conditional) & (conditional <= high) & (high <= 1))
    assert 1 <= fitted.tokens(depth, "0") <= depth + 1
    more = fit_acceptance([(len(truth), "0", counted([a**0.6 for a in truth], drafts))])
    # A curve that no head has (nothing at one position, most at the next) is smoothed, and that costs a little.
    assert more.tokens(len(truth), "0") > 0.98 * fitted.tokens(len(truth), "0")


@pytest.mark.parametrize(
    "odd",
    [
        Acceptance(10, 20, 50, (2.0, 3.0)),
        Acceptance(10, 20, 9, (0.2, 0.7)),
        Acceptance(10, 20, 9, (0.5,) * 9),
        Acceptance(1, 2, 0, (0.0, 0.0)),
        Acceptance(10**12, 2 * 10**12, 2 * 10**12, (1.0, 1.0)),
        Acceptance(10, 20, -3),
    ],
    ids=["above one", "rising", "more positions than depth", "nothing", "huge", "negative"],
)
def test_odd_counts_do_no_harm(odd: Acceptance) -> None:
    fitted = fit_acceptance([(2, "0", odd)])
    assert 1 <= fitted.tokens(2, "0") <= 3
