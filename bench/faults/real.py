"""Faults on a real llama-server with tiny random models."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bench.faults.cases import CELL, Fault, killed
from bench.faults.lab import SHORT, Bed, Lab, Report, Trial
from spectune.assemble.engines import KITS
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Launch, Service
from spectune.domain.errors import SpectuneError
from spectune.domain.spec import ServiceSpec
from spectune.domain.workload import Cell, Level, Prompt, Sampling
from spectune.workload import builtin_source
from tests.support.tiny_gguf import make_tiny

POOL = Candidate(Speculation(Method.NGRAM_POOL, 64))
ONE = Cell(Level(1), Sampling(0.0))


def real_faults(lab: Lab) -> list[Fault]:
    """Faults of a real server; none where there is no llama-server here yet."""
    try:
        bed, draft = real_bed(lab)
    except (SpectuneError, OSError) as error:
        print(f"no faults on a real llama-server: {error}", file=sys.stderr)
        return []
    drafting = Candidate(Speculation(Method.DRAFT, 3, draft_model=draft))

    def without_type(launch: Launch) -> Launch:
        at = launch.argv.index("--spec-type")
        return replace(launch, argv=launch.argv[:at] + launch.argv[at + 2 :])

    def squatted(lab: Lab) -> Report:
        with socket.create_server(("127.0.0.1", 0)) as other:
            return lab.run_at(bed, Trial(drafting), other.getsockname()[1])

    def repeated(lane: int) -> Iterator[Prompt]:
        few = list(islice(builtin_source(max_tokens=SHORT).deal(1, 8), 2))
        while True:
            yield from few

    def one(name: str, family: str, expected: str, trial: Trial) -> Fault:
        return Fault(f"llama-server: {name}", family, frozenset(expected.split()), lambda lab: lab.run(bed, trial))

    return [
        one("the draft model is dropped (-md without a type)", "settings", "speculation-live",
            Trial(drafting, relaunch=without_type)),
        Fault("llama-server: a foreign program on the port", "identity",
              frozenset({"port-taken", "listener-is-ours"}), squatted),
        one("the same prompts twice with a pool of n-grams", "measurement", "drafts-not-suspicious",
            Trial(POOL, cells=(ONE,), prompts=repeated, seconds=4.0)),
        one("the draft model disagrees about every token", "answers", "head-sound",
            Trial(drafting, seconds=4.0)),
        one("killed between two cells", "life cycle", "server-survived died-measuring",
            Trial(drafting, cells=(CELL, CELL), between=killed)),
        one("stopped in the middle (SIGSTOP)", "life cycle", "sustained-generation died-measuring",
            Trial(drafting, cells=(CELL, CELL),
                  between=lambda running, launch: os.kill(running.pid, signal.SIGSTOP))),
        one("the context is too short", "settings", "requests-fit generation answers",
            Trial(drafting, longest=2048, args={"ctx-size": 2048})),
    ]  # fmt: skip


def real_bed(lab: Lab) -> tuple[Bed, str]:
    """Tiny models beside a llama-server that is here already."""
    kit = KITS["llama.cpp"]
    located = kit.locate(ServiceSpec(), lambda text, share: None, False)
    source = Path(kit.model("builtin", "model", lambda text, share: None))
    target, draft = lab.folder / "target.gguf", lab.folder / "draft.gguf"
    make_tiny(source, target, seed=1)
    make_tiny(source, draft, layers=1, seed=2)
    args: dict[str, bool | int | float | str] = {"ctx-size": 8192, "parallel": 4, "threads": 1}
    service = Service("llama.cpp", str(located.binary), str(target), args, {}, "127.0.0.1", 0, "target", 60.0)
    return Bed(located.adapter, service), str(draft)
