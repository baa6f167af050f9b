"""From a specification to a campaign that can run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from spectune import __version__
from spectune.assemble.clock import SystemClock
from spectune.assemble.engines import KITS, Kit, Located, Progress, digests
from spectune.assemble.exams import exams
from spectune.assemble.gpu_memory import gpu_memory_used
from spectune.assemble.measuring import Origin, for_service
from spectune.assemble.services import Reached, Site
from spectune.assemble.strategies import strategy as strategy_of
from spectune.campaign import Campaign, Rooms
from spectune.deploy.listeners import check_free, free_port, place_of
from spectune.deploy.process import LocalProcesses
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Service
from spectune.domain.errors import InputError
from spectune.domain.events import CampaignOpened, Provenance
from spectune.domain.ports import Deployer, Engine, Observer, PromptSource, Strategy, launch_of
from spectune.domain.priors import Prior
from spectune.domain.questions import Exam
from spectune.domain.redaction import redact, redact_settings
from spectune.domain.spec import CampaignSpec, CandidateSpec, SpeculationSpace
from spectune.domain.workload import Prompt
from spectune.judge.objectives import check_objective
from spectune.judge.paired import PairedJudge
from spectune.ledger.store import SqlLedger
from spectune.provision import hardware
from spectune.search.staged import at_depth, spelled_out
from spectune.verify.gate import Gate
from spectune.verify.probes import FULL, SMALL, probe_set
from spectune.verify.sampling import LITTLE, PLENTY, Amount, sampled_set
from spectune.workload import builtin_source, open_source

Drafting = TypeVar("Drafting", SpeculationSpace, CandidateSpec)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A specification with everything found, fetched and checked; nothing runs yet.

    Attributes:
        spec: with every path resolved.
        service: what is tuned; its port is free at this moment.
        baseline: the service as it is.
        pruned: label of each candidate that this engine can't run -> why; they will not be deployed.
        sampled, exams: what is asked before measuring, beside the probes.
        origin: where the load comes from; None where it was not asked for.
    """

    spec: CampaignSpec
    engine: Engine
    service: Service
    baseline: Candidate
    pruned: Mapping[str, str]
    prompts: PromptSource
    probes: tuple[Prompt, ...]
    provenance: Provenance
    sampled: tuple[Prompt, ...] = ()
    exams: tuple[Exam, ...] = ()
    origin: Origin | None = None


def prepare(spec: CampaignSpec, progress: Progress, build: bool = True, site: Site | None = None) -> Prepared:
    """Resolves and checks everything that can be checked without starting a server.

    Args:
        site: where the service is a systemd unit; then nothing is checked that its own server stands in the way of.
        build: fetch or build what is missing; False refuses instead.

    Raises:
        InputError: what is wrong with the specification, the model, the binary or the workload.
        PortTaken: another program listens on the service's port.
        HostError, BuildFailed: the engine or model can't be brought here.
    """
    kit: Kit = KITS[spec.service.engine] if site is None else site.kit
    load = spec.workload
    prompts = prompt_source(load.source, load.max_tokens, load.domains, spec.seed)
    spec = _with_models(spec, kit, progress)
    spec = _side_by_side(spec, kit, may=site is None)
    located = kit.locate(spec.service, progress, build)
    engine = located.adapter
    service = _service(spec, located, kit.model_id(spec.service))
    if site is not None:
        service = replace(service, folder=site.unit.files_folder)
    baseline = engine.baseline(service)
    launch_of(engine, service, baseline)
    spec = _schedules(spec, engine, service, baseline)
    pruned = _pruned(engine, service, spec, baseline)
    check_objective(spec)
    if site is None:
        check_free(place_of(service.url))
    unmeasured = builtin_source(seed=spec.seed).deal(0, len(spec.cells) + 1)
    origin = for_service(spec.service, site, [service.binary] if "python" in Path(service.binary).name else [])
    notes = (*prompts.info.notes, origin.words) if origin.words else prompts.info.notes
    fast = bool(hardware.gpus()) and not located.simulated
    probes = probe_set(FULL if fast else SMALL, unmeasured)
    provenance = Provenance(
        spectune=__version__,
        engine_version=located.version,
        hardware=hardware.describe() if site is None else site.hardware(),
        workload=replace(prompts.info, notes=notes),
        files=digests(kit, _models(spec), located.binary if site is None else None, progress),
        simulated=located.simulated,
    )
    return Prepared(
        spec, engine, service, baseline, pruned, prompts, probes, provenance,
        sampled=_sampled(spec, PLENTY if fast else LITTLE),
        exams=exams(spec, prompts, progress),
        origin=origin,
    )  # fmt: skip


