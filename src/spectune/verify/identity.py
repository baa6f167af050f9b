"""Checks that the server which answers is the one that was started, with the right model."""

from __future__ import annotations

import posixpath

from spectune.domain.asked import Asked
from spectune.domain.deployment import ListenerOwner
from spectune.verify.check import Result, ok, unknown, violated, worst
from spectune.verify.observed import Observed

START_SLACK_S = 2.0
"""A kernel derives a process's start from its boot time in whole clock ticks; both may be off by about a second."""

_LISTENERS: dict[ListenerOwner, Result] = {
    ListenerOwner.OURS: ok("", "our own process listens"),
    ListenerOwner.FOREIGN: violated(
        "", "a process that we did not start listens", "Stop the program that holds the port, or take another port."
    ),
    ListenerOwner.NONE: violated(
        "", "nothing listens", "Look at the server's log: it stopped listening or listens elsewhere."
    ),
    ListenerOwner.UNKNOWN: unknown("", "whose process listens could not be told"),
}


def listener(asked: Asked, observed: Observed) -> Result:
    """Looks at who holds the port."""
    found = _LISTENERS[observed.evidence.listener]
    return Result(found.status, f"our process listens on {asked.launch.url}", found.seen, found.advice)


def alive(asked: Asked, observed: Observed) -> Result:
    """Looks for the end of the process, then for a sign of life."""
    wanted = "the server process runs"
    ended = observed.evidence.exit
    if ended is not None:
        last = ended.log_tail.strip().splitlines()[-1:]
        return violated(wanted, f"it ended with code {ended.code}" + (f": {last[0]}" if last else ""))
    if observed.ours or observed.responds:
        return ok(wanted, "it runs")
    return unknown(wanted, "no end of the process was seen, but nothing answers either")


def started(asked: Asked, observed: Observed) -> Result:
    """Compares the process's start with the deploy's."""
    wanted = "started by this deploy"
    at = observed.evidence.started_unix
    if at is None:
        return unknown(wanted, "when the process started could not be told")
    late = at - asked.started_after
    if late >= -START_SLACK_S:
        return ok(wanted, f"started {max(late, 0.0):.1f} s after the deploy began")
    if late < 0:
        return violated(wanted, f"the process is {-late:.0f} s older than the deploy")
    return unknown(wanted, f"the start of the process reads as {at}, which is no time")


def model(asked: Asked, observed: Observed) -> Result:
    """Compares model id and model path with what the server names."""
    return worst((_model_id(asked, observed), _model_path(asked, observed)))


def _model_id(asked: Asked, observed: Observed) -> Result:
    wanted, seen = f"model id {asked.launch.model_id}", observed.seen.model_id
    if seen is None:
        return unknown(wanted, "/v1/models names no model")
    verdict = ok if seen == asked.launch.model_id else violated
    return verdict(wanted, f"model id {seen}")


def _model_path(asked: Asked, observed: Observed) -> Result:
    seen = observed.seen.model
    if not asked.service.model:
        return ok("", f"model {seen}" if seen else "")
    wanted = f"model {asked.service.model}"
    if seen is None:
        return unknown(wanted, "the server does not say which model file it loaded")
    return ok(wanted, f"model {seen}") if _same_model(asked.service.model, seen) else violated(wanted, f"model {seen}")


def _same_model(asked: str, seen: str) -> bool:
    """Equal as paths; a bare name stands for every path that ends in it."""
    if posixpath.normpath(asked) == posixpath.normpath(seen):
        return True
    bare = "/" not in asked or "/" not in seen
    return bare and posixpath.basename(asked) == posixpath.basename(seen)
