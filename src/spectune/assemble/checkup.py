"""Checking a server that somebody else started: what it says of itself, whether it answers, whether it drafts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from spectune.assemble.endpoints import Endpoint
from spectune.assemble.measuring import here
from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Launch, Seen, Service
from spectune.domain.finding import Answer, Finding, Status, Verification
from spectune.domain.ports import Limits, PromptSource
from spectune.domain.workload import Cell, Level, Sampling
from spectune.load.exchange import Timeouts
from spectune.verify import gate
from spectune.verify.observed import Observed, ProbeAnswers
from spectune.workload import WithNonce

_PROBES = 6

NEEDS_OUR_PROCESS = frozenset(
    {"listener-is-ours", "process-alive", "started-after-deploy", "settings-effective", "answers"}
)
"""Checks that only make sense for a server that spectune has started itself."""

NEEDS_LOG = frozenset({"adjustments-allowed", "output-valid", "new-warnings"})
"""Checks that look into the server's log, which nobody but its owner has."""


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
    load = here().generator(endpoint.options())
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
