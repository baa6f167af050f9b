"""The load comes from another host: the same code there, the same truth here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter_ns

import psutil
import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.errors import EngineFailure, HostError, HostLost, InputError
from spectune.domain.hosts import Host, HostAddress
from spectune.domain.measurement import Outcome, Phase, RequestRecord
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Limits, Target
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Arrival, Cell, Level, LevelKind, Prompt, Sampling
from spectune.hosts.local import Local
from spectune.hosts.ssh import Ssh
from spectune.load import shipping
from spectune.load.body import Server
from spectune.load.exchange import Timeouts
from spectune.load.generator import HttpLoad
from spectune.load.on_host import LoadOnHost
from spectune.load.options import Options
from spectune.load.running import Task
from tests.hosts.sshd import ALIAS, Sshd
from tests.load.conftest import StartMock
from tests.load.test_processes import OPEN, prompts

HERE = (sys.executable, "-m", "spectune.load.remote")
QUICK = Timeouts(connect_s=5.0, first_byte_s=5.0, idle_s=1.0)


@pytest.fixture
def host() -> Host:
    return Local(SystemClock())


def measure(
    host: Host,
    url: str,
    level: Level,
    given: Iterator[Prompt] | None = None,
    *,
    seconds: float = 1.5,
    options: Options | None = None,
    command: tuple[str, ...] = HERE,
    key: str = "",
) -> MeasuredCell:
    away = LoadOnHost(host, "box", command, url)
    load = HttpLoad(SystemClock(), lambda: 0.0, 4, QUICK, options, load=away)
    target = Target("http://127.0.0.1:1", "mock", lambda: None, {"Authorization": f"Bearer {key}"} if key else {})
    cell = Cell(level, Sampling(temperature=0.0))
    return load.measure(target, cell, given or prompts(), Limits(seconds, 1e-9), lambda text: None)


def remote() -> list[psutil.Process]:
    """Processes of a load generator that was started for another host."""
    found = []
    for process in psutil.process_iter():
        try:
            if "spectune.load.remote" in " ".join(process.cmdline()) and process.name().startswith("python"):
                found.append(process)
        except psutil.Error:
            continue
    return found


def until_gone(seconds: float = 8.0) -> None:
    deadline = time.monotonic() + seconds
    while remote():
        assert time.monotonic() < deadline, remote()
        time.sleep(0.05)


@contextmanager
def harmed(harm: Callable[[psutil.Process], None]) -> Iterator[None]:
    """Harms whatever runs there, again and again: what is found first may be at its end anyway."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.5):
            for process in remote():
                with suppress(psutil.Error, ProcessLookupError):
                    harm(process)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def folders() -> set[Path]:
    return set(Path("/tmp").glob("spectune-load-*"))


@pytest.mark.parametrize("level", [Level(1), Level(5), OPEN], ids=lambda level: level.key)
def test_the_same_truth(host: Host, start_mock: StartMock, level: Level) -> None:
    mock = start_mock("--ttft-ms", "40", "--tpot-ms", "5")
    before_ns, left = perf_counter_ns(), folders()
    found = measure(host, mock.url, level)
    m = found.measurement
    assert m.metrics[MetricName.TPOT].value == pytest.approx(0.005, rel=0.2)
    assert m.metrics[MetricName.TTFT_P50].value == pytest.approx(0.040, rel=0.4)
    assert m.metrics[MetricName.CHUNK_GAP].value == pytest.approx(0.005, rel=0.5)
    assert m.stopped == "time is up"
    steady = [r for r in found.records if r.phase is Phase.STEADY]
    assert steady
    assert {r.outcome for r in steady} == {Outcome.OK}
    assert len({r.prompt_id for r in found.records}) == len(found.records)
    # The stamps are on this machine's clock.
    assert all(before_ns <= r.due_ns <= r.end_ns <= perf_counter_ns() for r in found.records)
    assert all(r.due_ns <= r.sent_ns <= (r.first_ns or r.end_ns) for r in steady)
    until_gone()
    assert folders() == left


class AfterTen:
    """A Listener for whom ten requests are enough."""

    def __init__(self) -> None:
        self.heard: list[RequestRecord] = []

    def add(self, record: RequestRecord) -> None:
        self.heard.append(record)

    def is_enough(self) -> bool:
        return len(self.heard) >= 10


