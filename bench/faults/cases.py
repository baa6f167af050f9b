"""The seeded faults: what is broken, and by which name it should be caught."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import httpx

from bench.faults.lab import SHORT, USERS, Lab, Report, Trial
from bench.faults.sides import NOWHERE, about_load, objections
from bench.faults.stub import stub
from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Launch
from spectune.domain.errors import EngineFailure
from spectune.domain.ports import Limits, Running, Target
from spectune.domain.workload import Cell, Level, Prompt, Sampling
from spectune.workload import builtin_source

MTP = Candidate(Speculation(Method.MTP, 2))
EAGLE = Candidate(Speculation(Method.EAGLE3, 3, draft_model="/models/draft"))
TREE = Candidate(Speculation(Method.EAGLE, 3, topk=4, draft_model="/models/draft"))
ADAPTIVE = Candidate(MTP.speculation, {"speculative-adaptive": True})
STUB = Launch((), {}, "http://127.0.0.1", "/health", (), None, "m")
CELL = Cell(Level(USERS), Sampling(0.7))


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name, family: in the table.
        expected: alarms, each of which is the right name.
        run: does it.
    """

    name: str
    family: str
    expected: frozenset[str]
    run: Callable[[Lab], Report]


def simulated(profile: str, trial: Trial, **args: bool | int | float | str) -> Callable[[Lab], Report]:
    return lambda lab: lab.run(lab.simulated(profile, **args), trial)


def garbled_service(lab: Lab) -> Report:
    """The baseline has the fault as well, so that the answers of both are alike."""
    bed, fault = lab.simulated("hand-run"), "garbage-when-concurrent"
    env = {**bed.service.env, "SPECTUNE_SIM_FAULTS": fault}
    return lab.run(replace(bed, service=replace(bed.service, env=env)), Trial(MTP, fault))


def squatted(lab: Lab) -> Report:
    """Another program listens on the port before the server starts."""
    bed = lab.simulated("hand-run")
    with socket.create_server(("127.0.0.1", 0)) as other:
        return lab.run_at(bed, Trial(MTP), other.getsockname()[1])


def orphaned(lab: Lab) -> Report:
    """A worker of a server from before keeps the port after its server was killed. It bears no mark of this campaign,
    so that the deployer may not end it."""
    bed = lab.simulated("hand-run")
    port = lab.free_port(bed)
    faults = {"SPECTUNE_SIM_FAULTS": "orphan-child=15"}
    argv = [bed.service.binary, *bed.service.entry, "--model-path", "/models/m", "--port", str(port)]
    before = subprocess.Popen(
        argv, env={**os.environ, **bed.service.env, **faults}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not _answers(port):
        time.sleep(0.1)
    before.kill()
    before.wait()
    return lab.run_at(bed, Trial(MTP), port)


def _answers(port: int) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=1.0).status_code == 200
    return False


def kept_memory(lab: Lab) -> Report:
    """A process that bears no mark of the trial holds GPU memory when the server has gone."""
    bed = lab.simulated("hand-run")
    gpu = bed.gpu_file
    assert gpu is not None
    holder = subprocess.Popen(["/bin/sleep", "60"])

    def hold(target: Target) -> Callable[[], None]:
        with gpu.open("a", encoding="ascii") as file:
            file.write(f"{holder.pid} {8 * 2**30}\n")
        return lambda: None

    try:
        return lab.run(bed, Trial(MTP, meanwhile=hold))
    finally:
        holder.kill()
        holder.wait()


def replaced(lab: Lab) -> Report:
    """The server dies between two cells, and another program answers on its port."""
    squatter: list[socket.socket] = []

    def swap(running: Running, launch: Launch) -> None:
        os.kill(running.pid, signal.SIGKILL)
        time.sleep(0.5)
        port = int(launch.url.rpartition(":")[2])
        with contextlib.suppress(OSError):
            squatter.append(socket.create_server(("127.0.0.1", port)))

    try:
        return lab.run(lab.simulated("hand-run"), Trial(MTP, cells=(CELL, CELL), between=swap))
    finally:
        for held in squatter:
            held.close()


def killed(running: Running, launch: Launch) -> None:
    os.kill(running.pid, signal.SIGKILL)


def as_baseline(launch: Launch) -> Launch:
    """The speculation flags got lost on their way to the server."""
    words, kept = iter(launch.argv), []
    for word in words:
        if word.startswith("--speculative"):
            next(words)
        else:
            kept.append(word)
    return replace(launch, argv=tuple(kept))


