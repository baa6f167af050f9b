"""Measuring and checking a server that somebody else started."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import httpx

from spectune import __version__
from spectune.assemble.clock import SystemClock
from spectune.assemble.engines import KITS
from spectune.assemble.measuring import Origin, here
from spectune.domain.asked import Asked
from spectune.domain.bench_run import BenchRun
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Counters, Evidence, Launch, ListenerOwner, Page, Seen, Service
from spectune.domain.errors import HostError, InputError
from spectune.domain.finding import Answer, Finding, Status, Verification
from spectune.domain.measurement import Slo
from spectune.domain.ports import Engine, Limits, PromptSource, Target
from spectune.domain.redaction import redact_text
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Level, Sampling
from spectune.load.body import Api
from spectune.load.exchange import Timeouts
from spectune.load.options import Options
from spectune.verify import gate
from spectune.verify.observed import Observed, ProbeAnswers
from spectune.workload import WithNonce

_LAST_PORT = 65_535
_PAGE_TIMEOUT_S = 5.0
_PROBES = 6

NEEDS_OUR_PROCESS = frozenset(
    {"listener-is-ours", "process-alive", "started-after-deploy", "settings-effective", "answers"}
)
"""Checks that only make sense for a server that spectune has started itself."""

NEEDS_LOG = frozenset({"adjustments-allowed", "output-valid", "new-warnings"})
"""Checks that look into the server's log, which nobody but its owner has."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running server.

    Attributes:
        url: base URL, without /v1.
        model_id: name to send; from /v1/models unless given.
        engine: adapter that reads its pages; None where none knows them.
        paths: pages that it tells of itself.
        headers: for every request.
        keep_alive: see Launch.
        insecure: do not check the certificate of https.
    """

    url: str
    model_id: str
    engine: Engine | None
    paths: tuple[str, ...]
    headers: Mapping[str, str]
    keep_alive: bool
    insecure: bool = False

    def evidence(self) -> Evidence:
        return _evidence(_fetch(self.url, self.paths, self.headers, self.insecure))

    def seen(self, paths: Sequence[str] = ()) -> Seen:
        pages = _fetch(self.url, paths or self.paths, self.headers, self.insecure)
        return self.engine.read(_evidence(pages)) if self.engine else Seen()

    def target(self) -> Target:
        def counters() -> Counters | None:
            return self.seen(("/metrics",)).counters

        return Target(self.url, self.model_id, counters, self.headers, self.keep_alive)


@dataclass(frozen=True, slots=True)
class Bench:
    """What to measure on an endpoint, and how to ask.

    Attributes:
        levels: load levels, each measured at every temperature.
        temperatures: None is the server's own.
        seconds, precision: see Limits.
        ignore_eos: answers of fixed length.
        slo: what goodput counts.
        api: "chat" or "completions".
    """

    levels: tuple[Level, ...]
    temperatures: tuple[float | None, ...]
    seconds: float
    precision: float
    ignore_eos: bool = False
    slo: Slo | None = None
    api: str = Api.CHAT.value
    seed: int = 1

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(
            Cell(level, Sampling(temperature, seed=self.seed, ignore_eos=self.ignore_eos))
            for level in self.levels
            for temperature in self.temperatures
        )

    @property
    def flattering_cells(self) -> tuple[Cell, ...]:
        """The same levels, sampled in the way that flatters speculation."""
        return tuple(Cell(level, Sampling(0.0, seed=self.seed, ignore_eos=True)) for level in self.levels)


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears how a load test goes.

    Attributes:
        progress: a cell and news of it, a few times a second.
        measured: a cell of what was asked is done.
        flattered: a flattering cell is done.
    """

    progress: Callable[[Cell, str], None]
    measured: Callable[[MeasuredCell], None]
    flattered: Callable[[MeasuredCell], None] = field(default=lambda cell: None)


