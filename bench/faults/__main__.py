"""How many known faults does spectune catch? `python -m bench.faults [--quick] [--only TEXT] [--out FILE]`.

Every fault is one small trial: deployed, verified, measured and judged as in a campaign. Faults of the simulated SGLang
and, where there is a llama-server, real ones. Then healthy trials, in which every alarm is a false one.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bench.faults.cases import SIMULATED, Fault
from bench.faults.healthy import MACHINE, healthy
from bench.faults.lab import Lab, Report, scratch
from bench.faults.real import real_faults

FAMILIES = ("identity", "settings", "measurement", "answers", "life cycle")


def main() -> None:
    options = _options()
    folder = scratch()
    try:
        lab = Lab(folder)
        faults = [*SIMULATED, *([] if options.no_real else real_faults(lab))]
        chosen = [fault for fault in faults if options.only in fault.name]
        caught = [(fault, _run(fault, lab, options.words)) for fault in (chosen[::6] if options.quick else chosen)]
        sound = [] if options.only else list(healthy(lab, 3 if options.quick else options.healthy))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = "\n".join([*_table(caught), *(_healthy(sound) if sound else [])]) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every sixth fault and three healthy trials")
    parser.add_argument("--only", default="", help="faults whose name holds this text, and no healthy trials")
    parser.add_argument("--healthy", type=int, default=30, help="healthy trials")
    parser.add_argument("--no-real", action="store_true", help="no faults on a real llama-server")
    parser.add_argument("--words", action="store_true", help="print what was said of each fault")
    parser.add_argument("--out", type=Path, help="write the tables to this file too")
    return parser.parse_args()


def _run(fault: Fault, lab: Lab, words: bool) -> Report:
    began = time.monotonic()
    report = fault.run(lab)
    print(f"... {fault.name}: {_verdict(fault, report)}, {time.monotonic() - began:.0f} s", flush=True)
    if words:
        for name, text in report.said.items():
            print(f"      {name}: {text}", flush=True)
    return report


def _verdict(fault: Fault, report: Report) -> str:
    if fault.expected & report.alarms:
        return "right name"
    return "caught" if report.alarms - MACHINE else "missed"


def _table(found: list[tuple[Fault, Report]]) -> list[str]:
    lines = ["| family | fault | result | caught by | could be promoted |", "| - | - | - | - | - |"]
    for fault, report in found:
        names = sorted(fault.expected & report.alarms) or sorted(report.alarms - MACHINE)
        promoted = "yes" if report.promotable else "no"
        lines.append(
            f"| {fault.family} | {fault.name} | {_verdict(fault, report)} | "
            f"{', '.join(f'`{name}`' for name in names)} | {promoted} |"
        )
    total = Counter(_verdict(fault, report) for fault, report in found)
    lines += ["", "| family | faults | right name | caught | missed |", "| - | - | - | - | - |"]
    for family in FAMILIES:
        tally = Counter(_verdict(fault, report) for fault, report in found if fault.family == family)
        lines.append(_row(family, tally))
    return [*lines, _row("**all**", total)]


def _row(name: str, tally: Counter[str]) -> str:
    return f"| {name} | {tally.total()} | {tally['right name']} | {tally['caught']} | {tally['missed']} |"


def _healthy(sound: Iterable[Report]) -> list[str]:
    reports = list(sound)
    alarms = Counter(name for report in reports for name in report.alarms)
    false = sum(bool(report.alarms - MACHINE) for report in reports)
    lines = ["", f"Healthy trials: {len(reports)}; with a false alarm: {false}."]
    lines += [
        f"- `{name}` in {times}{' (about this machine)' if name in MACHINE else ''}" for name, times in alarms.items()
    ]
    return lines


if __name__ == "__main__":
    main()
