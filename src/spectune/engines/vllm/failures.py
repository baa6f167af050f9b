"""Why vLLM's server did not serve, read from the end of its log.

The server is several processes. Each writes its own traceback under its own prefix, and the parent ends with one that
only says "See root cause above": the cause is looked for in all of them, the deepest process first.
"""

from __future__ import annotations

import re

from spectune.domain.errors import EngineFailure
from spectune.engines.common.failures import diagnosed, tail
from spectune.engines.vllm.failure_causes import CAUSES

_SHUTDOWN = "[shutdown] API server: shutdown triggered"
"""A stop that was asked for, or the end after a death that the log has told before. What follows (EngineDeadError,
processes killed, leaked semaphores) is no cause."""

_COLOUR = re.compile(r"\x1b\[[\d;]{0,12}m")
_PREFIX = re.compile(
    r"^(?:\([\w.-]{1,80}(?: pid=\d{1,10})?\) ?)?"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})? \[[^\]\s]{1,120}\] ?)?",
    re.MULTILINE,
)


def diagnose(failure: EngineFailure) -> EngineFailure:
    """The failure with its cause named, or the failure itself."""
    return diagnosed(failure, stripped(tail(failure)), CAUSES)


def stripped(log: str) -> str:
    """A log up to the shutdown, without colours and without what the logger puts before each line, so that a
    traceback looks alike in every process."""
    log = _COLOUR.sub("", log).replace("\r\n", "\n")
    return _PREFIX.sub("", log.partition(_SHUTDOWN)[0])
