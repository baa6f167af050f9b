"""The tables of the page on faults, from the results of any number of runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.faults.clients import CLIENTS
from bench.faults.healthy import MACHINE

FOLDER = Path(__file__).parents[2] / "docs" / "evidence" / "faults"
BEGIN, END = "<!-- written by python -m bench.faults --write -->", "<!-- end of what it writes -->"
FAMILIES = ("identity", "settings", "measurement", "answers", "life cycle")


@dataclass
class Row:
    """What is known of one fault.

    Attributes:
        result: "right name", "caught" or "missed"; "" while not run.
        by: names that caught it.
        others: client -> what it reported.
    """

    family: str
    name: str
    result: str = ""
    by: list[str] = field(default_factory=list)
    promotable: bool = False
    others: dict[str, str] = field(default_factory=dict)


@dataclass
class Results:
    """Everything that was run: fault -> row, and alarms of each healthy trial."""

    rows: dict[str, Row] = field(default_factory=dict)
    healthy: list[list[str]] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Results:
        if not path.exists():
            return cls()
        kept = json.loads(path.read_text(encoding="utf-8"))
        return cls({name: Row(**row) for name, row in kept["rows"].items()}, kept["healthy"])

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def updated(self, newer: Results) -> Results:
        """With what was run anew; columns that were not keep what they had."""
        for name, row in newer.rows.items():
            old = self.rows.get(name, row)
            ours = row if row.result else old
            others = {**old.others, **row.others}
            self.rows[name] = Row(row.family, name, ours.result, ours.by, ours.promotable, others)
        return Results(self.rows, newer.healthy or self.healthy)

    def in_order(self, names: Sequence[str]) -> Results:
        """The faults that there are now, in their order."""
        return Results({name: self.rows[name] for name in names if name in self.rows}, self.healthy)


def tables(results: Results) -> str:
    """Every table, as Markdown."""
    shown = [name for name in CLIENTS if any(name in row.others for row in results.rows.values())]
    heads = ["family", "fault", "result", "caught by", "could be promoted", *(CLIENTS[name].name for name in shown)]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('-' * len(heads))} |"]
    for row in results.rows.values():
        by = ", ".join(f"`{name}`" for name in row.by)
        cells = [row.family, row.name, row.result, by, "yes" if row.promotable else "no"]
        lines.append(f"| {' | '.join([*cells, *(row.others.get(name, '-') for name in shown)])} |")
    lines += ["", *_scores(results.rows), *_others(results.rows, shown)]
    return "\n".join([*lines, *(_healthy(results.healthy) if results.healthy else [])]) + "\n"


def write(results: Results, page: Path) -> None:
    """Puts the tables into their place in the page.

    Raises:
        ValueError: the page has no such place.
    """
    text = page.read_text(encoding="utf-8")
    head, begun, rest = text.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not (begun and ended):
        raise ValueError(f"{page} has no lines {BEGIN} and {END}")
    page.write_text(f"{head}{BEGIN}\n{tables(results)}{END}{tail}", encoding="utf-8")


def _scores(rows: Mapping[str, Row]) -> list[str]:
    lines = ["| family | faults | right name | caught | missed | could be promoted |", "| - | - | - | - | - | - |"]
    for family in (*FAMILIES, ""):
        of = [row for row in rows.values() if row.result and family in ("", row.family)]
        tally = Counter(row.result for row in of)
        cells = [len(of), tally["right name"], tally["caught"], tally["missed"], sum(row.promotable for row in of)]
        lines.append(f"| {family or '**all**'} | {' | '.join(map(str, cells))} |")
    return lines


def _others(rows: Mapping[str, Row], shown: Sequence[str]) -> list[str]:
    if not shown:
        return []
    lines = [
        "",
        "| client | asked | a plain number | a number with a remark | an error | nothing |",
        "| - | - | - | - | - | - |",
    ]
    for client in shown:
        said = [row.others[client] for row in rows.values() if client in row.others]
        tally = Counter(_kind(text) for text in said)
        kinds = [tally[kind] for kind in ("plain", "remark", "error", "nothing")]
        lines.append(f"| {CLIENTS[client].name} | {len(said)} | {' | '.join(map(str, kinds))} |")
    return lines


def _kind(said: str) -> str:
    if said.startswith("nothing"):
        return "nothing"
    if "tok/s" not in said:
        return "error"
    return "remark" if "(" in said else "plain"


def _healthy(healthy: Sequence[Sequence[str]]) -> list[str]:
    false = sum(bool(set(alarms) - MACHINE) for alarms in healthy)
    lines = ["", f"Healthy trials: {len(healthy)}; with a false alarm: {false}."]
    for name, times in sorted(Counter(name for alarms in healthy for name in alarms).items()):
        lines.append(f"- `{name}` in {times}{' (about this machine)' if name in MACHINE else ''}")
    return lines