def _sampled(spec: CampaignSpec, amount: Amount) -> tuple[Prompt, ...]:
    """Prompts for the check on sampling, at the highest temperature of the workload; none where it is greedy."""
    temperatures = [one for one in spec.workload.temperatures if one != 0.0]
    if not temperatures:
        return ()
    told = [one for one in temperatures if one is not None]
    return sampled_set(max(told) if told else None, spec.workload.top_p, amount)


def usable_cores() -> int:
    return hardware.usable_cores()


def open_campaign(ledger: SqlLedger, prepared: Prepared, priors: tuple[Prior, ...] = ()) -> str:
    """Writes a new campaign's first event and returns its id."""
    return ledger.open(opening(prepared, SystemClock().now(), priors))


def opening(prepared: Prepared, now: float, priors: tuple[Prior, ...] = ()) -> CampaignOpened:
    """A new campaign's first event."""
    service = prepared.service
    _, env = redact((), service.env)
    shown = replace(service, args=redact_settings(service.args), env=env)
    spec = without_secrets(prepared.spec)
    return CampaignOpened(now, spec, shown, prepared.baseline, prepared.provenance, priors)


def without_secrets(spec: CampaignSpec) -> CampaignSpec:
    """The specification as the ledger keeps it. On resuming, secrets come from the campaign file again."""
    _, env = redact((), spec.service.env)
    return replace(spec, service=replace(spec.service, args=redact_settings(spec.service.args), env=env))


def campaign(
    ledger: SqlLedger,
    campaign_id: str,
    prepared: Prepared,
    directory: Path,
    observer: Observer,
    strategy: Strategy | None = None,
    site: Site | None = None,
) -> Campaign:
    """A campaign ready to run, with its own strategy unless another is given.

    Args:
        site: where the service is a systemd unit; its guard must be around the campaign.
    """
    clock = SystemClock()

    def say(mark: str, text: str) -> None:
        number = mark.removeprefix(f"{campaign_id}.").partition(".")[0]
        observer.progress(int(number) if number.isdigit() else 0, text)

    deployer: Deployer = LocalProcesses(directory / "logs", clock)
    gpu_memory: Callable[[], int | None] = partial(gpu_memory_used, {**os.environ, **prepared.service.env})
    if site is not None:
        deployer, gpu_memory = site.deployer(prepared.service.port, say), site.gpu_memory
    rooms = Rooms(
        engine=prepared.engine if site is None else Reached(prepared.engine, site.way),
        deployer=deployer,
        load=(prepared.origin or for_service(prepared.spec.service, site)).generator(),
        prompts=prepared.prompts,
        probes=prepared.probes,
        sampled=prepared.sampled,
        exams=prepared.exams,
        verifier=Gate(),
        strategy=strategy or strategy_of(prepared.spec),
        judge=PairedJudge(),
        ledger=ledger,
        clock=clock,
        observer=observer,
        beside=lambda service: replace(service, port=free_port(service.host, KITS[service.engine].most_port)),
        load_average=hardware.load_average if site is None else site.load_average,
        gpu_memory=gpu_memory,
        version=__version__,
    )
    return Campaign(rooms, campaign_id, prepared.spec, prepared.service)


def prompt_source(source: str, max_tokens: int | None, domains: Sequence[str] = (), seed: int = 1) -> PromptSource:
    """Prompts by the text that campaign files use ("builtin", "agentic", a file); docs/workloads.md lists them.

    Raises:
        InputError: no such source or file, no usable line, no such domain.
    """
    return open_source(source, domains=domains, max_tokens=max_tokens, seed=seed)


