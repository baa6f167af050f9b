"""Hundreds of streams for minutes: does memory stay, do descriptors, and is exactly so much in flight as was asked?"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.loadgen.clients import Ask, Spectune
from bench.loadgen.mock import Mock, Programs, serving
from bench.loadgen.runs import environment

_FLAGS = ("--ttft-ms", "200", "--tpot-ms", "20")
_REQUEST_S = 0.2 + 127 * 0.02
_GAUGE = re.compile(r"^(\S+)\{[^}]*\} (\d+)$", re.MULTILINE)


@dataclass
class _Seen:
    """One value a second of the steady part."""

    rss_mb: list[float] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    in_flight: list[int] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)


def soak(programs: Programs, users: int, seconds: float, cores: tuple[int, int]) -> dict[str, Any]:
    """Runs it on (server core, client core), and returns the facts."""
    folder, client = Path(tempfile.mkdtemp(prefix="loadgen-soak-")), Spectune()
    with serving(programs, folder / "mock.tsv", cores[0], _FLAGS) as mock:
        command = client.command(Ask(users, 0, seconds=seconds), mock.port, folder, folder)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
        os.sched_setaffinity(process.pid, {cores[1]})
        page = _Page(mock)
        seen = _watch(process, page, seconds)
        output, _ = process.communicate()
        after = page.read()
    reported = client.read(folder, output)
    tenth = max(1, len(seen.rss_mb) // 10)
    grown = _mean(seen.rss_mb[-tenth:]) - _mean(seen.rss_mb[:tenth])
    exact = sum(value == users for value in seen.in_flight)
    facts = {
        "requests served / failed": f"{reported.completed:,} / {reported.failed}",
        "in flight, the server's highest": f"{after['mock:max_in_flight']}",
        "in flight, sampled by the server: mean, least, share of samples with exactly that many": (
            f"{sum(seen.in_flight) / len(seen.in_flight):.2f}, {min(seen.in_flight)}, "
            f"{100 * exact / len(seen.in_flight):.0f} %"
        ),
        "in flight, as spectune says": f"{reported.in_flight:.2f}",
        "connections opened in all / open at once / left open": (
            f"{after['mock:connections_total'] - page.reads} / {max(seen.connections)} / "
            f"{after['mock:connections_open'] - 1}"
        ),
        "open descriptors of the client: first, last, most": (
            f"{seen.descriptors[0]}, {seen.descriptors[-1]}, {max(seen.descriptors)}"
        ),
        "memory, MB: first tenth, last tenth, most": (
            f"{_mean(seen.rss_mb[:tenth]):.0f}, {_mean(seen.rss_mb[-tenth:]):.0f}, {max(seen.rss_mb):.0f}"
        ),
        "memory for each request that was recorded": f"{1024 * grown / max(1, reported.completed or 1):.1f} kB",
        "CPU, share of a core": f"{100 * (reported.cpu_s or 0) / seconds:.0f} %",
        "doubts": ", ".join(reported.doubts) or "none",
    }
    return {"users": users, "seconds": seconds, "facts": facts}


def _watch(process: subprocess.Popen[str], page: _Page, seconds: float) -> _Seen:
    """Looks once a second, from when the load is up until shortly before it ends."""
    seen, top = _Seen(), psutil.Process(process.pid)
    while process.poll() is None and page.read()["mock:requests_total"] == 0:
        time.sleep(0.05)
    begun = time.monotonic()
    time.sleep(_REQUEST_S)
    while process.poll() is None and time.monotonic() - begun < seconds:
        gauges = page.read()
        seen.in_flight.append(gauges["vllm:num_requests_running"])
        seen.connections.append(gauges["mock:connections_open"] - 1)
        seen.rss_mb.append(top.memory_info().rss / 2**20)
        seen.descriptors.append(top.num_fds())
        time.sleep(1.0)
    return seen


class _Page:
    """The server's own counts; `reads` is how often it was asked, each time over a connection that then closes."""

    def __init__(self, mock: Mock) -> None:
        self._url = f"{mock.url}/metrics"
        self.reads = 0

    def read(self) -> dict[str, int]:
        self.reads += 1
        with urllib.request.urlopen(self._url, timeout=5) as page:
            return {name: int(value) for name, value in _GAUGE.findall(page.read().decode())}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
