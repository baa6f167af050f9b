"""Why SGLang's server did not serve, read from the end of its log."""

from __future__ import annotations

import re

from spectune.domain.errors import EngineFailure, FailureKind
from spectune.engines.sglang.failure_causes import CAUSES, Groups, Text

_TAIL = 1 << 18
"""Characters of log that are searched; a failing start writes a fraction of this."""

_SHUTDOWN = re.compile(r"SIGTERM received\. .*Draining requests and shutting down")
"""A stop that was asked for. What follows it in the log (children that "crash" with -15) is no cause."""


def diagnose(failure: EngineFailure) -> EngineFailure:
    """The failure with its cause named, or the failure itself. A server that died while being measured keeps that
    kind, since it had served until then. The exit code is no evidence: SGLang ends itself with SIGKILL, even after a
    clean stop."""
    log = _before_shutdown(failure.log_tail[-_TAIL:])
    for cause in CAUSES:
        groups = cause.groups(log)
        if groups is not None:
            return _named(failure, cause.kind, _filled(cause.message, groups), _filled(cause.advice, groups))
    return failure


def _before_shutdown(log: str) -> str:
    match = _SHUTDOWN.search(log)
    return log[: match.start()] if match else log


def _named(failure: EngineFailure, kind: FailureKind, message: str, advice: str) -> EngineFailure:
    if failure.kind is FailureKind.DIED_MEASURING:
        return EngineFailure(failure.kind, f"{failure.message}: {message}", advice or failure.advice, failure.log_tail)
    return EngineFailure(kind, message, advice or failure.advice, failure.log_tail)


def _filled(text: Text, groups: Groups) -> str:
    if callable(text):
        return text(groups)
    return re.sub(r"\{(\d)\}", lambda place: groups[int(place[1]) - 1], text)
