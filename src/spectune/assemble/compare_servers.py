"""Comparing the answers of two servers that somebody else started."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from itertools import islice

from spectune.assemble.clock import SystemClock
from spectune.assemble.endpoints import Endpoint
from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Launch, Service
from spectune.domain.finding import ProbeRun, Verification
from spectune.domain.ports import LoadGenerator, PromptSource
from spectune.domain.workload import Cell, Level, Prompt, Sampling
from spectune.load.generator import HttpLoad
from spectune.load.options import Options
from spectune.provision import hardware
from spectune.verify import gate
from spectune.verify.observed import Observed, ProbeAnswers
from spectune.verify.probes import FULL, Size, probe_set

_ANSWERED = frozenset({"generation", "answers"})


def against(
    endpoint: Endpoint,
    reference: Endpoint,
    prompts: PromptSource,
    progress: Callable[[str], None],
    users: int = 8,
    size: Size = FULL,
) -> Verification:
    """Holds the greedy answers of a server against those of another, alone and in company.

    The reference is asked twice, so that what it differs from itself is not held against the other.

    Args:
        prompts: the domains to ask about, beside JSON, tool calls and long outputs.
        users: requests in flight, besides one at a time.
        size: how many prompts, and how long their answers may be.

    Returns:
        The findings "generation" and "answers", with an example of what differs.
    """
    probes = probe_set(size, islice(prompts.deal(0, 1), size.prompts))
    first = _runs(reference, probes, users, lambda text: progress(f"asking the reference {text}"))
    second = _runs(reference, probes, users, lambda text: progress(f"asking the reference again {text}"))
    ours = _runs(endpoint, probes, users, lambda text: progress(f"asking the server {text}"))
    groups = tuple(
        ProbeAnswers(mine.answers, before.answers, again.answers, mine.users)
        for mine, before, again in zip(ours, first, second, strict=True)
    )
    observed = Observed(endpoint.evidence(), endpoint.seen())
    found = gate.on_answers(_asked(endpoint, reference, users), observed, groups)
    return Verification(tuple(finding for finding in found.findings if finding.check in _ANSWERED))


def _runs(
    endpoint: Endpoint, probes: tuple[Prompt, ...], users: int, progress: Callable[[str], None]
) -> tuple[ProbeRun, ...]:
    load = _load(endpoint)
    found = []
    for together in sorted({1, users}):
        progress("one at a time" if together == 1 else f"as {together} users")
        found.append(ProbeRun(together, load.ask(endpoint.target(), probes, together)))
    return tuple(found)


def _asked(endpoint: Endpoint, reference: Endpoint, users: int) -> Asked:
    """All that the checks on answers want to know: which server is the reference, and that this one is not it."""
    launch = Launch((), {}, endpoint.url, "/health", endpoint.paths, None, endpoint.model_id)
    engine = endpoint.engine.name if endpoint.engine else ""
    service = Service(engine, "", "", {}, {}, "", 0, endpoint.model_id)
    candidate, baseline = Candidate(knobs={"server": endpoint.url}), Candidate(knobs={"server": reference.url, "as": 1})
    return Asked(service, candidate, baseline, launch, (Cell(Level(users), Sampling(0.0)),), 0.0)


def _load(endpoint: Endpoint) -> LoadGenerator:
    tls = None
    if endpoint.insecure:
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    options = Options(ssl=tls, processes=1)
    return HttpLoad(SystemClock(), hardware.load_average, hardware.usable_cores(), options=options)
