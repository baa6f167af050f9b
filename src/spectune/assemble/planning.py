"""What a run would do, told before anything is started."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from spectune.assemble.campaigns import Prepared
from spectune.assemble.engines import KITS
from spectune.domain.candidate import Candidate
from spectune.domain.ports import launch_of
from spectune.domain.redaction import redact
from spectune.domain.spec import CampaignSpec
from spectune.provision import hardware
from spectune.search.bracket import BASELINES
from spectune.search.spending import ANCHOR_EVERY
from spectune.search.staged import at_depth, spelled_out

_EXPLORED_BY_GUIDED = 4
"""Explorations that the guided search seldom goes beyond, for the time that is expected."""


_MEASURING_SHARE = 0.6
"""Share of a campaign's time that measuring takes where starts and checks take little."""


def plan(prepared: Prepared) -> dict[str, str | list[str]]:
    """What a run would do, for people and programs: the service, the candidates, launches and minutes."""
    spec, service, info = prepared.spec, prepared.service, prepared.prompts.info
    to_try = list(_to_try(prepared))
    launches = min(
        spec.budget.trials, BASELINES + len(to_try) + len(to_try) // ANCHOR_EVERY + 2 * spec.budget.confirm_pairs
    )
    size = KITS[spec.service.engine].bytes_of(service.model)
    weights = f"{size / 2**20:.0f} MiB" if size else "size not known here"
    # Of another host's memory nothing is known here.
    room = "" if spec.service.remote else f"; {hardware.memory_available() / 2**30:.1f} GiB of memory are free"
    return {
        "engine": f"{service.engine} {prepared.provenance.engine_version} ({service.binary})",
        "model": f"{service.model} ({weights}{room})",
        "service": shlex.join(redact(launch_of(prepared.engine, service, prepared.baseline).argv, {})[0]),
        "workload": f"{info.name}: {info.amount}; " + ", ".join(info.domains),
        "cells": [cell.label for cell in spec.cells],
        "objective": _objective(prepared),
        "search": spec.search.strategy,
        "to try": to_try,
        "forecast": "spectune plan shows the order and what earlier campaigns let expect",
        "launches": f"at most {launches}; fewer when a method stops paying",
        "time": _time(prepared, len(to_try), launches),
        "notes": list(info.notes),
    }


def candidates(prepared: Prepared) -> dict[str, Candidate]:
    """Label -> candidate, of the file's own candidates and of every depth of every method."""
    search, base = prepared.spec.search, prepared.baseline
    named = [spelled_out(base, spelled) for spelled in search.candidates]
    depths = [at_depth(base, space, depth) for space in search.speculation for depth in sorted(set(space.depths))]
    return {candidate.label: candidate for candidate in (*named, *depths)}


def _to_try(prepared: Prepared) -> Iterator[str]:
    for label, candidate in candidates(prepared).items():
        if label in prepared.pruned:
            yield f"{label} (cannot run: {prepared.pruned[label]})"
        elif candidate.id == prepared.baseline.id:
            yield f"{label} (what the service does already)"
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


def expected_launches(spec: CampaignSpec, untried: int) -> int:
    """Launches that a new campaign mostly takes: baselines, explorations, anchors and confirmation."""
    explored = min(untried, _EXPLORED_BY_GUIDED) if spec.search.strategy == "guided" else untried
    confirming = 2 * spec.budget.confirm_pairs if untried else 0
    return min(spec.budget.trials, BASELINES + explored + explored // ANCHOR_EVERY + confirming)


def _time(prepared: Prepared, untried: int, launches: int) -> str:
    """Minutes of measuring."""
    spec = prepared.spec
    expected = min(launches, expected_launches(spec, untried))
    minutes = expected * len(spec.cells) * spec.budget.cell_seconds / 60
    told = f"about {minutes:.0f} minutes of measuring for {expected} launches, and the server's starts and checks"
    if minutes > _MEASURING_SHARE * spec.budget.minutes:
        told += f"; more than budget.minutes ({spec.budget.minutes:g}) allows: not all will be tried"
    return told
