from __future__ import annotations

from spectune.domain.candidate import Method
from spectune.domain.ports import Proposal
from spectune.domain.spec import SearchSpec, SpeculationSpace
from spectune.domain.verdict import Decision
from spectune.search.random_order import RandomOrder
from tests.search.walks import depths, explored, played
from tests.support.histories import DRAFTS, Story, spec, verdict

SEARCH = SearchSpec(speculation=(DRAFTS, SpeculationSpace(Method.NGRAM, depths=(4, 8))))


def order(seed: int) -> list[str]:
    made, _ = played(RandomOrder(seed), spec(search=SEARCH), lambda candidate: 0.5)
    return [candidate.id for candidate in explored(made)]


def test_every_point_once_in_an_order_of_the_seed() -> None:
    orders = {tuple(order(seed)) for seed in range(8)}
    assert all(len(set(ids)) == len(ids) == 6 for ids in orders)
    assert len(orders) == 8
    assert order(3) == order(3)


def test_each_point_is_equally_often_first() -> None:
    campaign, story = spec(), Story().baselines()
    firsts = [RandomOrder(seed).propose(campaign, story.history) for seed in range(400)]
    counts = [sum(isinstance(s, Proposal) and s.candidate.speculation.depth == k for s in firsts) for k in (1, 2, 3, 4)]
    assert sum(counts) == 400
    assert min(counts) > 65  # of 100 expected; a fair draw is below in one of some ten thousand


def test_it_goes_on_where_it_was() -> None:
    campaign = spec()
    whole, _ = played(RandomOrder(5), campaign, lambda candidate: 0.5)
    story = Story().baselines()
    for candidate in explored(whole)[:2]:
        story.trial(candidate, decided=verdict(Decision.REVERT, 0.5))
    step = RandomOrder(5).propose(campaign, story.history)
    assert isinstance(step, Proposal)
    assert step.candidate.speculation.depth == depths(whole)[2]