def test_the_listener_here_says_when_it_is_enough(host: Host, start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "5", "--tpot-ms", "2")
    listener = AfterTen()
    cell = Cell(Level(2), Sampling(temperature=0.0))
    task = Task(Server(mock.url, "mock"), cell, prompts(), 60.0, listener, Options(QUICK), 2)
    run = LoadOnHost(host, "box", HERE)(task)
    assert run.stopped == "precise enough"
    assert run.window.seconds < 30
    assert all(record.output_tokens == 12 and record.speed_tok_s for record in listener.heard)


def test_more_prompts_are_sent_as_they_are_needed(
    host: Host, start_mock: StartMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectune.load.on_host._AHEAD", 8)
    mock = start_mock("--ttft-ms", "5", "--tpot-ms", "1")
    ended = measure(host, mock.url, Level(2), iter([p for p, _ in zip(prompts(), range(50), strict=False)]), seconds=30)
    assert ended.measurement.stopped == "prompts ran out"
    assert len(ended.records) == 50


def test_sessions_and_pauses_come_back(host: Host, start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "5", "--tpot-ms", "1")
    found = measure(host, mock.url, Level(2), prompts(turns=3))
    in_order = sorted(found.records, key=lambda r: r.sent_ns)
    for session in {r.prompt_id.split("/")[0] for r in in_order}:
        turns = [r.prompt_id for r in in_order if r.prompt_id.split("/")[0] == session]
        assert turns == sorted(turns)


def test_several_processes_there(host: Host, start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "40", "--tpot-ms", "5")
    found = measure(host, mock.url, Level(6), options=Options(processes=2))
    assert found.measurement.in_flight == pytest.approx(6, rel=0.25)
    until_gone()


def test_a_server_that_is_gone_is_told(host: Host, start_mock: StartMock) -> None:
    mock = start_mock()
    mock.stop()
    with pytest.raises(EngineFailure, match="stopped answering"):
        measure(host, mock.url, Level(2))


def test_what_is_wrong_with_the_prompts_is_told(host: Host, start_mock: StartMock) -> None:
    mock = start_mock()
    with pytest.raises(InputError, match="no arrival time"):
        measure(host, mock.url, Level(2.0, LevelKind.RATE, Arrival.TRACE))


def test_the_key_is_on_no_command_line_and_in_no_file(host: Host, start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "20", "--tpot-ms", "2")
    key = "sk-open-sesame-31"
    seen: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            for process in psutil.process_iter():
                try:
                    seen.extend([*process.cmdline(), *process.environ().values()])
                except psutil.Error:
                    continue
            for folder in folders():
                seen.extend(path.read_text() for path in folder.glob("*") if path.is_file())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        measure(host, mock.url, Level(1), key=key, seconds=1.0)
    finally:
        over.set()
        thread.join()
    assert any("spectune.load.remote" in word for word in seen)
    assert not any(key in word for word in seen)


@pytest.mark.slow
@pytest.mark.parametrize("harm", [signal.SIGKILL, signal.SIGTERM])
def test_the_load_generator_there_dies(host: Host, start_mock: StartMock, harm: signal.Signals) -> None:
    mock = start_mock("--ttft-ms", "20", "--tpot-ms", "2")
    until_gone()  # those of the test before
    with harmed(lambda process: process.send_signal(harm)), pytest.raises(HostError):
        measure(host, mock.url, Level(2), seconds=30)
    until_gone()


@pytest.mark.slow
def test_ctrl_c_ends_it_there(start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "20", "--tpot-ms", "2")
    left = folders()
    program = (
        f"from tests.load.test_on_host import *\nmeasure(Local(SystemClock()), {mock.url!r}, Level(2), seconds=60)"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", program], cwd=root, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 30
        while not remote():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert b"KeyboardInterrupt" in err
    until_gone()
    assert folders() == left


def test_it_ends_by_itself_when_nobody_listens(start_mock: StartMock) -> None:
    """As where the shell around it was killed."""
    left = folders()
    with subprocess.Popen([*HERE], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout
        assert b"Hello" in process.stdout.readline()
        process.stdout.close()
        try:
            assert process.wait(20) != 0
        finally:
            process.kill()
    assert folders() == left


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("echo nonsense", "can't be understood"),
        ("""echo '{"Hello": {"fifo": "/tmp/x", "version": "0.0.0", "now_ns": 1}}'""", "is 0.0.0, and this one is"),
        ("""echo '{"Hello": {"fifo": 7}}'""", "can't be understood"),
        ("true", "said nothing"),
        ("echo ModuleNotFoundError >&2; exit 1", "does not run on box: .*ModuleNotFoundError"),
    ],
)
def test_something_else_answers(host: Host, says: str, expected: str) -> None:
    with pytest.raises((HostError, InputError), match=expected):
        measure(host, "http://127.0.0.1:9", Level(1), command=("/bin/sh", "-c", says))


def test_it_is_brought_once_and_runs_without_numbers(
    host: Host, start_mock: StartMock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = shipping.brought(host, "box", [sys.executable])
    (folder,) = (tmp_path / "spectune").iterdir()
    changed = folder.stat().st_ctime_ns
    assert shipping.brought(host, "box", [sys.executable]) == command
    assert folder.stat().st_ctime_ns == changed
    assert {path.name for path in folder.iterdir()} == {"spectune", "httptools", "orjson", "uvloop"}
    mock = start_mock("--ttft-ms", "5", "--tpot-ms", "2")
    found = measure(host, mock.url, Level(2), command=command, seconds=0.5)
    assert found.measurement.requests[Outcome.OK] > 5
    looks = f"import sys; sys.path.insert(0, {str(folder)!r}); import spectune.load.remote as r"
    looks += "; print(r.__file__, *sys.modules)"
    told = subprocess.run([sys.executable, "-I", "-c", looks], capture_output=True, text=True, check=True).stdout
    assert told.startswith(str(folder))
    assert not {"numpy", "scipy", "pydantic"} & set(told.split())


def test_a_host_without_such_a_python_is_refused(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "_ABI", "cpython-27-vax")
    with pytest.raises(InputError, match="needs a Python that is cpython-27-vax, and there is cpython-") as caught:
        shipping.brought(host, "box")
    assert "host:PYTHON" in caught.value.advice


def test_a_spectune_of_the_host(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shipping.installed(host, "box", sys.executable) == HERE
    monkeypatch.setattr(shipping, "__version__", "9.9.9")
    with pytest.raises(InputError, match="it has spectune 0") as caught:
        shipping.installed(host, "box", sys.executable)
    assert "pip install spectune==9.9.9" in caught.value.advice
    with pytest.raises(InputError, match="no-such-python"):
        shipping.installed(host, "box", "/no-such-python")


def test_what_can_not_be_loaded_there_is_refused(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _, _, _, _, folder = shipping.brought(host, "box", [sys.executable])
    (loop,) = Path(folder).glob("uvloop/loop*.so")
    loop.write_bytes(b"of another machine")
    with pytest.raises(InputError, match=r"there can't load it: .*loop"):
        shipping.brought(host, "box", [sys.executable])


def test_over_ssh_and_when_that_is_lost(tmp_path: Path, start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "20", "--tpot-ms", "2")
    sshd = Sshd(tmp_path)
    sshd.start()
    try:
        with Ssh(HostAddress(ALIAS, config=str(sshd.config)), SystemClock()) as ssh:
            found = measure(ssh, mock.url, Level(2), seconds=1.0)
            assert found.measurement.requests[Outcome.OK] > 5

            def cut() -> None:
                while not remote():
                    time.sleep(0.02)
                time.sleep(0.5)
                sshd.kill_connections()

            threading.Thread(target=cut).start()
            with pytest.raises(HostLost):
                measure(ssh, mock.url, Level(2), seconds=30)
            until_gone()
    finally:
        sshd.stop()


@pytest.mark.slow
def test_a_lost_connection_is_told_apart(host: Host, start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "20", "--tpot-ms", "2")
    until_gone()
    with harmed(lambda process: os.killpg(os.getpgid(process.pid), signal.SIGKILL)), pytest.raises(HostLost):
        measure(host, mock.url, Level(2), seconds=30)
    until_gone()
