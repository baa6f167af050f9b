"""Earlier campaigns that a new one may learn from: which ones are alike enough, and what of them is taken along."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from spectune.assemble.campaigns import Prepared
from spectune.assemble.ledgers import readable
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Service
from spectune.domain.errors import InputError, LedgerError
from spectune.domain.events import CampaignOpened
from spectune.domain.history import History
from spectune.domain.ports import launch_of
from spectune.domain.priors import Prior, PriorTrial
from spectune.domain.redaction import redact, redact_settings
from spectune.domain.trial import Trial
from spectune.ledger.store import SqlLedger

MOST_CAMPAIGNS = 3
MOST_TRIALS = 12
"""Taken along of one campaign, and of one candidate in it MOST_OF_ONE: repeats tell little more, and the fit takes its
time with each."""

MOST_OF_ONE = 2


def priors(prepared: Prepared, ledger: SqlLedger | None, others: Sequence[Path] = ()) -> tuple[Prior, ...]:
    """What earlier campaigns may tell a new one, the newest of the first ledger first; nothing where the campaign file
    does without, or the strategy makes no forecasts.

    A campaign that can't be read is passed over: it must not keep a new one from being run.

    Args:
        ledger: the new campaign's own; None where there is none yet.
        others: further directories with a ledger.

    Raises:
        InputError: a directory of `others` has no ledger.
        LedgerError: a list of campaigns can't be read.
    """
    with ExitStack() as opened:
        more = [opened.enter_context(readable(directory, "--prior")) for directory in others]
        return _gathered(prepared, [ledger, *more] if ledger is not None else more)


def _gathered(prepared: Prepared, ledgers: Iterable[SqlLedger]) -> tuple[Prior, ...]:
    if not prepared.spec.search.priors or prepared.spec.search.strategy != "guided":
        return ()
    found: dict[str, Prior] = {}
    for ledger in ledgers:
        for row in ledger.campaigns():
            if len(found) == MOST_CAMPAIGNS:
                break
            prior = _prior(ledger, row.id, prepared) if row.trials and row.id not in found else None
            if prior is not None:
                found[row.id] = prior
    return tuple(found.values())


def _prior(ledger: SqlLedger, campaign: str, prepared: Prepared) -> Prior | None:
    try:
        events = ledger.events(campaign, records=False)
        opened = next(events)
        if not isinstance(opened, CampaignOpened) or not is_alike(opened, prepared):
            return None
        history = History.of([opened, *events])
    except LedgerError:
        return None
    trials = tuple(_taken(history.finished))
    return Prior(campaign, tuple(_differences(opened, prepared)), trials) if trials else None


def _taken(trials: Iterable[Trial]) -> Iterator[PriorTrial]:
    """Comparable trials at a fixed depth that had the machine to themselves, and told a speed."""
    seen: list[str] = []
    for trial in trials:
        name, alone = trial.candidate.id, trial.beside is None and not trial.candidate.speculation.schedule
        if len(seen) == MOST_TRIALS or not trial.valid or not alone or seen.count(name) == MOST_OF_ONE:
            continue
        kept = PriorTrial.of(trial)
        if any(cell.metrics for cell in kept.cells):
            seen.append(name)
            yield kept


def is_alike(opened: CampaignOpened, prepared: Prepared) -> bool:
    """Whether an earlier campaign tells of a new one: same engine, models, processor, GPUs and settings of the service
    but for its speculation, both simulated or neither."""
    old, now = opened.provenance, prepared.provenance
    if (old.hardware.cpu, old.hardware.gpus, bool(old.simulated)) != (
        now.hardware.cpu, now.hardware.gpus, bool(now.simulated),
    ):  # fmt: skip
        return False
    if opened.service.engine != prepared.service.engine or not _same_models(opened, prepared):
        return False
    return _settings(opened.service, prepared) == _settings(prepared.service, prepared) is not None


def _same_models(opened: CampaignOpened, prepared: Prepared) -> bool:
    old, now = opened.provenance.files, prepared.provenance.files
    if "model" not in old or "model" not in now:
        return opened.service.model == prepared.service.model
    shared = [role for role in old.keys() & now.keys() if role != "binary"]
    return all(old[role] == now[role] for role in shared)


def _settings(service: Service, prepared: Prepared) -> tuple[object, ...] | None:
    """How a service's arguments would run here without speculation; None where they can't."""
    _, env = redact((), service.env)
    own = replace(prepared.service, args=redact_settings(service.args), env=env)
    try:
        launch = launch_of(prepared.engine, own, Candidate())
    except InputError:
        return None
    return (sorted(launch.argv), dict(launch.env))


def _differences(opened: CampaignOpened, prepared: Prepared) -> Iterator[str]:
    """What is not as it was then, and makes its figures worth less."""
    old, now = opened.provenance, prepared.provenance
    if old.engine_version != now.engine_version:
        yield f"engine {old.engine_version}, now {now.engine_version}"
    elif old.files.get("binary") != now.files.get("binary"):
        yield "another build of the engine"
    asked, asks = opened.spec.workload, prepared.spec.workload
    if (old.workload.sha256, asked.max_tokens, asked.top_p, asked.ignore_eos) != (
        prepared.provenance.workload.sha256, asks.max_tokens, asks.top_p, asks.ignore_eos,
    ):  # fmt: skip
        yield "other workload"
