"""What is measured: each section runs the clients and returns rows of plain values, one a client and load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from bench.loadgen.clients import Ask, Client, Reader, Spectune
from bench.loadgen.mock import Spread
from bench.loadgen.runs import Lab, Ran

Row = dict[str, Any]

_RATES = {"C reader": 1500, "vLLM bench serve": 800, "SGLang bench_serving": 600, "GuideLLM": 100, "AIPerf": 130}
"""Requests per second at dt=0, about, so that a run takes some seconds."""
_SECONDS = 6.0
_PACED = ("--ttft-ms", "50", "--tpot-ms", "5")
FAULTS = ("http500", "reset", "eof", "error", "stall")
_IDLE_S = 3.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How thoroughly.

    Attributes:
        repeats: of spectune and the C reader, whose medians are taken; other clients run once.
        scale: of the length of each run; below 1 for a trial of the whole.
        tell: hears what is going on.
    """

    lab: Lab
    clients: Sequence[Client]
    repeats: int = 3
    scale: float = 1.0
    tell: Callable[[str], None] = print

    def often(self, client: Client) -> int:
        return self.repeats if isinstance(client, Spectune | Reader) else 1

    def run(self, client: Client, flags: Sequence[str], ask: Ask) -> Ran:
        ran = self.lab.run(client, flags, ask)
        self.tell(
            f"  {client.name}, {ask.users} users, {' '.join(flags) or 'dt=0'}: "
            + (ran.trouble or f"{ran.truth.tok_s:,.0f} tok/s, {ran.cpu_s_per_million:.1f} CPU-s per 1M tokens")
        )
        return ran

    def fast(self, client: Client, users: int, coalesced: bool = False) -> Ask:
        """As many requests as take some seconds, or so many seconds."""
        if isinstance(client, Spectune):
            return Ask(users, 0, seconds=_SECONDS * self.scale)
        rate = 10_000 if coalesced and isinstance(client, Reader) else _RATES[client.name]
        return Ask(users, max(2 * users, round(rate * _SECONDS * self.scale * (0.5 if users == 1 else 1))))

    def paced(self, client: Client, users: int, request_s: float) -> Ask:
        if isinstance(client, Spectune):
            return Ask(users, 0, seconds=max(2 * request_s, 8.0 * self.scale))
        return Ask(users, max(12, users * max(2, round((10 if users == 1 else 5) * self.scale))))


def speed(plan: Plan) -> Iterator[Row]:
    """Everything as fast as the server sends it: one chunk a token, and all chunks of an answer in one."""
    for client in plan.clients:
        if why := client.missing():
            yield {"client": client.name, "why": why}
            continue
        found: list[Row] = []
        for _ in range(plan.often(client)):
            row: Row = {"tok_s": {}, "cpu": {}, "trouble": ""}
            for users in (1, 16, 64, 256):
                ran = plan.run(client, (), plan.fast(client, users))
                row["trouble"] = row["trouble"] or ran.trouble
                row["tok_s"][str(users)] = ran.truth.tok_s
                row["cpu"][str(users)] = ran.cpu_s_per_million
                row["rss_mb"] = ran.rss_mb
            ran = plan.run(client, ("--coalesce",), plan.fast(client, 256, coalesced=True))
            row["coalesced"] = {"tok_s": ran.truth.tok_s, "cpu": ran.cpu_s_per_million}
            if isinstance(client, Spectune) and client.compiled:
                ask = replace(plan.fast(client, 256, coalesced=True), processes=2, tokenizer=False)
                row["coalesced"]["two"] = plan.run(client, ("--coalesce",), ask).truth.tok_s
            found.append(row)
        yield {"client": client.name} | _median(found)


def accuracy(plan: Plan) -> Iterator[Row]:
    """Paced streams: the first token after 50 ms, then one every 5 ms; staggered, the first after 50 to 350 ms."""
    loads: list[tuple[int, str, tuple[str, ...]]] = [(users, "", _PACED) for users in (1, 64, 256)]
    loads += [(256, "staggered", (*_PACED, "--ttft-spread-ms", "300")), (256, "at once", _PACED)]
    for client in plan.clients:
        if why := client.missing():
            yield {"client": client.name, "why": why}
            continue
        for users, how, flags in loads:
            ask = plan.paced(client, users, 1.0)
            if how == "at once":
                if not isinstance(client, Spectune | Reader):
                    continue  # others begin all at once anyway
                ask = Ask(users, 0, waves=max(2, round(8 * plan.scale)))
            found = [_paced_row(plan.run(client, flags, ask)) for _ in range(plan.often(client))]
            yield {"client": client.name, "users": users, "how": how} | _median(found)


