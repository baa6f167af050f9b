"""One client against one mock server, each on a core of its own, with the truth beside what the client reports."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from bench.loadgen.clients import Ask, Client, Reported
from bench.loadgen.mock import Programs, Truth, serving
from bench.loadgen.vocabulary import write_tokenizer

_SAMPLE_S = 0.2


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of one run.

    Attributes:
        trouble: "" if the client came to its end by itself and said something; "hangs" or why not.
        truth: of its own requests, without those that it only tried before.
        cpu_s: of all its processes, from the first request to the last answer.
        cpu_s_per_million: the same for a million tokens that the server sent.
        rss_mb: of all its processes, at most.
    """

    trouble: str
    reported: Reported
    truth: Truth
    cpu_s: float
    cpu_s_per_million: float
    rss_mb: float


class Lab:
    """Where runs are made.

    Args:
        programs: mock server and reader.
        patience_s: how long a client may take for a run beyond what it needs, start included.
        folder: for logs and results; a temporary one by default.
    """

    def __init__(self, programs: Programs, patience_s: float, folder: Path | None = None) -> None:
        self._programs = programs
        self._patience_s = patience_s
        self._folder = folder or Path(tempfile.mkdtemp(prefix="loadgen-"))
        self._tokenizer = write_tokenizer(self._folder / "tokenizer")
        cores = sorted(os.sched_getaffinity(0))
        self.server_core, self.client_core = cores[0], cores[min(1, len(cores) - 1)]
        self._runs = 0

    def run(self, client: Client, flags: Sequence[str], ask: Ask) -> Ran:
        """Starts a server with these flags, lets the client load it, and ends both."""
        self._runs += 1
        folder = self._folder / f"run-{self._runs}"
        folder.mkdir()
        with serving(self._programs, folder / "mock.tsv", self.server_core, flags) as mock:
            command = client.command(ask, mock.port, folder, self._tokenizer)
            with (folder / "output").open("w") as output, (folder / "errors").open("w") as errors:
                process = subprocess.Popen(
                    command, stdout=output, stderr=errors, start_new_session=True, cwd=_ROOT, env=environment()
                )
            os.sched_setaffinity(process.pid, {self.client_core, *([self.server_core] if ask.processes > 1 else [])})
            with _Usage(process.pid) as usage:
                trouble = self._wait(process, ask)
            truth = mock.truth().last(ask.waves * ask.users or ask.requests) if not ask.seconds else mock.truth()
        reported = Reported()
        if not trouble:
            try:
                reported = client.read(folder, (folder / "output").read_text())
            except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
                trouble = f"no result: {type(error).__name__} {error}; {_tail(folder / 'errors')}"
        cpu_s = reported.cpu_s if reported.cpu_s is not None else usage.between(truth)
        tokens = truth.sent_tokens
        per_million = 1e6 * cpu_s / tokens if tokens else 0.0
        return Ran(trouble, reported, truth, cpu_s, per_million, reported.rss_mb or usage.rss_mb)

    def _wait(self, process: subprocess.Popen[bytes], ask: Ask) -> str:
        try:
            code = process.wait(self._patience_s + ask.seconds)
        except subprocess.TimeoutExpired:
            code = None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what a client left behind
        process.wait()
        if code is None:
            return "hangs"
        return f"exit code {code}" if code else ""


_ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """Of clients: modules are found, and nobody phones home."""
    paths = [str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    quiet = {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error", "DO_NOT_TRACK": "1"}
    return os.environ | quiet | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _tail(path: Path) -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "and no message"


class _Usage:
    """CPU time and memory of a process and all that it starts, over time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stamps: list[int] = []
        self._seconds: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.rss_mb = 0.0

    def __enter__(self) -> _Usage:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def between(self, truth: Truth) -> float:
        """CPU seconds from the server's first request to its last token."""
        if not self._stamps or not truth.served:
            return 0.0
        begin, end = np.interp(truth.span_ns, self._stamps, self._seconds)
        return float(end - begin)

    def _sample(self) -> None:
        gone = 0.0  # of processes that are no more
        last: dict[int, float] = {}
        while not self._over.wait(_SAMPLE_S):
            now, memory = {}, 0.0
            with suppress(psutil.NoSuchProcess):
                top = psutil.Process(self._pid)
                for process in [top, *top.children(recursive=True)]:
                    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                        times = process.cpu_times()
                        now[process.pid] = times.user + times.system
                        memory += process.memory_info().rss / 2**20
            gone += sum(seconds for pid, seconds in last.items() if pid not in now)
            last = now
            self._stamps.append(time.perf_counter_ns())
            self._seconds.append(gone + sum(now.values()))
            self.rss_mb = max(self.rss_mb, memory)
