"""Small trials on servers with known faults: deployed, verified and measured as a campaign does it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from bench.faults.clients import MANY, REQUESTS, Client
from bench.faults.sides import objections
from spectune.assemble.clock import SystemClock
from spectune.assemble.engines import KITS
from spectune.deploy.listeners import free_port
from spectune.deploy.process import LocalProcesses
from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Counters, Launch, Seen, Service
from spectune.domain.errors import EngineFailure, PortTaken
from spectune.domain.finding import ProbeRun, Status, Verification
from spectune.domain.ports import Engine, Limits, Running, Target, launch_of
from spectune.domain.questions import Questions
from spectune.domain.spec import ServiceSpec
from spectune.domain.trial import MeasuredCell, TrialState
from spectune.domain.workload import Cell, Level, Prompt, Sampling
from spectune.load.exchange import Timeouts
from spectune.load.generator import HttpLoad
from spectune.load.options import Options
from spectune.verify.gate import Gate
from spectune.verify.probes import Size, probe_set
from spectune.verify.sampling import LITTLE, sampled_set
from spectune.workload import builtin_source

USERS = 4
PROBES = Size(32, 24, 64, 64)
TIMEOUTS = Timeouts(connect_s=3.0, first_byte_s=3.0, idle_s=3.0)
SIMULATED = frozenset({"output-valid"})
"""Said of every simulated server; it is no alarm here."""
SHORT = 64
"""Most tokens of a measured answer."""


@dataclass(frozen=True, slots=True)
class Bed:
    """A healthy service to hold faults against, on one engine.

    Attributes:
        service: its port is chosen anew for every start.
        gpu_file: stands for the GPU's memory; None where nothing tells it.
    """

    engine: Engine
    service: Service
    gpu_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """What is known of the baseline: the answers of two deployments of it, and what the second one measured."""

    probes: tuple[tuple[ProbeRun, ...], ...]
    seen: Seen
    measured: dict[str, MeasuredCell]


@dataclass(frozen=True, slots=True)
class Trial:
    """What happens in a trial; the healthy one has no fault.

    Attributes:
        candidate: what is asked.
        faults: SPECTUNE_SIM_FAULTS of the server.
        noise, seed: SPECTUNE_SIM_NOISE and _SEED.
        relaunch: what is started in place of the launch that is asked.
        args: settings of the service that really runs.
        asked_later: seconds by which the deploy seems to have begun after the start.
        longest: tokens of the longest request.
        cells: what is measured, in order.
        prompts: of a cell, by lane.
        meanwhile: runs while a cell is measured; ends when the callable that it returns is called.
        between: done between two cells.
        load_average: of the machine as the client sees it.
    """

    candidate: Candidate
    faults: str = ""
    noise: str = "sd=0.02"
    seed: int = 7
    relaunch: Callable[[Launch], Launch] = lambda launch: launch
    args: dict[str, bool | int | float | str] = field(default_factory=dict)
    asked_later: float = 0.0
    longest: int | None = None
    cells: tuple[Cell, ...] = (Cell(Level(USERS), Sampling(0.7)),)
    prompts: Callable[[int], Iterator[Prompt]] | None = None
    meanwhile: Callable[[Target], Callable[[], None]] | None = None
    between: Callable[[Running, Launch], None] | None = None
    load_average: Callable[[], float] = lambda: 0.5
    seconds: float = 2.5


@dataclass(frozen=True, slots=True)
class Report:
    """What spectune said of a trial.

    Attributes:
        alarms: names of checks that are not ok, of doubts and of failures.
        promotable: nothing stands against promoting it.
        said: alarm -> its words.
        measured: what was measured, in order.
    """

    alarms: frozenset[str]
    promotable: bool
    said: dict[str, str]
    measured: dict[str, MeasuredCell] = field(default_factory=dict)


class Lab:
    """Runs trials, one after the other, and keeps what it learned of baselines.

    Args:
        client: measures in place of spectune, which then only starts the servers.
        timeouts: of requests; simulated servers answer at once.
    """

    def __init__(self, folder: Path, client: Client | None = None, timeouts: Timeouts = TIMEOUTS) -> None:
        self.folder = folder
        self.timeouts = timeouts
        self.client = client
        self._clock = SystemClock()
        self._deployer = LocalProcesses(folder / "logs", self._clock, grace_s=3.0)
        self._known: dict[tuple[str, str], Reference] = {}
        self._number = 0
        self.questions = Questions(probe_set(PROBES, builtin_source().deal(0, 8)), sampled_set(0.7, None, LITTLE))

    def simulated(self, profile: str, **args: bool | int | float | str) -> Bed:
        """A simulated SGLang with a model's profile."""
        spec = ServiceSpec(engine="sglang", binary=sys.executable, entry="-m spectune.sim.sglang", model="/models/m")
        located = KITS["sglang"].locate(spec, lambda text, share: None, False)
        gpu = self.folder / f"gpu-{profile}"
        env = {
            "SPECTUNE_SIM_PROFILE": profile,
            "SPECTUNE_SIM_LOAD_SECONDS": "0",
            "SPECTUNE_SIM_SPEED": "8",
            "SPECTUNE_SIM_SEED": "7",
            "SPECTUNE_SIM_GPU_FILE": str(gpu),
        }
        settings = {"enable-metrics": True, "enable-cache-report": True, "max-running-requests": 16, **args}
        service = Service(
            "sglang", str(located.binary), "/models/m", settings, env, "127.0.0.1", 0, "/models/m", 6.0, located.entry
        )
        return Bed(located.adapter, service, gpu)

    def reference(self, bed: Bed) -> Reference:
        """Two healthy deployments of the baseline, deployed when first needed."""
        key = bed.service.engine, repr((bed.service.args, bed.service.env))
        if key not in self._known:
            runs: list[tuple[ProbeRun, ...]] = []
            seen, measured = Seen(), dict[str, MeasuredCell]()
            for _ in range(2):
                service = replace(bed.service, port=self.free_port(bed))
                launch = launch_of(bed.engine, service, bed.engine.baseline(service))
                with self._deployer.deploy(launch, self._mark()) as running:
                    target = self._target(bed, launch, running)
                    runs.append(self._ask(self.load(), target))
                    seen = bed.engine.read(running.observe(launch.probe_paths))
                    measured = self._measure(bed, Trial(bed.engine.baseline(service)), launch, running)
            self._known[key] = Reference(tuple(runs), seen, measured)
        return self._known[key]

    def run(self, bed: Bed, trial: Trial) -> Report:
        """One trial from its start to after its stop, on a free port."""
        return self.run_at(bed, trial, self.free_port(bed))

    def run_at(self, bed: Bed, trial: Trial, port: int) -> Report:
        """The same on a port that may be taken."""
        if self.client is not None:
            return self._by_client(bed, trial, port, self.client)
        reference = self.reference(bed)
        service = replace(bed.service, port=port)
        findings, measured, failed = Verification(), dict[str, MeasuredCell](), dict[str, str]()
        before, mark = _gpu_bytes(bed.gpu_file), self._mark()
        launch = launch_of(bed.engine, service, trial.candidate)
        asked = self._asked(bed, service, trial, launch, reference)
        try:
            with self._deployer.deploy(_started(bed, service, trial), mark) as running:
                findings = self._before(bed, trial, asked, running)
                if findings.invalid_because is None:
                    measured = self._measure(bed, trial, launch, running)
                    seen = bed.engine.read(evidence := running.observe(launch.probe_paths))
                    findings += Gate().after(asked, evidence, seen, measured)
        except EngineFailure as failure:
            named = bed.engine.diagnose(failure)
            failed[named.kind.value] = named.message
        except PortTaken as taken:
            failed["port-taken"] = taken.message
        after = _gpu_bytes(bed.gpu_file)
        if before is not None and after is not None:
            findings += Gate().stopped(asked, before, after)
        against = objections(asked, findings, measured, reference.measured) if measured else ()
        return self._report(findings, measured, failed, against)

    def _by_client(self, bed: Bed, trial: Trial, port: int, client: Client) -> Report:
        """What another client says of the server, or of what answers in its place. Prompts that spectune sends again
        are the client's own, sent a second time."""
        service = replace(bed.service, port=port)
        launch = launch_of(bed.engine, service, trial.candidate)
        forced = any(cell.sampling.ignore_eos for cell in trial.cells)
        requests = MANY if "-at-request=" in trial.faults else REQUESTS
        said = ""
        try:
            with self._deployer.deploy(_started(bed, service, trial), self._mark()) as running:
                for number in range(max(len(trial.cells), 2 if trial.prompts else 1)):
                    if number and trial.between is not None:
                        trial.between(running, launch)
                    stop = trial.meanwhile(self._target(bed, launch, running)) if trial.meanwhile else _nothing
                    try:
                        said = client.report(launch.url, launch.model_id, forced, requests)
                    finally:
                        stop()
        except (EngineFailure, PortTaken):
            said = said or client.report(launch.url, launch.model_id, forced)
        return Report(frozenset(), False, {client.name: said})

    def _report(
        self,
        findings: Verification,
        measured: dict[str, MeasuredCell],
        failed: dict[str, str],
        against: tuple[str, ...],
    ) -> Report:
        said = {f.check: f.seen for f in findings.findings if f.status is not Status.OK and f.check not in SIMULATED}
        doubts = [doubt for cell in measured.values() for doubt in cell.measurement.doubts]
        said |= {doubt.name: doubt.message for doubt in doubts} | failed
        rest = Verification(tuple(f for f in findings.findings if f.check not in SIMULATED))
        state, _ = Gate().state(rest)
        # Promotion refuses campaigns that ask for answers past their end.
        stand_against = any(doubt.fatal or doubt.name == "forced-length" for doubt in doubts)
        clear = not failed and not against and not stand_against
        sound = state is TrialState.VALID and clear
        return Report(frozenset(said), sound, said, measured)

    def _before(self, bed: Bed, trial: Trial, asked: Asked, running: Running) -> Verification:
        target = self._target(bed, asked.launch, running)
        probes = self._ask(self.load(trial.load_average), target)
        evidence = running.observe(asked.launch.probe_paths)
        later = replace(asked, started_after=asked.started_after + trial.asked_later)
        return Gate().before(later, evidence, bed.engine.read(evidence), probes)

    def _measure(self, bed: Bed, trial: Trial, launch: Launch, running: Running) -> dict[str, MeasuredCell]:
        load, target = self.load(trial.load_average), self._target(bed, launch, running)
        found = {}
        for lane, cell in enumerate(trial.cells, start=1):
            if lane > 1 and trial.between is not None:
                trial.between(running, launch)
            prompts = (trial.prompts or _fresh)(lane)
            stop = trial.meanwhile(target) if trial.meanwhile else _nothing
            try:
                limits = Limits(trial.seconds, 0.0)
                found[f"{lane} {cell.key}"] = load.measure(target, cell, prompts, limits, lambda text: None)
            finally:
                stop()
        return found

    def _ask(self, load: HttpLoad, target: Target) -> tuple[ProbeRun, ...]:
        """As the campaign asks: alone, then in company, then with other seeds."""
        return self.questions.put_to(load, target, USERS, time.monotonic)

    def _asked(self, bed: Bed, service: Service, trial: Trial, launch: Launch, reference: Reference) -> Asked:
        return Asked(
            service=service,
            candidate=trial.candidate,
            baseline=bed.engine.baseline(service),
            launch=launch,
            cells=trial.cells,
            started_after=self._clock.now(),
            tokens_per_request=trial.longest,
            baseline_probes=reference.probes,
            baseline_warnings=reference.seen.warnings,
            baseline_capacity=reference.seen.capacity,
            baseline_settings=reference.seen.settings,
        )

    def _target(self, bed: Bed, launch: Launch, running: Running) -> Target:
        def counters() -> Counters | None:
            path = launch.counters_path
            return None if path is None else bed.engine.read(running.observe((path,))).counters

        return Target(launch.url, launch.model_id, counters, launch.headers, launch.keep_alive)

    def load(self, load_average: Callable[[], float] = lambda: 0.5) -> HttpLoad:
        return HttpLoad(self._clock, load_average, 2, options=Options(timeouts=self.timeouts, processes=1))

    def free_port(self, bed: Bed) -> int:
        return free_port("127.0.0.1", KITS[bed.service.engine].most_port)

    def _mark(self) -> str:
        self._number += 1
        return f"faults-{os.getpid()}.{self._number}.1"


def _started(bed: Bed, service: Service, trial: Trial) -> Launch:
    """What really starts."""
    really = replace(service, args={**service.args, **trial.args}, env={**service.env, **_environment(trial)})
    return trial.relaunch(launch_of(bed.engine, really, trial.candidate))


def _environment(trial: Trial) -> dict[str, str]:
    return {
        "SPECTUNE_SIM_FAULTS": trial.faults,
        "SPECTUNE_SIM_NOISE": trial.noise,
        "SPECTUNE_SIM_SEED": str(trial.seed),
    }


def _fresh(lane: int) -> Iterator[Prompt]:
    return builtin_source(max_tokens=SHORT).deal(lane, 8)


def _gpu_bytes(file: Path | None) -> int | None:
    """Bytes held by processes that live."""
    if file is None or not file.exists():
        return 0 if file is not None else None
    lines: Iterable[list[str]] = (line.split() for line in file.read_text(encoding="ascii").splitlines())
    return sum(int(size) for pid, size in lines if psutil.pid_exists(int(pid)))


def _nothing() -> None:
    pass


def scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="spectune-faults-"))