def _right(plan: Plan) -> Iterator[Client]:
    """Clients whose accounting is looked at: what spectune counts does not depend on how it was installed."""
    return (client for client in plan.clients if not (isinstance(client, Spectune) and not client.compiled))


def chunks(plan: Plan) -> Iterator[Row]:
    """1, 2, 3 and 4 tokens a chunk in turns, 52 chunks for 128 tokens, 16 users."""
    flags = (*_PACED, "--tokens-per-chunk", "1,2,3,4")
    for client in _right(plan):
        if why := client.missing():
            yield {"client": client.name, "why": why}
            continue
        ran = plan.run(client, flags, Ask(16, max(48, round(320 * plan.scale))))
        yield {"client": client.name} | _paced_row(ran)


def usage(plan: Plan) -> Iterator[Row]:
    """Answers that end after 96 of 128 tokens asked for, with and without usage; a role sent before the prefill."""
    cases = {
        "usage": (),
        "no usage": ("--usage", "never"),
        "no usage, no tokenizer": ("--usage", "never"),
        "early role": ("--role-chunk-ms", "3"),
    }
    for client in _right(plan):
        if isinstance(client, Reader):
            continue  # it reads nothing
        if why := client.missing():
            yield {"client": client.name, "why": why}
            continue
        for case, more in cases.items():
            without = case.endswith("no tokenizer")
            if without and not isinstance(client, Spectune):
                continue
            early = () if case == "early role" else ("--stop-after", "96")
            ask = Ask(16, max(32, round(100 * plan.scale)), chat=True, tokenizer=not without)
            yield {"client": client.name, "case": case} | _paced_row(plan.run(client, (*_PACED, *early, *more), ask))


def faults(plan: Plan) -> Iterator[Row]:
    """2 % of requests go wrong, each kind in a run of its own; 16 users."""
    for client in _right(plan):
        if isinstance(client, Reader):
            continue
        if why := client.missing():
            yield {"client": client.name, "why": why}
            continue
        for fault in FAULTS:
            flags = ("--ttft-ms", "10", "--tpot-ms", "0.5", "--fault", f"{fault}:20", "--seed", "3")
            ask = Ask(16, max(100, round(300 * plan.scale)), chat=True, idle_s=_IDLE_S)
            ran = plan.run(client, flags, ask)
            yield {
                "client": client.name, "fault": fault, "trouble": ran.trouble, "faulty": ran.truth.faulty,
                "requests": ask.requests, "completed": ran.reported.completed, "failed": ran.reported.failed,
                "outcomes": dict(ran.reported.outcomes),
            }  # fmt: skip


def _paced_row(ran: Ran) -> Row:
    reported, truth = ran.reported, ran.truth
    timed, tok_s = truth, truth.tok_s
    if reported.steady_ns:
        timed, tok_s = truth.between(*reported.steady_ns), truth.speed_between(*reported.steady_ns)
    return {
        "trouble": ran.trouble,
        "ttft": _numbers(reported.ttft), "tpot": _numbers(reported.tpot), "itl": _numbers(reported.itl),
        "latency": _numbers(reported.latency), "tok_s": reported.tok_s, "peak_tok_s": reported.peak_tok_s,
        "tokens": reported.tokens, "completed": reported.completed, "in_flight": reported.in_flight,
        "doubts": list(reported.doubts), "cpu": ran.cpu_s_per_million, "rss_mb": ran.rss_mb,
        "true_ttft": _numbers(timed.ttft), "true_tpot": _numbers(timed.tpot),
        "true_latency": _numbers(timed.latency), "true_tokens": truth.tokens, "true_tok_s": tok_s,
    }  # fmt: skip


def _numbers(spread: Spread) -> dict[str, float | None]:
    return {"mean": spread.mean, "p50": spread.p50, "p99": spread.p99}


def _median(rows: Sequence[Row]) -> Row:
    """Number by number; of everything else the first."""
    merged: Row = {}
    for key, first in rows[0].items():
        values = [row[key] for row in rows if row.get(key) is not None]
        if isinstance(first, dict):
            merged[key] = _median(values)
        elif values and all(isinstance(value, int | float) for value in values):
            merged[key] = median(values)
        elif key == "trouble":
            merged[key] = next((value for value in values if value), "")
        else:
            merged[key] = first
    return merged
