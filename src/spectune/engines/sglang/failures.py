"""Why SGLang's server did not serve, read from the end of its log."""

from __future__ import annotations

import re

from spectune.domain.errors import EngineFailure
from spectune.engines.common.failures import diagnosed, tail
from spectune.engines.sglang.failure_causes import CAUSES

_SHUTDOWN = re.compile(r"SIGTERM received\. .*Draining requests and shutting down")
"""A stop that was asked for. What follows it in the log (children that "crash" with -15) is no cause."""


def diagnose(failure: EngineFailure) -> EngineFailure:
    """The failure with its cause named, or the failure itself. The exit code is no evidence: SGLang ends itself with
    SIGKILL, even after a clean stop."""
    log = tail(failure)
    stop = _SHUTDOWN.search(log)
    return diagnosed(failure, log[: stop.start()] if stop else log, CAUSES)
