"""What the noise is learnt from: repeated trials, and pairs with prompts of their own."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from spectune.domain.candidate import Candidate
from spectune.domain.metrics import MetricName
from spectune.domain.trial import Purpose, Trial
from spectune.judge.comparison import Comparer
from spectune.judge.links import links
from spectune.judge.noise import noise_of
from spectune.judge.paired import PairedJudge
from spectune.judge.table import Table
from tests.judge.lab import BASELINE, Lab, Noisy, Speed, aggregate_cells, draft, flat, make_spec

OURS = draft(3)
Way = Callable[[Candidate, int], Speed]
"""(candidate, pair) -> speeds; pair 0 are the explorations."""


def confirmed(way: Way, pairs: int = 4, *, own: bool = True, prompts: int = 6) -> Lab:
    """Two baselines, an exploration and A B B A pairs, each with prompts of its own or all with the first ones."""
    lab = Lab(make_spec(), prompts=prompts)
    for tried, purpose in ((BASELINE, Purpose.BASELINE), (BASELINE, Purpose.BASELINE), (OURS, Purpose.EXPLORE)):
        lab.trial(tried, purpose, way(tried, 0))
    for pair in range(1, pairs + 1):
        lab.begin = prompts * pair if own else 0
        for tried in (BASELINE, OURS) if pair % 2 else (OURS, BASELINE):
            lab.trial(tried, Purpose.CONFIRM, way(tried, pair))
    return lab


def table(lab: Lab) -> Table:
    return Table.of(lab.spec, lab.history.finished)


def by_pair(*gains: float) -> Way:
    """The gains of a candidate, in the explorations and in each pair."""
    return lambda tried, pair: flat(40.0 if tried == BASELINE else 40.0 * math.exp(gains[pair]))


def test_pairs_with_prompts_of_their_own_are_compared_with_each_other() -> None:
    found = list(links(table(confirmed(by_pair(0.5, 0.1, 0.13, 0.11), 3))))
    baselines, second, third = found
    assert (baselines.is_repeated, dict(baselines.step), baselines.log) == (True, {1: 1.0, 0: -1.0}, 0.0)
    assert (second.is_repeated, dict(second.step)) == (False, {5: 1.0, 6: -1.0, 4: -1.0, 3: 1.0})
    assert dict(third.step) == {8: 1.0, 7: -1.0, 5: -1.0, 6: 1.0}
    assert [second.log, third.log] == pytest.approx([0.03, -0.02], abs=1e-6)
    assert second.slices[2] == pytest.approx(4 * [0.03], abs=1e-6)


def test_pairs_that_share_prompts_are_repetitions_of_either_side() -> None:
    found = list(links(table(confirmed(by_pair(0.5, 0.1, 0.13), 2, own=False))))
    assert all(link.is_repeated for link in found)
    assert [dict(link.step) for link in found] == [
        {1: 1.0, 0: -1.0},
        {3: 1.0, 1: -1.0},
        {5: 1.0, 4: -1.0},
        {6: 1.0, 3: -1.0},
    ]


def test_the_scatter_between_pairs_widens_the_interval() -> None:
    quiet, wild = (confirmed(by_pair(0.1, *gains)) for gains in ((0.1, 0.11, 0.1, 0.11), (0.02, 0.2, 0.0, 0.18)))
    assert noise_of(table(wild)).tau > 3 * noise_of(table(quiet)).tau
    widths = []
    for lab in (quiet, wild):
        overall = PairedJudge().decide(lab.spec, lab.history, last(lab, OURS)).overall
        assert overall is not None
        widths.append(math.log(overall.high / overall.low))
    assert widths[1] > 3 * widths[0]


def last(lab: Lab, tried: Candidate) -> Trial:
    return next(trial for trial in reversed(lab.history.ordered) if trial.candidate == tried)


def lucky(seed: int) -> Way:
    """A candidate that gains 30 % on the prompts of the explorations and nothing on any other."""
    noisy = Noisy(seed, request=0.01)
    return lambda tried, pair: noisy(0.3 if tried != BASELINE and pair == 0 else 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_luck_with_the_prompts_of_the_explorations_is_found_out(seed: int) -> None:
    lab = confirmed(lucky(seed))
    verdict = PairedJudge().decide(lab.spec, lab.history, last(lab, OURS))
    assert verdict.overall is not None
    assert verdict.overall.low < 1 < verdict.overall.high
    assert not PairedJudge().conclude(lab.spec, lab.history).changed


@pytest.mark.parametrize("seed", range(5))
def test_a_true_gain_is_confirmed_with_prompts_of_its_own(seed: int) -> None:
    noisy = Noisy(seed)
    lab = confirmed(lambda tried, pair: noisy(0.12 if tried != BASELINE else 0.0))
    conclusion = PairedJudge().conclude(lab.spec, lab.history)
    assert (conclusion.winner, conclusion.changed) == (OURS.id, True)


def test_the_baseline_of_such_a_pair_has_nothing_to_be_compared_with() -> None:
    lab = confirmed(by_pair(0.1, 0.1, 0.1), 2)
    verdict = PairedJudge().decide(lab.spec, lab.history, last(lab, BASELINE))
    assert verdict.reason == "the baseline in a pair of a confirmation, with prompts that no other pair has"


def test_more_pairs_with_other_prompts_tell_what_more_of_the_same_do_not() -> None:
    """Where a candidate does to each prompt something of its own, asking the same again teaches little."""

    def moody(tried: Candidate, pair: int) -> Speed:
        return lambda cell, domain, prompt: (
            40.0 * (1.0 if tried == BASELINE else math.exp(0.04 + 0.15 * (-1) ** prompt))
        )

    needed = []
    for own in (True, False):
        lab = confirmed(moody, 2, own=own)
        known = Comparer.of(lab.spec, lab.history.finished)
        found = known.compare_in(OURS.id, BASELINE.id, lambda trial: trial.purpose is Purpose.CONFIRM)
        assert found is not None
        assert found.contrast.is_repeated is not own
        needed.append(found.more_pairs(0.95, 0.03, 2))
    assert needed[1] is None
    assert needed[0] is not None


def test_what_the_prompts_of_a_pair_do_to_the_aggregate_they_do_to_both_sides() -> None:
    """The texts of the pairs differ by up to 20 %, and the gain of 6 % is the same in each."""
    lab = Lab(make_spec(maximise=MetricName.AGGREGATE_SPEED))
    for value in (400.0, 402.0):
        lab.trial(BASELINE, Purpose.BASELINE, flat(), cells=aggregate_cells(lab, value, 0.02))
    lab.trial(OURS, Purpose.EXPLORE, flat(), cells=aggregate_cells(lab, 424.0, 0.02))
    for pair, texts in enumerate((400.0, 340.0, 420.0, 380.0)):
        for tried in (BASELINE, OURS) if pair % 2 else (OURS, BASELINE):
            value = texts * (1.0 if tried == BASELINE else 1.06 + 0.002 * pair)
            lab.trial(tried, Purpose.CONFIRM, flat(), cells=aggregate_cells(lab, value, 0.02))
    verdict = PairedJudge().decide(lab.spec, lab.history, last(lab, OURS))
    assert verdict.overall is not None
    assert 1.03 < verdict.overall.low < 1.063 < verdict.overall.high < 1.1
    assert PairedJudge().conclude(lab.spec, lab.history).changed