def _with_models(spec: CampaignSpec, kit: Kit, progress: Progress) -> CampaignSpec:
    """The specification with "builtin" and relative model paths replaced by absolute ones."""
    service = replace(spec.service, model=kit.model(spec.service.model, "model", progress))

    def resolved(space: Drafting) -> Drafting:
        if space.draft_model is None:
            return space
        return replace(space, draft_model=kit.model(space.draft_model, "draft model", progress))

    search = replace(
        spec.search,
        speculation=tuple(map(resolved, spec.search.speculation)),
        candidates=tuple(map(resolved, spec.search.candidates)),
    )
    return replace(spec, service=service, search=search)


def _models(spec: CampaignSpec) -> dict[str, str]:
    """Role -> model, of every model that the campaign loads."""
    found = {"model": spec.service.model}
    spaces: tuple[SpeculationSpace | CandidateSpec, ...] = (*spec.search.speculation, *spec.search.candidates)
    for space in spaces:
        if space.draft_model is not None:
            found[f"draft model {Path(space.draft_model).name}"] = space.draft_model
    return found


def _side_by_side(spec: CampaignSpec, kit: Kit, may: bool) -> CampaignSpec:
    """Decides whether two servers fit beside each other, where the specification leaves it open: on a machine without
    a GPU, with memory for each model twice and as much again for what comes with them."""
    if not may:
        return replace(spec, budget=replace(spec.budget, side_by_side=False))
    if spec.budget.side_by_side is not None:
        return spec
    need = 4 * sum(kit.bytes_of(model) for model in _models(spec).values())
    fits = 0 < need < hardware.memory_available() and not hardware.gpus()
    return replace(spec, budget=replace(spec.budget, side_by_side=fits))


def _service(spec: CampaignSpec, located: Located, model_id: str) -> Service:
    service = spec.service
    return Service(
        engine=service.engine,
        binary=str(located.binary),
        model=service.model,
        args=service.args,
        env=service.env,
        host=service.host,
        port=service.port or free_port(service.host, KITS[service.engine].most_port),
        model_id=model_id,
        ready_timeout_s=service.ready_timeout_s,
        entry=located.entry,
    )


def _schedules(spec: CampaignSpec, engine: Engine, service: Service, baseline: Candidate) -> CampaignSpec:
    """Leaves schedules out where no method of the campaign can change its depth with the load on this engine."""
    for space in spec.search.speculation if spec.search.schedules else ():
        fixed = at_depth(baseline, space, max(space.depths))
        both = ((1, max(space.depths)), (2, 0))
        with suppress(InputError):
            launch_of(engine, service, replace(fixed, speculation=replace(fixed.speculation, schedule=both)))
            return spec
    return replace(spec, search=replace(spec.search, schedules=False))


def _pruned(engine: Engine, service: Service, spec: CampaignSpec, baseline: Candidate) -> dict[str, str]:
    """Candidates that can't work, and why.

    Raises:
        InputError: when nothing of a method's depths, or of a setting's values, can work: that is a mistake. It names
            the key of the campaign file.
    """
    groups: dict[str, list[Candidate]] = {}
    for number, spelled in enumerate(spec.search.candidates):
        groups[f"search.candidates[{number}]"] = [spelled_out(baseline, spelled)]
    for number, space in enumerate(spec.search.speculation):
        groups[f"search.speculation[{number}]"] = [at_depth(baseline, space, depth) for depth in space.depths]
    for name, values in spec.search.knobs.items():
        groups[f"search.knobs.{name}"] = [replace(baseline, knobs={**baseline.knobs, name: v}) for v in values]
    pruned: dict[str, str] = {}
    for key, group in groups.items():
        refused: list[InputError] = []
        for candidate in group:
            try:
                launch_of(engine, service, candidate)
            except InputError as error:
                refused.append(error)
                pruned[candidate.label] = error.message
        if refused and len(refused) == len(group):
            why = refused[0]
            raise InputError(f"{key}: {why.message.removeprefix('candidate: ')}", why.advice)
    return pruned
