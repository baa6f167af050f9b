"""The mock inference server, built once a session, as the known truth for tests of the load generator."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spectune.load import template
from spectune.load.native.library import library
from tests.load.serving import POOLS, Pools

_SOURCE = Path(__file__).parents[2] / "bench" / "loadgen" / "mockd.c"
_LOG_FIELDS = ("seq", "id", "fault", "t_req", "t_first", "t_last", "tokens", "chunks")


@dataclass
class Mock:
    """A running mock server."""

    process: subprocess.Popen[str]
    log_path: Path
    url: str = field(init=False)

    def __post_init__(self) -> None:
        assert self.process.stdout
        port = self.process.stdout.readline().removeprefix("listening on ").strip()
        self.url = f"http://127.0.0.1:{int(port)}"

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        assert self.process.stdout
        self.process.stdout.close()

    def log(self) -> list[dict[str, str]]:
        """Stops the server and returns what it did, a row a request in the order of their ends."""
        self.stop()
        lines = self.log_path.read_text().splitlines()
        return [dict(zip(_LOG_FIELDS, line.split("\t"), strict=True)) for line in lines]


StartMock = Callable[..., Mock]


@pytest.fixture(params=POOLS)
def pools(request: pytest.FixtureRequest) -> Pools:
    """Each client in turn: what is tested of one holds for the other. Both can be had where tests run."""
    kind: Pools = request.param
    return kind


@pytest.fixture(scope="module", params=["compiled", "python"])
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """Streams read with the compiled library, and without it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(template, "library", lambda: None)
        else:
            assert library() is not None, "the load client was not compiled; see docs/development.md"
        yield


@pytest.fixture(scope="session")
def mockd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang): the mock server cannot be built")
    binary = tmp_path_factory.mktemp("mockd") / "mockd"
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", binary, _SOURCE], check=True)
    return binary


@pytest.fixture
def start_mock(mockd: Path, tmp_path: Path) -> Iterator[StartMock]:
    """Starts a mock server with the given flags; all are stopped at the end of the test."""
    started: list[Mock] = []

    def start(*flags: str) -> Mock:
        log = tmp_path / f"mock-{len(started)}.tsv"
        command = [str(mockd), "--log", str(log), *flags]
        started.append(Mock(subprocess.Popen(command, stdout=subprocess.PIPE, text=True), log))
        return started[-1]

    yield start
    for mock in started:
        if mock.process.poll() is None:
            mock.stop()
