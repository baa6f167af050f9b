"""From rows to the tables of docs/load-generator.md; wrong cells are named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Row = dict[str, Any]

_OURS, _READER = "spectune", "C reader"
_MEAN, _P99, _P99_MS = 0.01, 0.03, 1.0
"""How far from the truth a mean and a 99th percentile may be, and how far from the C reader's if that is farther."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def put(text: str, name: str, content: str) -> str:
    """Replaces what stands between the markers of this name.

    Raises:
        ValueError: the text has no such markers.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no markers {begin} and {end}")
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


def _number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _three(spread: Row, digits: int = 1) -> str:
    return " / ".join(_number(spread[key], digits) for key in ("mean", "p50", "p99"))


def _wrong(cell: str, is_wrong: bool) -> str:
    return f"**wrong:** {cell}" if is_wrong else cell


def _off(value: float | None, truth: float | None, share: float) -> bool:
    return value is None or truth is None or abs(value - truth) > share * truth


def _without(rows: Iterable[Row], width: int, render: Callable[[Row], Sequence[str]]) -> list[Sequence[str]]:
    """Renders rows; of a client that did not run, why."""
    rendered: list[Sequence[str]] = []
    for row in rows:
        trouble = row.get("why") or row.get("trouble")
        if trouble and trouble != "hangs":
            rendered.append([row["client"], f"did not run: {trouble}".replace("|", "/"), *[""] * (width - 2)])
        else:
            rendered.append(render(row))
    return rendered


def speed(rows: Sequence[Row]) -> str:
    ours = next((row for row in rows if row["client"] == _OURS), None)

    def render(row: Row) -> Sequence[str]:
        two = row["coalesced"].get("two")
        ratio = ours["tok_s"]["256"] / row["tok_s"]["256"] if ours and row["tok_s"]["256"] else None
        return [
            row["client"],
            " / ".join(_number(row["tok_s"][users]) for users in ("1", "16", "64", "256")),
            f"{_number(ratio, 1)}x",
            _number(row["coalesced"]["tok_s"]) + (f"; two processes {two:,.0f}" if two else ""),
            _number(row["cpu"]["64"], 1),
            _number(row["coalesced"]["cpu"], 1),
            _number(row["rss_mb"]),
        ]

    head = [
        "client", "tok/s at 1 / 16 / 64 / 256 users", "spectune's, at 256", "coalesced tok/s, 256 users",
        "CPU-s per 1M tokens, 64 users", "coalesced", "memory, MB",
    ]  # fmt: skip
    return table(head, _without(rows, len(head), render))


def accuracy(rows: Sequence[Row]) -> str:
    def render(row: Row) -> Sequence[str]:
        ttft, truth = row["ttft"], row["true_ttft"]
        at_once = row["how"] == "at once"
        return [
            row["client"], f"{row['users']} {row['how']}".strip(),
            _three(ttft, 2), f"{_number(truth['mean'], 2)} / {_number(truth['p99'], 2)}",
            f"{_percent(ttft['mean'], truth['mean'])} / {_percent(ttft['p99'], truth['p99'])}",
            "–" if at_once else f"{_number(row['tpot']['mean'], 3)} / {_number(row['tpot']['p99'], 3)}",
            "–" if at_once else _number(row["latency"]["mean"], 1),
            _number(row["true_latency"]["mean"], 1), _number(row["cpu"], 1),
        ]  # fmt: skip

    head = [
        "client", "users", "TTFT mean / p50 / p99, ms", "true mean / p99", "error of mean / p99",
        "TPOT mean / p99, ms", "latency mean, ms", "true", "CPU-s per 1M tokens",
    ]  # fmt: skip
    return table(head, _without(rows, len(head), render))


def _percent(value: float | None, truth: float | None) -> str:
    return "–" if value is None or not truth else f"{100 * (value / truth - 1):+.1f} %"


def chunks(rows: Sequence[Row]) -> str:
    def render(row: Row) -> Sequence[str]:
        itl, tpot = row["itl"]["mean"], row["true_tpot"]["mean"]
        peak, mean = row["peak_tok_s"], row["tok_s"]
        return [
            row["client"],
            _wrong(_number(row["tokens"]), row["tokens"] != row["true_tokens"]),
            _wrong(_number(row["tpot"]["mean"], 3), _off(row["tpot"]["mean"], tpot, _MEAN)),
            "–" if itl is None else _wrong(f"{itl:.2f}, a chunk gap", _off(itl, tpot, 0.05)),
            _wrong(_number(mean), _off(mean, row["true_tok_s"], 0.05)),
            "–" if peak is None else _wrong(f"{peak:,.0f} (below the mean)", peak < (mean or 0)),
        ]

    head = ["client", "tokens", "TPOT, ms", '"inter-token latency", ms', "tok/s", '"peak" tok/s']
    truths = {f"{row['true_tpot']['mean']:.3f}" for row in rows if row.get("true_tpot")}
    return table(head, _without(rows, len(head), render)) + f"\n\nTrue TPOT: {', '.join(sorted(truths))} ms."


def usage(rows: Sequence[Row]) -> str:
    def render(row: Row) -> Sequence[str]:
        unknown = row["client"] == _OURS and row["tokens"] is None and "tokens-unknown" in row["doubts"]
        tokens = "unknown, with a fatal doubt" if unknown else _number(row["tokens"])
        tpot, ttft = row["tpot"]["mean"], row["ttft"]["mean"]
        early = row["case"] == "early role"
        return [
            row["client"], row["case"],
            _wrong(tokens, not unknown and row["tokens"] != row["true_tokens"]), _number(row["true_tokens"]),
            "–" if unknown else _wrong(_number(tpot, 2), _off(tpot, row["true_tpot"]["mean"], 0.05)),
            _wrong(_number(ttft, 1), early and (ttft or 0) < 0.9 * row["true_ttft"]["mean"]),
        ]  # fmt: skip

    head = ["client", "server", "tokens", "true", "TPOT, ms (true: 5)", "TTFT, ms (true: 50)"]
    return table(head, _without(rows, len(head), render))


def faults(rows: Sequence[Row]) -> str:
    clients = list(dict.fromkeys(row["client"] for row in rows))
    kinds = [row["fault"] for row in rows if row["client"] == clients[0]]
    by = {(row["client"], row.get("fault")): row for row in rows}
    why = {row["client"]: row["why"] for row in rows if row.get("why")}
    names = {
        "http500": "HTTP 500", "reset": "reset in the stream", "eof": "clean end without finish_reason",
        "error": "error object in a 200 stream", "stall": "stalled stream",
    }  # fmt: skip
    rendered = []
    for client in clients:
        if client in why:
            rendered.append([client, f"did not run: {why[client]}", *[""] * (len(kinds) - 1)])
        else:
            rendered.append([client, *(_fault_cell(by[client, kind]) for kind in kinds)])
    return table(["client", *(names[kind] for kind in kinds)], rendered)


def _fault_cell(row: Row) -> str:
    faulty = row["faulty"]
    if row["trouble"] == "hangs":
        return _wrong("hangs, no report", True)
    if row["trouble"]:
        return _wrong(row["trouble"].replace("|", "/"), True)
    good = row["requests"] - faulty
    if (row["completed"] or 0) > good:
        return _wrong(f"{row['completed'] - good} of {faulty} counted as served", True)
    if row["completed"] == good and row["failed"] == faulty:
        kinds = [kind for kind in row["outcomes"] if kind != "ok"]
        return f"{faulty} failed" + (f": {', '.join(kinds)}" if kinds else "")
    if row["failed"] is None:
        return f"{faulty} missing, no count of failures"
    return _wrong(f"{row['completed']} served, {row['failed']} failed of {row['requests']} with {faulty} faulty", True)


def soak(found: Row) -> str:
    rows = [[f"{name}", value] for name, value in found["facts"].items()]
    return table([f"{found['users']} users, {found['seconds']:.0f} s", ""], rows)


def targets(results: dict[str, Any]) -> str:
    """What was asked for, what was seen, and whether that is enough."""
    head = ["target", "asked", "seen", ""]
    rows = [[name, asked, seen, "ok" if good else "**MISS**"] for name, asked, seen, good in _targets(results)]
    return table(head, rows)


def _targets(results: dict[str, Any]) -> Iterable[tuple[str, str, str, bool]]:
    fast = {row["client"]: row for row in results.get("speed", []) if not row.get("why")}
    if {_OURS, _READER} <= fast.keys():
        ours, reader = fast[_OURS], fast[_READER]
        best, limit = max(ours["tok_s"].values()), max(reader["tok_s"].values())
        yield (
            "tok/s, one token a chunk", "200,000, or what the mock can give",
            f"{best:,.0f}; the C reader {limit:,.0f}", best >= min(200_000, 0.97 * limit),
        )  # fmt: skip
        one, two = ours["coalesced"]["tok_s"], ours["coalesced"]["two"]
        told = f"one process {one:,.0f}, two {two:,.0f}"
        yield "tok/s, coalesced, 256 users", "700,000", told, max(one, two) >= 700_000
        cpu = ours["cpu"]["64"]
        yield "CPU-s per 1M tokens, as fast as possible, 64 users", "at most 6", f"{cpu:.1f}", cpu <= 6
    paced = {(row["client"], row.get("users"), row.get("how")): row for row in results.get("accuracy", [])}
    if (_OURS, 256, "") in paced:
        cpu = paced[_OURS, 256, ""]["cpu"]
        yield "CPU-s per 1M tokens, 256 paced streams", "at most 12", f"{cpu:.1f}", cpu <= 12
    for (client, users, how), row in paced.items():
        if client == _OURS:
            yield from _paced_targets(f"{users} {'users' if users > 1 else 'user'} {how}".strip(), row,
                                      paced.get((_READER, users, how)))  # fmt: skip
    for row in results.get("chunks", []):
        if row["client"] == _OURS:
            for name, value, truth in (
                ("TPOT", row["tpot"]["mean"], row["true_tpot"]["mean"]),
                ("tok/s", row["tok_s"], row["true_tok_s"]),
            ):
                yield (
                    f"{name}, 1 to 4 tokens a chunk", "within 1 %", _percent(value, truth),
                    not _off(value, truth, _MEAN),
                )  # fmt: skip


def _paced_targets(load: str, row: Row, reader: Row | None) -> Iterable[tuple[str, str, str, bool]]:
    for name, key in (("TTFT", "ttft"), ("TPOT", "tpot")):
        seen, true = row[key], row[f"true_{key}"]
        least: Row = reader[key] if reader else {"p99": None}
        if seen["mean"] is None:
            continue
        mean = not _off(seen["mean"], true["mean"], _MEAN)
        yield f"{name} mean, {load}", "within 1 %", _percent(seen["mean"], true["mean"]), mean
        p99 = not _off(seen["p99"], true["p99"], _P99)
        behind = None if seen["p99"] is None or least["p99"] is None else seen["p99"] - least["p99"]
        near = behind is not None and behind <= _P99_MS
        beside = "" if behind is None else f"; {behind:+.2f} ms to the C reader"
        yield (
            f"{name} p99, {load}", "within 3 %, or 1 ms of the C reader",
            _percent(seen["p99"], true["p99"]) + beside, p99 or near,
        )  # fmt: skip
