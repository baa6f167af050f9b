"""Black-box samplers of Optuna behind the same trials: tree-structured Parzen estimators (Bergstra et al. 2011) and
Gaussian processes. They know nothing of speculation but its method and depth."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal

from spectune.domain.errors import InputError
from spectune.domain.history import History
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import CampaignSpec
from spectune.search.frame import Field, Point, explore, propose

if TYPE_CHECKING:
    import optuna

SamplerName = Literal["tpe", "gp"]

STARTUP = 3
"""Random draws before a sampler's own model takes over. Optuna's ten would use up most budgets of restarts."""

_DRAWS = 16
"""Draws until an untried point comes up; after that the untried point nearest to the last draw is taken."""

_NEEDS: dict[SamplerName, tuple[tuple[str, str], ...]] = {
    "tpe": (("optuna", "Optuna"),),
    "gp": (("optuna", "Optuna"), ("torch", "PyTorch")),
}
_INSTALL: dict[SamplerName, str] = {
    "tpe": "Install it with: pip install 'spectune[optuna]'",
    "gp": "Install them with: pip install 'spectune[gp]'",
}


class Sampled:
    """See the module. The study is built anew from the history for every proposal, and the sampler is seeded by the
    campaign's seed and the number of trials, so that a resumed campaign goes on as it would have.

    Raises:
        InputError: a package that the sampler needs is not installed; before anything was started.
    """

    def __init__(self, sampler: SamplerName) -> None:
        for module, name in _NEEDS[sampler]:
            try:
                import_module(module)
            except ImportError as error:
                raise InputError(f"the search strategy '{sampler}' needs {name}", _INSTALL[sampler]) from error
        self._sampler = sampler

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        return propose(spec, history, lambda field: self._next(field, spec.seed))

    def _next(self, field: Field, seed: int) -> Proposal | None:
        told = tuple(point for point in field.points if point.candidate.id in field.tried)
        reason = f"drawn by Optuna's {self._sampler.upper()} sampler after {len(told)} results"
        return explore(_draw(field, told, self._study(field, told, seed)), reason)

    def _study(self, field: Field, told: tuple[Point, ...], seed: int) -> optuna.Study:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        kind = optuna.samplers.TPESampler if self._sampler == "tpe" else optuna.samplers.GPSampler
        sampler = kind(seed=(seed * 1_000_003 + len(told)) % 2**32, n_startup_trials=STARTUP)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        order = list(field.tried)
        for point in sorted(told, key=lambda point: order.index(point.candidate.id)):
            _tell(study, field, point)
        return study


def _draw(field: Field, told: tuple[Point, ...], study: optuna.Study) -> Point:
    """The first draw that was not tried."""
    import optuna

    drawn = field.points[0]
    for _ in range(_DRAWS):
        trial = study.ask(fixed_distributions=_distributions(field))
        drawn = _at(field, trial.params["method"], trial.params["step"])
        if drawn not in told:
            return drawn
        # Not as a second result: samplers would take the copy of the best for one that is worse than the best.
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return min(field.untried, key=lambda point: (point.space != drawn.space, abs(point.step - drawn.step)))


def _tell(study: optuna.Study, field: Field, point: Point) -> None:
    import optuna

    score = field.scores.get(point.candidate.id)
    study.add_trial(
        optuna.trial.create_trial(
            params={"method": point.space, "step": point.step},
            distributions=_distributions(field),
            value=score,
            state=optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE,
        )
    )


def _distributions(field: Field) -> dict[str, optuna.distributions.BaseDistribution]:
    """Method and step: one space for all methods, in which a step beyond a method's deepest is its deepest."""
    import optuna

    spaces = sorted({point.space for point in field.points})
    return {
        "method": optuna.distributions.CategoricalDistribution(spaces),
        "step": optuna.distributions.IntDistribution(0, max(point.step for point in field.points)),
    }


def _at(field: Field, space: int, step: int) -> Point:
    """The method's point of that step, or the nearest that it has."""
    return min((point for point in field.points if point.space == space), key=lambda point: abs(point.step - step))
