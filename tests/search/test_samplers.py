from __future__ import annotations

import importlib.util
from dataclasses import replace
from types import ModuleType

import pytest

from spectune.domain.candidate import Candidate, Method
from spectune.domain.errors import InputError
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import BudgetSpec, SearchSpec, SpeculationSpace
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Decision
from spectune.search import samplers
from spectune.search.samplers import Sampled, SamplerName
from tests.search.walks import explored, played
from tests.support.histories import BASELINE, DRAFTS, Story, draft, spec, verdict

pytest.importorskip("optuna")

DEEP = replace(DRAFTS, depths=tuple(range(1, 9)))
NGRAM = SpeculationSpace(Method.NGRAM, depths=(4, 8))
SEARCH = SearchSpec(speculation=(DEEP, NGRAM))
LONG = BudgetSpec(minutes=600, trials=100, confirm_pairs=1)

KINDS = [
    "tpe",
    pytest.param("gp", marks=pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs PyTorch")),
]


def peak(candidate: Candidate) -> float:
    spec = candidate.speculation
    return 1.5 - 0.1 * abs(spec.depth - 6) if spec.method is Method.DRAFT else 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_every_point_is_tried_once_while_the_budget_lasts(kind: SamplerName) -> None:
    made, stop = played(Sampled(kind), spec(search=SEARCH, budget=LONG), peak)
    ids = [candidate.id for candidate in explored(made)]
    assert len(ids) == len(set(ids)) == 10
    assert stop == Stop("everything worth trying was tried")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_history_gives_the_same_proposal(kind: SamplerName) -> None:
    campaign = spec(search=SEARCH, budget=LONG)
    whole, _ = played(Sampled(kind), campaign, peak)
    tried = explored(whole)
    story = Story(campaign).baselines()
    best = 1.0
    for candidate in tried[:3]:
        decision = Decision.KEEP if peak(candidate) > best else Decision.REVERT
        best = max(best, peak(candidate))
        story.trial(candidate, decided=verdict(decision, peak(candidate)))
    steps = [Sampled(kind).propose(campaign, story.history) for _ in range(2)]
    assert steps[0] == steps[1]


def test_seeds_differ() -> None:
    orders = set()
    for seed in range(1, 4):
        made, _ = played(Sampled("tpe"), spec(search=SEARCH, budget=LONG, seed=seed), peak)
        orders.add(tuple(candidate.id for candidate in explored(made)))
    assert len(orders) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_from_what_it_is_told(kind: SamplerName) -> None:
    """Draws lean to where the good results were."""
    wide = SearchSpec(speculation=(replace(DRAFTS, depths=tuple(range(1, 26))),))

    def mean_draw(best: int) -> float:
        story = Story().baselines()
        for depth in (2, 5, 8, 11, 15, 18, 21, 24):
            story.trial(draft(depth), decided=verdict(Decision.INCONCLUSIVE, 1.5 - 0.02 * abs(depth - best)))
        story.trial(BASELINE, Purpose.ANCHOR)
        steps = [Sampled(kind).propose(spec(search=wide, seed=seed, budget=LONG), story.history) for seed in range(20)]
        drawn = [step.candidate.speculation.depth for step in steps if isinstance(step, Proposal)]
        assert len(drawn) == 20
        return sum(drawn) / len(drawn)

    assert mean_draw(best=21) > mean_draw(best=5) + 2


def test_failed_trials_are_told_and_not_drawn_again() -> None:
    story = Story().baselines()
    for depth in (1, 2):
        story.trial(draft(depth), state=TrialState.INVALID)
    search = SearchSpec(speculation=(replace(DRAFTS, depths=(1, 2, 3)),))
    step = Sampled("tpe").propose(spec(search=search), story.history)
    assert isinstance(step, Proposal)
    assert step.candidate == draft(3)
    assert step.reason == "draft: drawn by Optuna's TPE sampler after 2 results, k=3"


@pytest.mark.parametrize(
    ("kind", "missing", "words", "advice"),
    [
        ("tpe", "optuna", "'tpe' needs Optuna", "pip install 'spectune[optuna]'"),
        ("gp", "torch", "'gp' needs PyTorch", "pip install 'spectune[gp]'"),
    ],
)
def test_a_missing_package_is_named_before_anything_starts(
    kind: SamplerName, missing: str, words: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> ModuleType:
        if name == missing:
            raise ImportError(name)
        return ModuleType(name)

    monkeypatch.setattr(samplers, "import_module", absent)
    with pytest.raises(InputError, match=words) as caught:
        Sampled(kind)
    assert advice in caught.value.advice