def as_ngram(launch: Launch) -> Launch:
    plain = as_baseline(launch)
    return replace(
        plain,
        argv=(*plain.argv, "--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "3"),
    )


def replayed(lane: int) -> Iterator[Prompt]:
    """Eight prompts over and over."""
    few = list(islice(builtin_source(max_tokens=SHORT).deal(1, 8), 8))
    number = 0
    while True:
        for prompt in few:
            number += 1
            yield replace(prompt, id=f"{prompt.id}#{number}")


def few_prompts(lane: int) -> Iterator[Prompt]:
    return islice(builtin_source(max_tokens=SHORT).deal(lane, 8), 6)


def one_at_a_time(lane: int) -> Iterator[Prompt]:
    """A source that is slow to make prompts, as a client is that can't keep up."""
    for prompt in builtin_source(max_tokens=SHORT).deal(lane, 8):
        time.sleep(0.08)
        yield prompt


def busy_thread(target: Target) -> Callable[[], None]:
    """Work beside the client in its own process, so that its event loop comes late."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            sum(n * n for n in range(400_000))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()

    def stop() -> None:
        ended.set()
        for thread in threads:
            thread.join()

    return stop


def second_client(target: Target) -> Callable[[], None]:
    """Somebody else uses the server."""
    ended = threading.Event()

    def work() -> None:
        body = {"text": "Tell me more", "sampling_params": {"max_new_tokens": 60, "ignore_eos": True}}
        with httpx.Client(timeout=5.0) as client:
            while not ended.is_set():
                with contextlib.suppress(httpx.HTTPError):
                    client.post(f"{target.url}/generate", json=body)

    thread = threading.Thread(target=work)
    thread.start()

    def stop() -> None:
        ended.set()
        thread.join()

    return stop


def ill_mannered(manners: str) -> Callable[[Lab], Report]:
    """Measures a stub; nothing but the measurement's own doubts can tell."""

    def run(lab: Lab) -> Report:
        with stub(manners) as url:
            if lab.client is not None:
                return Report(frozenset(), False, {lab.client.name: lab.client.report(url, "m")})
            target = Target(url, "m", lambda: None, {}, keep_alive=False)
            try:
                prompts = builtin_source(max_tokens=SHORT).deal(1, 8)
                found = lab.load().measure(target, CELL, prompts, Limits(2.0, 0.0), lambda text: None)
            except EngineFailure as failure:
                return Report(frozenset({failure.kind.value}), False, {failure.kind.value: failure.message})
            bed = lab.simulated("hand-run")
            doubts = {doubt.name: doubt.message for doubt in found.measurement.doubts}
            fatal = any(doubt.fatal for doubt in found.measurement.doubts)
            asked, cells = Asked(NOWHERE, MTP, Candidate(), STUB, (CELL,), 0.0), {CELL.key: found}
            checked = about_load(asked, cells)
            against = objections(asked, checked, cells, lab.reference(bed).measured)
            sound = not fatal and not against and checked.invalid_because is None
            return Report(frozenset(doubts), sound, doubts)

    return run


def _fault(name: str, family: str, expected: str, run: Callable[[Lab], Report]) -> Fault:
    return Fault(name, family, frozenset(expected.split()), run)


IDENTITY = (
    _fault("a foreign program on the port", "identity", "port-taken listener-is-ours", squatted),
    _fault("an orphan of the last trial on the port", "identity", "port-taken listener-is-ours", orphaned),
    _fault(
        "an old process still serves", "identity", "started-after-deploy",
        simulated("hand-run", Trial(MTP, asked_later=60.0)),
    ),
    _fault("another model is served", "identity", "model-served", simulated("hand-run", Trial(MTP, "wrong-model"))),
    _fault("the server is replaced while measured", "identity", "server-survived died-measuring", replaced),
)  # fmt: skip

SETTINGS = (
    _fault("another depth runs", "settings", "speculation-depth", simulated("hand-run", Trial(MTP, "wrong-settings"))),
    _fault(
        "at most 2 requests run, silently", "settings", "limits-cover-levels settings-effective",
        simulated("hand-run", Trial(MTP, "silent-limit-48=2")),
    ),
    _fault("topk is ignored", "settings", "speculation-topk",
           simulated("dense-8b-eagle3", Trial(TREE, "topk-ignored"))),
    _fault("the adaptive depth falls back", "settings", "adjustments-allowed settings-effective",
           simulated("hand-run", Trial(ADAPTIVE, "adaptive-fallback"))),
    _fault("graphs cover 2 requests", "settings", "graph-cover",
           simulated("hand-run", Trial(MTP, "graph-truncated=2"))),
    _fault("speculation flags are lost", "settings", "speculation-live",
           simulated("hand-run", Trial(MTP, relaunch=as_baseline))),
    _fault("another method runs", "settings", "speculation-method",
           simulated("hand-run", Trial(MTP, relaunch=as_ngram))),
    _fault("the prefix cache is off in one arm", "settings", "scheduler-parity",
           simulated("hand-run", Trial(MTP, args={"disable-radix-cache": True}))),
    _fault("overlap scheduling is off in one arm", "settings", "scheduler-parity",
           simulated("hand-run", Trial(MTP, args={"disable-overlap-schedule": True}))),
    _fault("the attention kernels differ", "settings", "scheduler-parity",
           simulated("hand-run", Trial(MTP, args={"attention-backend": "triton"}))),
    _fault("the context is too short", "settings", "requests-fit",
           simulated("hand-run", Trial(MTP, longest=9000, args={"context-length": 8192}))),
)  # fmt: skip

MEASUREMENT = (
    _fault("prompts are replayed", "measurement", "prefix-cache-hit",
           simulated("hand-run", Trial(MTP, prompts=replayed))),
    _fault("answers of forced length", "measurement", "forced-length",
           simulated("hand-run", Trial(MTP, cells=(Cell(Level(USERS), Sampling(0.7, ignore_eos=True)),)))),
    _fault("prompts run out", "measurement", "load-not-reached nothing-measured few-requests",
           simulated("hand-run", Trial(MTP, prompts=few_prompts))),
    _fault("the client is too slow", "measurement", "load-not-reached client-blocked client-late",
           simulated("hand-run", Trial(MTP, prompts=one_at_a_time))),
    _fault("the client's loop is blocked", "measurement", "client-blocked client-late client-busy",
           simulated("hand-run", Trial(MTP, meanwhile=busy_thread))),
    _fault("somebody else uses the server", "measurement", "tokens-differ-from-server",
           simulated("hand-run", Trial(MTP, meanwhile=second_client))),
    _fault("another program keeps the machine busy", "measurement", "busy-host",
           simulated("hand-run", Trial(MTP, load_average=lambda: 9.0))),
    _fault("the machine slows down", "measurement", "drift",
           simulated("hand-run", Trial(MTP, "slow-drift=1500", seconds=6.0))),
    _fault("no usage, only chunks", "measurement", "tokens-unknown", ill_mannered("no-usage")),
    _fault("one answer to everything", "measurement", "same-answers", ill_mannered("same-answers")),
    _fault("every fourth request fails", "measurement", "failed-requests", ill_mannered("refuses")),
    _fault("streams are cut", "measurement", "failed-requests", ill_mannered("cuts-streams")),
)  # fmt: skip

ANSWERS = (
    _fault("garbage in company", "answers", "answers", simulated("hand-run", Trial(MTP, "garbage-when-concurrent"))),
    _fault("garbage in company, of the service itself too", "answers", "answers-in-company", garbled_service),
    _fault("garbage", "answers", "answers", simulated("hand-run", Trial(MTP, "garbage-answers"))),
    _fault("loops", "answers", "answers", simulated("hand-run", Trial(MTP, "loops"))),
    _fault("answers are cut short", "answers", "answers", simulated("hand-run", Trial(MTP, "truncated-answers"))),
    _fault("tool calls are broken", "answers", "answers", simulated("hand-run", Trial(MTP, "broken-tool-calls"))),
    _fault("the temperature is ignored", "answers", "answers-sampled",
           simulated("hand-run", Trial(MTP, "temperature-ignored"))),
    _fault("the temperature is ignored for half of the requests", "answers", "answers-sampled",
           simulated("hand-run", Trial(MTP, "temperature-ignored=50"))),
    _fault("the draft head is dead", "answers", "head-sound", simulated("hand-run", Trial(MTP, "dead-head"))),
    _fault("the draft has random weights", "answers", "head-sound",
           simulated("dense-8b-eagle3", Trial(EAGLE, "draft-not-loaded"))),
)  # fmt: skip

LIFE = (
    _fault("a hang after health", "life cycle", "generation", simulated("hand-run", Trial(MTP, "hang-after-health"))),
    _fault("a hang under load", "life cycle", "sustained-generation died-measuring",
           simulated("hand-run", Trial(MTP, "hang-at-request=90", seconds=8.0))),
    _fault("death at a request", "life cycle", "server-survived died-measuring process-alive out-of-memory exited",
           simulated("hand-run", Trial(MTP, "die-at-request=80", seconds=8.0))),
    _fault("a crash while loading", "life cycle", "exited unknown out-of-memory",
           simulated("hand-run", Trial(MTP, "crash-at-start"))),
    _fault("out of memory above a depth", "life cycle", "out-of-memory kv-too-small",
           simulated("hand-run", Trial(MTP, "oom-above-depth=1"))),
    _fault("never ready", "life cycle", "never-ready", simulated("hand-run", Trial(MTP, "never-ready"))),
    _fault("memory is not given back", "life cycle", "memory-returned",
           kept_memory),
    _fault("killed between two cells", "life cycle", "server-survived died-measuring",
           simulated("hand-run", Trial(MTP, cells=(CELL, CELL), between=killed))),
)  # fmt: skip

OUR_OWN = frozenset({"prompts run out", "the client is too slow", "the client's loop is blocked"})
"""Faults of the client itself, which another one does not have."""
SIMULATED: tuple[Fault, ...] = IDENTITY + SETTINGS + MEASUREMENT + ANSWERS + LIFE
