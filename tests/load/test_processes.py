"""Several processes on one server: the same truth, put together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import numpy as np
import psutil
import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.errors import EngineFailure, HostError, InputError
from spectune.domain.measurement import Outcome, Phase
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Limits, Target
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Arrival, Cell, Level, LevelKind, Message, Prompt, Sampling
from spectune.load.exchange import Timeouts
from spectune.load.generator import HttpLoad
from spectune.load.options import Options
from spectune.load.processes import processes_for
from tests.load.conftest import StartMock

OPEN = Level(60.0, LevelKind.RATE, Arrival.CONSTANT)


def prompts(turns: int = 1) -> Iterator[Prompt]:
    for n in count():
        session = f"s{n // turns}" if turns > 1 else ""
        yield Prompt(f"{n // turns}/{n % turns}", "a", (Message("user", f"question {n}"),), 12, session=session)


def measure(
    url: str,
    level: Level,
    given: Iterator[Prompt] | None = None,
    *,
    seconds: float = 1.5,
    precision: float = 1e-9,
    processes: int = 2,
    options: Options | None = None,
) -> MeasuredCell:
    options = options or Options(Timeouts(connect_s=5.0, first_byte_s=5.0, idle_s=1.0), processes=processes)
    load = HttpLoad(SystemClock(), lambda: 0.0, 4, options=options)
    target = Target(url, "mock", lambda: None, {})
    return load.measure(
        target, Cell(level, Sampling()), given or prompts(), Limits(seconds, precision), lambda text: None
    )


def children() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "spectune.load.worker" in " ".join(p.cmdline())]


def test_shares_add_up_to_exactly_so_many_in_flight(start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "40", "--tpot-ms", "5")
    found = measure(mock.url, Level(7), processes=3)
    m = found.measurement
    assert m.in_flight == pytest.approx(7, rel=0.08)
    assert m.metrics[MetricName.TPOT_P50].value == pytest.approx(0.005, rel=0.1)
    assert m.metrics[MetricName.AGGREGATE_SPEED].value == pytest.approx(7 * 12 / 0.095, rel=0.2)
    assert m.stopped == "time is up"
    steady = [r for r in found.records if r.phase is Phase.STEADY]
    assert {r.outcome for r in steady} == {Outcome.OK}
    assert len({r.prompt_id for r in found.records}) == len(found.records)
    assert {r.phase for r in found.records if r.outcome is Outcome.CANCELLED} <= {Phase.DRAIN}
    assert children() == []
    # Never more than seven at a time, as the server saw it.
    rows = [row for row in mock.log() if int(row["t_last"])]
    moments = sorted([(int(row["t_req"]), 1) for row in rows] + [(int(row["t_last"]), -1) for row in rows])
    assert max(np.cumsum([change for _, change in moments])) <= 7


def test_arrivals_of_all_make_up_the_schedule(start_mock: StartMock) -> None:
    found = measure(start_mock("--ttft-ms", "30").url, OPEN)
    dues = sorted(r.due_ns for r in found.records)
    gaps = np.diff(dues)
    assert np.abs(gaps - 1e9 / 60).max() <= 1
    steady = [r for r in found.records if r.phase is Phase.STEADY]
    assert len(steady) > 60
    assert {r.outcome for r in steady} == {Outcome.OK}
    assert float(np.median([r.lateness_s for r in steady if r.lateness_s is not None])) < 0.005


@pytest.mark.parametrize("level", [Level(4), OPEN], ids=lambda level: level.key)
def test_prompts_are_sent_once_and_sessions_stay_in_order(start_mock: StartMock, level: Level) -> None:
    found = measure(start_mock("--ttft-ms", "5").url, level, islice(prompts(turns=3), 90), seconds=30.0)
    assert found.measurement.stopped == "prompts ran out"
    by_id = {r.prompt_id: r for r in found.records}
    assert len(by_id) == len(found.records)
    assert level is not OPEN or len(by_id) == 90
    for prompt_id, r in by_id.items():
        session, turn = prompt_id.split("/")
        assert turn == "0" or r.sent_ns >= by_id[f"{session}/{int(turn) - 1}"].end_ns


def test_it_stops_when_all_together_are_precise_enough(start_mock: StartMock) -> None:
    began = time.monotonic()
    found = measure(start_mock("--ttft-ms", "5", "--tpot-ms", "5").url, Level(2), seconds=60.0, precision=0.2)
    assert found.measurement.stopped == "precise enough"
    assert time.monotonic() - began < 50


def test_a_process_that_dies_is_an_error_that_names_it(start_mock: StartMock) -> None:
    def kill() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for child in children():
                if "main(" in " ".join(child.cmdline()):
                    time.sleep(2.0)
                    os.kill(child.pid, signal.SIGKILL)
                    return
            time.sleep(0.05)

    url = start_mock("--ttft-ms", "20").url
    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HostError, match=r"process [12] of 2 of the load generator died \(exit code -9\)"):
        measure(url, Level(2), seconds=60.0)
    killer.join()
    assert children() == []


def test_a_server_that_is_gone_is_told(start_mock: StartMock) -> None:
    mock = start_mock()
    mock.stop()
    with pytest.raises(EngineFailure, match="stopped answering"):
        measure(mock.url, Level(4), seconds=60.0)
    assert children() == []


def test_a_prompt_that_cannot_be_sent_is_the_error_of_all(start_mock: StartMock) -> None:
    odd = Prompt("p9", "a", (), 4, extra={"stop": b"bytes"})
    with pytest.raises(InputError, match="p9") as caught:
        measure(
            start_mock().url, Level(2), (prompt for pair in zip(prompts(), [odd] * 40, strict=False) for prompt in pair)
        )
    assert "extra fields" in caught.value.advice


def test_prompts_larger_than_any_buffer_do_not_block_it(start_mock: StartMock) -> None:
    long = "word " * 40_000
    given = (Prompt(f"p{n}", "a", (Message("user", f"{n} {long}"),), 4) for n in range(300))
    found = measure(start_mock("--ttft-ms", "1").url, Level(4), given, seconds=1.0)
    assert found.measurement.requests[Outcome.OK] > 8


@pytest.mark.slow
def test_workers_end_when_the_process_that_started_them_is_killed(start_mock: StartMock, tmp_path: Path) -> None:
    url = start_mock("--ttft-ms", "20").url
    program = f"""
