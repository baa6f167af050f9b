"""What a run would do, told before anything is started."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from spectune.assemble.campaigns import Prepared
from spectune.assemble.engines import KITS
from spectune.domain.candidate import Candidate
from spectune.domain.forecast import Forecast
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Ledger, launch_of
from spectune.domain.redaction import redact
from spectune.predict.speed import SpeedForecaster
from spectune.provision import hardware
from spectune.search.bracket import BASELINES
from spectune.search.spending import ANCHOR_EVERY
from spectune.search.staged import at_depth, spelled_out

_EXPLORED_BY_GUIDED = 4
"""Explorations that the guided search seldom goes beyond, for the time that is expected."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A finished campaign of the same model on the same machine: what it measured lets expect something of a new one.

    Attributes:
        campaign: its id.
    """

    campaign: str
    history: History


def earlier(ledger: Ledger, prepared: Prepared) -> Earlier | None:
    """The newest finished campaign that a new one may expect the like of: same engine, model, processor and GPUs, both
    simulated or neither. One of the same name goes before others.

    Raises:
        LedgerError: when the ledger can't be read.
    """
    rows = [row for row in ledger.campaigns() if row.ended and row.trials]
    for row in sorted(rows, key=lambda row: row.name != prepared.spec.name):
        history = History.of(ledger.events(row.id))
        if _is_alike(history, prepared) and any(trial.valid for trial in history.finished):
            return Earlier(row.id, history)
    return None


def plan(prepared: Prepared, known: Earlier | None = None) -> dict[str, str | list[str]]:
    """What a run would do, for people and programs: the service, the candidates with what is expected of them, launches
    and minutes.

    Args:
        known: an earlier campaign, whose forecasts are shown, marked as such.
    """
    spec, service, info = prepared.spec, prepared.service, prepared.prompts.info
    forecasts = _forecasts(prepared, known) if known else {}
    to_try = list(_to_try(prepared, forecasts))
    launches = min(
        spec.budget.trials, BASELINES + len(to_try) + len(to_try) // ANCHOR_EVERY + 2 * spec.budget.confirm_pairs
    )
    room = hardware.memory_available()
    size = KITS[spec.service.engine].bytes_of(service.model)
    weights = f"{size / 2**20:.0f} MiB" if size else "size not known here"
    return {
        "engine": f"{service.engine} {prepared.provenance.engine_version} ({service.binary})",
        "model": f"{service.model} ({weights}; {room / 2**30:.1f} GiB of memory are free)",
        "service": shlex.join(redact(launch_of(prepared.engine, service, prepared.baseline).argv, {})[0]),
        "workload": f"{info.name}: {info.amount}; " + ", ".join(info.domains),
        "cells": [cell.label for cell in spec.cells],
        "objective": _objective(prepared),
        "search": spec.search.strategy,
        "to try": to_try,
        "forecast": _basis(prepared, known, forecasts),
        "launches": f"at most {launches}; fewer when a method stops paying",
        "time": _time(prepared, len(to_try), launches, known),
        "notes": list(info.notes),
    }


def _is_alike(history: History, prepared: Prepared) -> bool:
    old, now = history.opened.provenance, prepared.provenance
    models = [provenance.files.get("model") for provenance in (old, now)]
    same_model = models[0] == models[1] if all(models) else history.opened.service.model == prepared.service.model
    return (
        same_model
        and history.opened.service.engine == prepared.service.engine
        and (old.hardware.cpu, old.hardware.gpus) == (now.hardware.cpu, now.hardware.gpus)
        and bool(old.simulated) == bool(now.simulated)
    )


def _candidates(prepared: Prepared) -> dict[str, Candidate]:
    """Label -> candidate, of the file's own candidates and of every depth of every method."""
    search, base = prepared.spec.search, prepared.baseline
    named = [spelled_out(base, spelled) for spelled in search.candidates]
    depths = [at_depth(base, space, depth) for space in search.speculation for depth in sorted(set(space.depths))]
    return {candidate.label: candidate for candidate in (*named, *depths)}