def look(
    url: str,
    model: str | None,
    api_key: str | None,
    headers: Mapping[str, str] | None = None,
    insecure: bool = False,
) -> Endpoint:
    """Finds out what serves at a URL.

    Args:
        headers: for every request, besides the API key's.
        insecure: do not check the certificate of https.

    Raises:
        InputError: the URL is none, or several models are served and none was named.
        HostError: nothing answers.
    """
    base = url.rstrip("/").removesuffix("/v1")
    sent = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    sent |= headers or {}
    paths = tuple(dict.fromkeys(path for kit in KITS.values() for path in kit.pages))
    failures: list[str] = []
    pages = _fetch(base, paths, sent, insecure, failures)
    shown = redact_text(base)
    if all(page.status == 0 for page in pages.values()):
        reason = next(filter(None, failures), "")
        advice = "Is the server running, and the port right?"
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            advice = "--insecure takes a certificate that cannot be checked."
        raise HostError(f"nothing answers at {shown}{f': {reason}' if reason else ''}", advice)
    kit, engine = next(((kit, found) for kit in KITS.values() if (found := kit.recognises(pages))), (None, None))
    told = engine.read(_evidence(pages)).model_id if engine else None
    return Endpoint(
        url=base,
        model_id=model or told or _only_model(shown, pages["/v1/models"]),
        engine=engine,
        paths=kit.pages if kit else ("/v1/models",),
        headers=sent,
        keep_alive=kit.keep_alive if kit else True,
        insecure=insecure,
    )


def new_run(endpoint: Endpoint, what: Bench, prompts: PromptSource, origin: Origin | None = None) -> BenchRun:
    """The run that is about to be measured, without cells; the server is asked what it is.

    Args:
        origin: where the load comes from; this machine by default.
    """
    origin = origin or here()
    notes = (*prompts.info.notes, origin.words) if origin.words else prompts.info.notes
    seen = endpoint.seen()
    return BenchRun(
        spectune=__version__,
        started_unix=SystemClock().now(),
        url=redact_text(origin.url or endpoint.url),
        model=endpoint.model_id,
        engine=endpoint.engine.name if endpoint.engine else "",
        engine_version=seen.version or "",
        method=seen.method,
        depth=seen.depth,
        client=origin.machine,
        workload=replace(prompts.info, notes=notes),
        api=what.api,
        seconds=what.seconds,
        precision=what.precision,
        slo=what.slo,
    )


