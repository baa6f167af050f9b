"""How many known faults does spectune catch? `python -m bench.faults [--only TEXT] [--columns ...] [--write]`.

Every fault is one small trial: deployed, verified, measured and judged as in a campaign. Faults of the simulated SGLang
and, where there is a llama-server, real ones. Then healthy trials, in which every alarm is a false one. Other clients
are put before the same servers where they are installed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time

from bench.faults.cases import OUR_OWN, SIMULATED, Fault
from bench.faults.clients import CLIENTS
from bench.faults.healthy import MACHINE, healthy
from bench.faults.lab import Lab, Report, scratch
from bench.faults.page import FOLDER, Results, Row, tables, write
from bench.faults.real import real_faults


def main() -> None:
    options = _options()
    folder = scratch()
    results = Results()
    try:
        for column in options.columns.split(","):
            lab = Lab(folder, CLIENTS.get(column))
            faults = [*SIMULATED, *([] if options.no_real else real_faults(lab))]
            chosen = [fault for fault in faults if any(text in fault.name for text in options.only.split("|"))]
            for fault in chosen[::6] if options.quick else chosen:
                if column == "spectune":
                    _ours(lab, fault, results, options.words)
                else:
                    _theirs(lab, column, fault, results)
                _keep(results, options.write)
            if column == "spectune" and not options.only:
                results.healthy = [sorted(r.alarms) for r in healthy(lab, 3 if options.quick else options.healthy)]
                _keep(results, options.write)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for client in CLIENTS.values():
            client.close()
    print(tables(results))
    if options.write:
        kept = Results.load(FOLDER / "results.json")
        write(kept.in_order([fault.name for fault in faults]), FOLDER / "README.md")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every sixth fault and three healthy trials")
    parser.add_argument("--only", default="", help="faults whose name holds this text, or one of 'a|b'; none healthy")
    parser.add_argument("--healthy", type=int, default=30, help="healthy trials")
    parser.add_argument("--no-real", action="store_true", help="no faults on a real llama-server")
    parser.add_argument("--words", action="store_true", help="print what was said of each fault")
    parser.add_argument(
        "--columns", default="spectune", help=f"who is put to the test, with commas: spectune, {', '.join(CLIENTS)}"
    )
    parser.add_argument("--write", action="store_true", help="keep the results, and write them into docs/evidence")
    return parser.parse_args()


def _keep(results: Results, write: bool) -> None:
    """Saves what is known so far, beside what other runs found."""
    if write:
        Results.load(FOLDER / "results.json").updated(results).save(FOLDER / "results.json")


def _ours(lab: Lab, fault: Fault, results: Results, words: bool) -> None:
    began = time.monotonic()
    report = fault.run(lab)
    row = results.rows.setdefault(fault.name, Row(fault.family, fault.name))
    row.result, row.promotable = _verdict(fault, report), report.promotable
    row.by = sorted(fault.expected & report.alarms) or sorted(report.alarms - MACHINE)
    print(f"... {fault.name}: {row.result}, {time.monotonic() - began:.0f} s", flush=True)
    for name, text in report.said.items() if words else ():
        print(f"      {name}: {text}", flush=True)


def _theirs(lab: Lab, column: str, fault: Fault, results: Results) -> None:
    if lab.client is None or not lab.client.here:
        sys.exit(f"{column} is not installed here")
    if fault.name in OUR_OWN:
        return
    row = results.rows.setdefault(fault.name, Row(fault.family, fault.name))
    row.others[column] = next(iter(fault.run(lab).said.values()))
    print(f"... {fault.name}: {row.others[column]}", flush=True)


def _verdict(fault: Fault, report: Report) -> str:
    if fault.expected & report.alarms:
        return "right name"
    return "caught" if report.alarms - MACHINE else "missed"


if __name__ == "__main__":
    main()
