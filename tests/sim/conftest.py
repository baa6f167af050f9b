from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import httpx
import psutil
import pytest

from spectune.sim.sglang.__main__ import main
from tests.support.ports import fresh_port

CLIENT = httpx.Client(verify=False, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
NEXTN = ("--speculative-algorithm", "NEXTN", "--speculative-eagle-topk", "1")


def chain(depth: int) -> tuple[str, ...]:
    """Flags of speculation at a depth."""
    return (*NEXTN, "--speculative-num-steps", str(depth), "--speculative-num-draft-tokens", str(depth + 1))


class Forked:
    """A server forked from this process, because imports take longer than the tests."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self._code: int | None = None
        with warnings.catch_warnings():
            # Later Pythons warn of forks while other threads run; this child touches none of their locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            self._serve(argv, environ, log)

    @staticmethod
    def _serve(argv: Sequence[str], environ: Mapping[str, str], log: Path) -> NoReturn:
        code: object = 70
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            sys.stdout = sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            os.environ.update(environ)
            warnings.resetwarnings()
            warnings.simplefilter("ignore")
            main(argv)
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 1)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


@dataclass
class Sim:
    """A simulated server that was started."""

    process: Forked
    port: int
    log_file: Path
    gpu_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8") if self.log_file.exists() else ""

    def get(self, path: str, timeout: float = 30.0) -> httpx.Response:
        return CLIENT.get(f"http://127.0.0.1:{self.port}{path}", timeout=timeout)

    def post(self, path: str, body: dict[str, Any], timeout: float = 30.0) -> httpx.Response:
        return CLIENT.post(f"http://127.0.0.1:{self.port}{path}", json=body, timeout=timeout)

    def chat(self, text: str, timeout: float = 30.0, **more: Any) -> httpx.Response:
        body = {"messages": [{"role": "user", "content": text}], "temperature": 0, **more}
        return self.post("/v1/chat/completions", body, timeout)

    def say(self, text: str, **more: Any) -> str:
        return str(self.chat(text, **more).json()["choices"][0]["message"]["content"])

    def generate(self, text: str, timeout: float = 30.0, **sampling: Any) -> dict[str, Any]:
        body = {"text": text, "sampling_params": {"temperature": 0, **sampling}}
        answer = self.post("/generate", body, timeout).json()
        assert isinstance(answer, dict)
        return answer

    def info(self) -> dict[str, Any]:
        answer = self.get("/server_info").json()
        assert isinstance(answer, dict)
        return answer

    def state(self) -> dict[str, Any]:
        state = self.info()["internal_states"][0]
        assert isinstance(state, dict)
        return state

    def metric(self, name: str) -> float:
        for line in self.get("/metrics").text.splitlines():
            if line.startswith((f"sglang:{name} ", f"sglang:{name}{{")):
                return float(line.rpartition(" ")[2])
        return 0.0

    def healthy(self) -> bool:
        try:
            return self.get("/health", 3.0).status_code == 200
        except httpx.HTTPError:
            return False

    def until(self, true: Callable[[], bool], seconds: float = 30.0) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if true():
                return True
            time.sleep(0.02)
        return False

    def wait(self, seconds: float = 30.0) -> int:
        assert self.until(lambda: self.process.poll() is not None, seconds), "it still runs"
        code = self.process.poll()
        assert code is not None
        return code


Simulate = Callable[..., Sim]


@pytest.fixture(scope="session")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulate]:
    """Starts simulated servers: flags, and settings of the environment by keyword (profile=, faults=, ...)."""
    started: list[Sim] = []

    def start(*flags: str, ready: bool = True, port: int | None = None, **settings: str) -> Sim:
        folder = tmp_path_factory.mktemp("sim")
        port = port or fresh_port()
        settings = {"load_seconds": "0", "seed": "7", "gpu_file": str(folder / "gpu"), **settings}
        environ = {f"SPECTUNE_SIM_{name.upper()}": value for name, value in settings.items()}
        argv = ["--model-path", "/models/m", "--port", str(port), *flags]
        sim = Sim(Forked(argv, environ, folder / "log"), port, folder / "log", folder / "gpu")
        started.append(sim)
        if ready:
            assert sim.until(lambda: sim.process.poll() is not None or sim.healthy()), sim.log
            assert sim.process.poll() is None, sim.log
        return sim

    yield start
    for sim in started:
        if sim.process.poll() is None:
            sim.process.kill()
            sim.wait()
        for line in sim.gpu_file.read_text().splitlines() if sim.gpu_file.exists() else ():
            pid = int(line.split()[0])
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def plain(launch: Simulate) -> Sim:
    """Depth 2 of the default profile, as fast as the machine allows; tests only read it or add requests."""
    return launch(*chain(2), "--enable-metrics", "--enable-cache-report", "--decode-log-interval", "1", speed="20")