import threading
from tests.load import test_processes as t
threading.Thread(target=lambda: t.measure({url!r}, t.Level(2), seconds=60.0), daemon=True).start()
children = []
while len(children) < 2:
    children = t.children()
t.time.sleep(2)
print(*(child.pid for child in children), flush=True)
t.time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        workers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        parent.kill()
    assert psutil.wait_procs(workers, timeout=10)[1] == []


def test_what_cannot_be_shared_is_refused_or_left_to_one(start_mock: StartMock) -> None:
    url = start_mock().url
    with pytest.raises(InputError, match="cannot be shared by 2 processes"):
        measure(url, Level(2), options=Options(tokenizer=lambda text: 1, processes=2))
    alone = measure(url, Level(2), options=Options(tokenizer=lambda text: 1), seconds=0.3)
    assert alone.measurement.requests[Outcome.OK] > 0


@pytest.mark.parametrize(
    ("level", "cores", "processes"),
    [
        (Level(1), 64, 1),
        (Level(200), 64, 1),
        (Level(256), 64, 2),
        (Level(256), 2, 1),
        (Level(256), 1, 1),
        (Level(4096), 64, 8),
        (Level(500.0, LevelKind.RATE), 16, 3),
        (Level(500.0, LevelKind.RATE, Arrival.TRACE), 16, 1),
    ],
)
def test_how_many_processes(level: Level, cores: int, processes: int) -> None:
    assert processes_for(level, cores) == processes