def bench(
    endpoint: Endpoint,
    what: Bench,
    prompts: PromptSource,
    listener: Listener,
    flattering: PromptSource | None = None,
    origin: Origin | None = None,
) -> None:
    """Measures every cell, with prompts that the server has never seen, and tells the listener of each.

    Args:
        flattering: prompts that flatter; each level is then measured with them too, before the cells of the workload.
            They are repeated word for word, as those who publish such figures repeat them.
        origin: where the load comes from; this machine by default.

    Raises:
        EngineFailure: the server stopped answering; what was measured before has been told.
        InputError: a level and the prompts make no schedule.
    """
    load = (origin or here()).generator(_options(endpoint, what))
    fresh = WithNonce(prompts, os.urandom(4).hex())
    limits = Limits(what.seconds, what.precision)

    def measure(cell: Cell, source: PromptSource, lane: int, lanes: int) -> MeasuredCell:
        def progress(news: str) -> None:
            listener.progress(cell, news)

        progress("")
        return load.measure(endpoint.target(), cell, source.deal(lane, lanes), limits, progress)

    cells = what.cells
    for number, (level, flattered) in enumerate(zip(what.levels, what.flattering_cells, strict=True), start=1):
        if flattering is not None:
            listener.flattered(measure(flattered, flattering, number, len(what.levels) + 1))
        for lane, cell in enumerate(cells, start=1):
            if cell.level == level:
                listener.measured(measure(cell, fresh, lane, len(cells) + 1))


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found about a running server.

    Attributes:
        findings: in the order of the checks.
        not_asked: checks that could not be made, since they need the server's log and none was given.
    """

    findings: tuple[Finding, ...]
    not_asked: tuple[str, ...] = ()


def verify(
    endpoint: Endpoint,
    method: Method | None,
    depth: int,
    prompts: PromptSource,
    progress: Callable[[str], None],
    log: str | None = None,
) -> Verified:
    """Checks a running server: what it says of itself, whether it answers, whether it drafts under a short load.

    Without its log, what only the log can tell is not asked. A server that leaves a probe unanswered until the time is
    up is not loaded.

    Args:
        method, depth: the speculation that should be live; None takes what the server says and checks the rest.
        log: what the server has written since its start; None where nobody knows.
    """

    def look() -> Observed:
        evidence = replace(endpoint.evidence(), log=log or "")
        return Observed(evidence, endpoint.engine.read(evidence) if endpoint.engine else Seen())

    seen = look().seen
    method = method or seen.method or Method.NONE
    depth = depth or seen.depth or (0 if method is Method.NONE else 1)
    candidate = Candidate(Speculation(method, depth))
    cell = Cell(Level(1), Sampling(temperature=0.0))
    launch = Launch((), {}, endpoint.url, "/health", endpoint.paths, "/metrics", endpoint.model_id)
    service = Service(endpoint.engine.name if endpoint.engine else "", "", "", {}, {}, "", 0, endpoint.model_id)
    asked = Asked(service, candidate, candidate, launch, (cell,), 0.0)
    fresh = WithNonce(prompts, os.urandom(4).hex())
    load = here().generator(_options(endpoint))
    answers: list[Answer] = []
    for number, prompt in enumerate(islice(fresh.deal(0, 2), _PROBES), start=1):
        progress(f"probe {number} of {_PROBES}, which has {Timeouts().first_byte_s:g} s for its first token")
        answers += load.ask(endpoint.target(), (prompt,), concurrency=1)
        if _timed_out(answers[-1]):
            return _of_others(gate.before_measuring(asked, look(), (ProbeAnswers(tuple(answers)),)), log)
    progress("a short load")
    measured = load.measure(endpoint.target(), cell, fresh.deal(1, 2), Limits(5.0, 0.05), progress)
    observed = look()
    found = gate.before_measuring(asked, observed, (ProbeAnswers(tuple(answers)),)) + gate.after_measuring(
        asked, observed, {cell.key: measured}
    )
    return _of_others(found, log)


def _timed_out(answer: Answer) -> bool:
    return answer.error.startswith("timeout-")


def _of_others(found: Verification, log: str | None) -> Verified:
    """What can be asked of a server that others have started. What its pages betray counts without a log, too."""

    def needs_more(finding: Finding) -> bool:
        return log is None and finding.check in NEEDS_LOG and finding.status is Status.UNKNOWN

    asked = [finding for finding in found.findings if finding.check not in NEEDS_OUR_PROCESS]
    return Verified(
        tuple(finding for finding in asked if not needs_more(finding)),
        tuple(finding.check for finding in asked if needs_more(finding)),
    )


def _options(endpoint: Endpoint, what: Bench | None = None) -> Options:
    tls = None
    if endpoint.insecure:
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return Options(api=Api(what.api), slo=what.slo, ssl=tls) if what else Options(ssl=tls)


def _evidence(pages: Mapping[str, Page]) -> Evidence:
    return Evidence("", pages, ListenerOwner.UNKNOWN)


def _fetch(
    base: str, paths: Sequence[str], headers: Mapping[str, str], insecure: bool, failures: list[str] | None = None
) -> dict[str, Page]:
    """The pages; one that cannot be fetched has status 0, and why is added to the failures."""
    pages = {}
    # For http they would be read in vain, 0.1 s each time.
    authorities = base.lower().startswith("https:") and not insecure
    try:
        if (httpx.URL(base).port or 0) > _LAST_PORT:
            raise httpx.InvalidURL("the port is too large")
        with httpx.Client(
            base_url=base, headers=dict(headers), timeout=_PAGE_TIMEOUT_S, trust_env=False, verify=authorities
        ) as client:
            for path in paths:
                try:
                    answer = client.get(path)
                    pages[path] = Page(answer.status_code, answer.text)
                except httpx.UnsupportedProtocol:
                    raise
                except httpx.HTTPError as error:
                    pages[path] = Page(0, "")
                    if failures is not None:
                        failures.append(str(error))
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise InputError(f"not the URL of a server: {redact_text(base)}", "It looks like http://host:8000") from error
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
