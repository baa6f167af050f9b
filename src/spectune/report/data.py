"""From a campaign's history to what a report says. Pure: the same history is the same report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spectune.domain.history import History
from spectune.domain.trial import TrialState
from spectune.domain.workload import Cell
from spectune.report.answer import answer
from spectune.report.candidates import candidate_data, frontier, in_order
from spectune.report.losses import losses
from spectune.report.model import BestRow, CellInfo, Effort, ReportData
from spectune.report.pool import ratio_interval
from spectune.report.trials import trial_data


def build(spec_history: History, campaign_id: str) -> ReportData:
    """Everything that the renderers need, from a campaign in any state: running, decided, or without an answer.

    Args:
        spec_history: the fold of the campaign's events, with the raw records (without them the median time to first
            token is not told).
        campaign_id: the campaign's id in the ledger.
    """
    history, opened = spec_history, spec_history.opened
    spec = opened.spec
    marks = tuple(_marks(history))
    said = answer(history, marks)
    cells = tuple(_cell_info(cell) for cell in spec.cells)
    candidates = tuple(candidate_data(history, c, said.candidate, cells) for c in in_order(history))
    trials = tuple(trial_data(trial) for trial in history.ordered)
    return ReportData(
        campaign=campaign_id,
        name=spec.name,
        opened_at=opened.at,
        ended_at=max((t.ended_at for t in history.ordered if t.ended_at is not None), default=None),
        engine=opened.service.engine,
        model=opened.service.model,
        objective=spec.objective.maximise,
        confidence=spec.objective.confidence,
        min_gain=spec.objective.min_gain,
        answer=replace(said, losses=losses(candidates, cells)),
        marks=marks,
        noise=history.conclusion.noise if history.conclusion else None,
        cells=cells,
        domains=_domains(history),
        best=tuple(_best(history)),
        candidates=candidates,
        frontier=frontier(candidates),
        trials=trials,
        effort=Effort(
            trials=len(trials),
            launches=sum(trial.launches for trial in trials),
            minutes=history.spent_s / 60,
            invalid=sum(trial.state is TrialState.INVALID for trial in trials),
            abandoned=history.abandoned,
            resumed=history.resumed,
        ),
        provenance=opened.provenance,
        load_average=_load_range(history),
    )


def _cell_info(cell: Cell) -> CellInfo:
    temperature = cell.sampling.temperature
    return CellInfo(
        key=cell.key,
        label=cell.label,
        level=cell.level.value,
        level_kind=cell.level.kind,
        level_label=cell.level.label,
        temperature=temperature,
        temperature_label="model's own sampling" if temperature is None else f"temperature {temperature:g}",
    )


def _domains(history: History) -> tuple[str, ...]:
    """In the workload's order; those that only measurements name come last."""
    measured = [d for t in history.ordered for cell in t.cells.values() for d in cell.measurement.by_domain]
    named = [*history.opened.provenance.workload.domains, *measured]
    return tuple(domain for domain in dict.fromkeys(named) if domain in set(measured))


def _best(history: History) -> Iterator[BestRow]:
    """The conclusion's best per slice. Slices over all cells are the answer itself and left out."""
    for row in history.conclusion.best if history.conclusion else ():
        if row.cell:
            yield BestRow(
                cell=row.cell,
                domain=row.domain,
                candidate=row.candidate,
                is_baseline=row.candidate == history.baseline.id,
                ratio=ratio_interval(row.ratio) if row.ratio else None,
                runner_up=row.runner_up,
            )


def _marks(history: History) -> Iterator[str]:
    """Why numbers of this campaign are not those of a real service."""
    opened = history.opened
    if opened.provenance.simulated:
        yield f"Simulated: {opened.provenance.simulated}. Nothing here was measured on a real engine."
    if opened.spec.workload.ignore_eos:
        yield "Answers were forced to full length (ignore_eos), which flatters speculation."
    told = [(t.number, t.deployment.seen.invalid_output) for t in history.ordered if t.deployment is not None]
    for text in dict.fromkeys(text for _, text in told if text):
        where = ", ".join(str(number) for number, said in told if said == text)
        yield f"The server's output is not valid in trial {where}: {text}."


def _load_range(history: History) -> tuple[float, float] | None:
    seen = [
        load
        for trial in history.ordered
        for load in (
            *((trial.deployment.load_average,) if trial.deployment else ()),
            *(load for cell in trial.cells.values() for load in cell.measurement.load_average),
        )
    ]
    return (min(seen), max(seen)) if seen else None