def _forecasts(prepared: Prepared, known: Earlier) -> Mapping[str, Forecast]:
    """Candidate id -> what the earlier campaign's trials let expect of it against this baseline."""
    if prepared.spec.objective.maximise is MetricName.GOODPUT:
        return {}
    opened = replace(known.history.opened, baseline=prepared.baseline)
    history = replace(known.history, opened=opened)
    asked = [prepared.baseline, *_candidates(prepared).values()]
    return SpeedForecaster().forecast(prepared.spec, history, asked)


def _to_try(prepared: Prepared, forecasts: Mapping[str, Forecast]) -> Iterator[str]:
    for label, candidate in _candidates(prepared).items():
        forecast = forecasts.get(candidate.id)
        if label in prepared.pruned:
            yield f"{label} (cannot run: {prepared.pruned[label]})"
        elif candidate.id == prepared.baseline.id:
            yield f"{label} (what the service does already)"
        elif forecast is not None and forecast.gain is not None:
            yield f"{label}: {forecast.gain.percent} expected"
        else:
            yield label
    for name, values in prepared.spec.search.knobs.items():
        yield from (f"{name}={value}, on the best so far" for value in values)


def _objective(prepared: Prepared) -> str:
    goal, spec = prepared.spec.objective, prepared.spec
    bounds = [
        f"{what} within {bound:g} s"
        for what, bound in (("first token", goal.slo_ttft_s), ("each further token", goal.slo_tpot_s))
        if bound is not None
    ]
    total = sum(spec.weight(cell) for cell in spec.cells)
    shares = {
        level: sum(spec.weight(cell) for cell in spec.cells if cell.level == level) / total
        for level in dict.fromkeys(cell.level for cell in spec.cells)
    }
    counted = [f"{level.label} {100 * share:.0f} %" for level, share in shares.items() if share > 0]
    metric = goal.maximise.value + (" per GPU" if goal.per_gpu else "")
    return "; ".join([" and ".join([metric, *bounds]), ", ".join(counted)])


def _basis(prepared: Prepared, known: Earlier | None, forecasts: Mapping[str, Forecast]) -> str:
    if known is None:
        return "none yet: nothing was measured. The first trial of a method tells what to expect of its other depths"
    trials = sum(trial.valid for trial in known.history.finished)
    source = f"campaign {known.campaign} ({trials} trials, engine {known.history.opened.provenance.engine_version})"
    if prepared.spec.objective.maximise is MetricName.GOODPUT:
        return "none: forecasts are of speed, and goodput does not follow from it"
    if not any(forecast.gain for forecast in forecasts.values()):
        return f"none: {source} measured nothing that tells about these candidates"
    return (
        f"gain over the service as it is under the objective, from {source}: what an earlier campaign lets expect, no "
        "result. It decides nothing here; everything is measured anew"
    )


def _time(prepared: Prepared, untried: int, launches: int, known: Earlier | None) -> str:
    """Minutes: as the trials of an earlier campaign took, else of measuring alone."""
    spec = prepared.spec
    explored = min(untried, _EXPLORED_BY_GUIDED) if spec.search.strategy == "guided" else untried
    expected = min(
        launches, BASELINES + explored + explored // ANCHOR_EVERY + (2 * spec.budget.confirm_pairs if untried else 0)
    )
    finished = known.history.finished if known else ()
    if known and finished and known.history.opened.spec.cells == spec.cells:
        each = known.history.spent_s / len(finished)
        return f"about {expected * each / 60:.0f} minutes for {expected} launches, as long as they took earlier"
    minutes = expected * len(spec.cells) * spec.budget.cell_seconds / 60
    return f"about {minutes:.0f} minutes of measuring for {expected} launches, and the starts of the server"
