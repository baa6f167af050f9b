"""spectune's load generator beside others, on a mock server whose every token and time is known.

    bench/loadgen/peers            # once: installs the other clients, each in an environment of its own
    python -m bench.loadgen        # everything; needs two cores and nothing else running on them

Each section writes its table into docs/load-generator.md when it is done, and its rows into a file, so that a run that
was interrupted goes on with --only for what is missing. The mock runs on the first core, the client on the second.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.loadgen import coverage, sections, tables
from bench.loadgen.clients import clients, peers_folder
from bench.loadgen.mock import Programs, build
from bench.loadgen.runs import Lab
from bench.loadgen.soak import soak

_DOCS = Path(__file__).parents[2] / "docs" / "load-generator.md"
_CLIENTS = {
    "speed": (sections.speed, tables.speed),
    "accuracy": (sections.accuracy, tables.accuracy),
    "chunks": (sections.chunks, tables.chunks),
    "usage": (sections.usage, tables.usage),
    "faults": (sections.faults, tables.faults),
}
SECTIONS = (*_CLIENTS, "soak", "coverage")


def main() -> None:
    arguments = _arguments()
    programs = build(peers_folder() / "programs")
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    for name in arguments.only.split(","):
        begun, load = time.monotonic(), os.getloadavg()[0]
        print(f"{name}:", flush=True)
        results[name] = _section(name, arguments, programs)
        minutes = (time.monotonic() - begun) / 60
        results[f"{name} took"] = (
            f"{time.strftime('%Y-%m-%d')}, {minutes:.1f} min, {_machine()}, load average {load:.1f} before"
        )
        arguments.results.parent.mkdir(parents=True, exist_ok=True)
        arguments.results.write_text(json.dumps(results, indent=1))
        content = _content(name, results)
        print(content, flush=True)
        if arguments.docs:
            _write(name, content, results)
    print(tables.targets(results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.loadgen", description=__doc__, formatter_class=_Plain)
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--clients", default="", help="parts of names, with commas between; all by default")
    parser.add_argument("--repeats", type=int, default=3, help="of spectune and the C reader, for medians")
    parser.add_argument("--scale", type=float, default=1.0, help="of the length of runs; 0.1 tries whether all works")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds after which a client hangs")
    parser.add_argument("--soak-users", type=int, default=512)
    parser.add_argument("--soak-seconds", type=float, default=300.0)
    parser.add_argument("--no-docs", dest="docs", action="store_false", help="leave docs/load-generator.md alone")
    parser.add_argument("--results", type=Path, default=peers_folder() / "results.json")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if len(os.sched_getaffinity(0)) < 2:
        parser.error("one core is not enough: the mock server and the client need one each")
    return arguments


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Leaves the description as it is."""


def _section(name: str, arguments: argparse.Namespace, programs: Programs) -> Any:
    lab = Lab(programs, arguments.patience)
    if name == "soak":
        return soak(programs, arguments.soak_users, arguments.soak_seconds, (lab.server_core, lab.client_core))
    if name == "coverage":
        return coverage.rows(max(20, round(coverage.SERIES * arguments.scale)))
    wanted = [part.strip().lower() for part in arguments.clients.split(",")]
    chosen = [c for c in clients(programs.reader) if any(part in c.name.lower() for part in wanted)]
    plan = sections.Plan(lab, chosen, arguments.repeats, arguments.scale, _tell)
    return list(_CLIENTS[name][0](plan))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _content(name: str, results: dict[str, Any]) -> str:
    renders: dict[str, Callable[[Any], str]] = {key: render for key, (_, render) in _CLIENTS.items()}
    renders |= {"soak": tables.soak, "coverage": coverage.table_of}
    return f"{renders[name](results[name])}\n\n({results[f'{name} took']})"


def _write(name: str, content: str, results: dict[str, Any]) -> None:
    text = tables.put(_DOCS.read_text(), name, content)
    _DOCS.write_text(tables.put(text, "targets", tables.targets(results)))


def _machine() -> str:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    return f"{len(os.sched_getaffinity(0))} cores of {model}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
