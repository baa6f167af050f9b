"""Measuring and checking a server that somebody else started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import httpx

from spectune.assemble.clock import SystemClock
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Counters, Evidence, Launch, ListenerOwner, Page, Seen
from spectune.domain.errors import HostError, InputError
from spectune.domain.finding import Verification
from spectune.domain.ports import Engine, Limits, PromptSource, Target
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Level, Sampling
from spectune.engines.llamacpp.adapter import LlamaCpp
from spectune.load.generator import HttpLoad
from spectune.provision import hardware
from spectune.verify import gate
from spectune.verify.asked import Asked, Observed, ProbeAnswers
from spectune.workload import WithNonce

_PAGE_TIMEOUT_S = 5.0
_LLAMACPP_PAGES = ("/health", "/v1/models", "/props", "/slots", "/metrics")
_PROBES = 6

NEEDS_OUR_PROCESS = frozenset(
    {"listener-is-ours", "process-alive", "started-after-deploy", "settings-effective", "answers"}
)
"""Checks that only make sense for a server that spectune has started itself."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running server.

    Attributes:
        url: base URL, without /v1.
        model_id: name to send; from /v1/models unless given.
        engine: adapter that reads its pages; None where none knows them.
        headers: for every request.
    """

    url: str
    model_id: str
    engine: Engine | None
    headers: Mapping[str, str]

    def pages(self, paths: Sequence[str] = _LLAMACPP_PAGES) -> dict[str, Page]:
        return _fetch(self.url, paths, self.headers)

    def seen(self, paths: Sequence[str] = _LLAMACPP_PAGES) -> Seen:
        return self.engine.read(_evidence(self.pages(paths))) if self.engine else Seen()

    def target(self) -> Target:
        def counters() -> Counters | None:
            return self.seen(("/metrics",)).counters

        return Target(self.url, self.model_id, counters, self.headers, keep_alive=self.engine is None)


@dataclass(frozen=True, slots=True)
class Bench:
    """What to measure on an endpoint."""

    concurrency: tuple[int, ...]
    temperatures: tuple[float | None, ...]
    seconds: float
    precision: float
    seed: int = 1

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(
            Cell(Level(users), Sampling(temperature, seed=self.seed))
            for users in self.concurrency
            for temperature in self.temperatures
        )


def look(url: str, model: str | None, api_key: str | None) -> Endpoint:
    """Finds out what serves at a URL.

    Raises:
        InputError: the URL is none, or several models are served and none was named.
        HostError: nothing answers.
    """
    base = url.rstrip("/").removesuffix("/v1")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    pages = _fetch(base, _LLAMACPP_PAGES, headers)
    if all(page.status == 0 for page in pages.values()):
        raise HostError(f"nothing answers at {base}", "Is the server running, and the port right?")
    engine = LlamaCpp() if "llamacpp:" in pages["/metrics"].body or "llama" in pages["/v1/models"].body else None
    model_id = (
        model or (engine.read(_evidence(pages)).model_id if engine else None) or _only_model(base, pages["/v1/models"])
    )
    return Endpoint(base, model_id, engine, headers)


def bench(
    endpoint: Endpoint, what: Bench, prompts: PromptSource, progress: Callable[[str], None]
) -> tuple[MeasuredCell, ...]:
    """Measures every cell, with prompts that the server has never seen."""
    load = _load()
    fresh = WithNonce(prompts, os.urandom(4).hex())
    cells = what.cells
    return tuple(
        load.measure(
            endpoint.target(), cell, fresh.deal(lane, len(cells) + 1), Limits(what.seconds, what.precision), progress
        )
        for lane, cell in enumerate(cells, start=1)
    )


def verify(
    endpoint: Endpoint, method: Method | None, depth: int, prompts: PromptSource, progress: Callable[[str], None]
) -> Verification:
    """Checks a running server: what it says of itself, whether it answers, whether it drafts under a short load.

    Args:
        method, depth: the speculation that should be live; None takes what the server says and checks the rest.
    """
    seen = endpoint.seen()
    method = method or seen.method or Method.NONE
    depth = depth or seen.depth or (0 if method is Method.NONE else 1)
    candidate = Candidate(Speculation(method, depth))
    cell = Cell(Level(1), Sampling(temperature=0.0))
    launch = Launch((), {}, endpoint.url, "/health", _LLAMACPP_PAGES, "/metrics", endpoint.model_id)
    asked = Asked(candidate, candidate, launch, (cell,), 0.0)
    fresh = WithNonce(prompts, os.urandom(4).hex())
    load = _load()
    progress("asking for greedy answers")
    answers = load.ask(endpoint.target(), islice(fresh.deal(0, 2), _PROBES), concurrency=1)
    measured = load.measure(endpoint.target(), cell, fresh.deal(1, 2), Limits(5.0, 0.05), progress)
    evidence = _evidence(endpoint.pages())
    observed = Observed(evidence, endpoint.seen())
    found = gate.before_measuring(asked, observed, (ProbeAnswers(answers),)) + gate.after_measuring(
        asked, observed, {cell.key: measured}
    )
    return Verification(tuple(finding for finding in found.findings if finding.check not in NEEDS_OUR_PROCESS))


def _load() -> HttpLoad:
    return HttpLoad(SystemClock(), hardware.load_average, hardware.usable_cores())


def _evidence(pages: Mapping[str, Page]) -> Evidence:
    return Evidence("", pages, ListenerOwner.UNKNOWN)


def _fetch(base: str, paths: Sequence[str], headers: Mapping[str, str]) -> dict[str, Page]:
    pages = {}
    try:
        with httpx.Client(base_url=base, headers=dict(headers), timeout=_PAGE_TIMEOUT_S, trust_env=False) as client:
            for path in paths:
                try:
                    answer = client.get(path)
                    pages[path] = Page(answer.status_code, answer.text)
                except httpx.HTTPError:
                    pages[path] = Page(0, "")
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise InputError(f"not the URL of a server: {base}", "It looks like http://host:8000") from error
    return pages


def _only_model(base: str, page: Page) -> str:
    try:
        models = [entry["id"] for entry in httpx.Response(page.status, text=page.body).json()["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{base}/v1/models does not list models (HTTP {page.status})", "Name one with --model."
        ) from error
    if len(models) != 1:
        raise InputError(f"{base} serves {len(models)} models", f"Name one with --model: {', '.join(map(str, models))}")
    return str(models[0])
