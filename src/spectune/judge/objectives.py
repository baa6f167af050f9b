"""Whether an objective and its constraints can be judged at all, before anything is started."""

from __future__ import annotations

from collections.abc import Iterable

from spectune.domain.errors import InputError
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec, ObjectiveSpec, is_named
from spectune.domain.workload import Level


def check_objective(spec: CampaignSpec) -> None:
    """Refuses combinations that mean nothing.

    Raises:
        InputError: names the key, and says what to write instead.
    """
    if not spec.cells:
        raise InputError("the workload has no load level", "Name one in workload.concurrency or workload.rates.")
    _check_metric(spec.objective)
    levels = tuple(dict.fromkeys(cell.level for cell in spec.cells))
    _check_levels("objective.weights", spec.objective.weights, levels)
    _check_levels("constraints.min_aggregate_tok_s", spec.constraints.min_aggregate_tok_s, levels)
    if not any(spec.weight(cell) for cell in spec.cells):
        raise InputError("objective.weights gives every level the weight 0", "Give at least one level a weight.")


def _check_metric(goal: ObjectiveSpec) -> None:
    goodput, given = goal.maximise is MetricName.GOODPUT, goal.maximise.value
    if goodput and goal.slo is None:
        raise InputError(
            f"objective.maximise is {given}, but nothing says which requests are good",
            "Set objective.slo_ttft_s, objective.slo_tpot_s or both.",
        )
    bounds = (("slo_ttft_s", goal.slo_ttft_s), ("slo_tpot_s", goal.slo_tpot_s))
    unused = [name for name, bound in bounds if bound is not None and not goodput]
    if unused:
        raise InputError(
            f"objective.{unused[0]} is set, but objective.maximise is {given}, which does not use it",
            f"Maximise {MetricName.GOODPUT.value}, or remove it; what only limits is constraints.max_ttft_p99_s.",
        )
    if goal.per_gpu and goal.maximise is MetricName.PER_USER_SPEED:
        raise InputError(
            f"objective.per_gpu is true, but {given} is the speed of one user, whatever the number of GPUs",
            f"Maximise {MetricName.AGGREGATE_SPEED.value} or {MetricName.GOODPUT.value}, or set per_gpu to false.",
        )


def _check_levels(where: str, keys: Iterable[int | str], levels: tuple[Level, ...]) -> None:
    """Every key names a level of the workload, and no level is named twice."""
    named: dict[Level, int | str] = {}
    for key in keys:
        found = [level for level in levels if is_named(key, level)]
        if not found:
            what, section = _spelled(key)
            raise InputError(
                f"{where} names {what}, which is no level of workload.{section}",
                f"Levels are: {', '.join(level.label for level in levels)}.",
            )
        for level in found:
            if level in named:
                raise InputError(
                    f"{where} names {level.label} twice: '{named[level]}' and '{key}'",
                    "Let the ranges not overlap.",
                )
            named[level] = key


def _spelled(key: int | str) -> tuple[str, str]:
    """A key for people, and the part of the workload that it should be in."""
    text = str(key)
    return (text, "rates") if text.endswith(("/s", "x")) else (f"{text} users", "concurrency")
