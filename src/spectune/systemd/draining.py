"""Waits until a service has little to do, or refuses to stop it."""

from __future__ import annotations

from collections.abc import Callable

from spectune.domain.drain import Busy, DrainSpec, ServiceBusy
from spectune.domain.errors import HostError
from spectune.domain.ports import Clock

_POLL_S = 1.0
_SAY_EVERY_S = 30.0
_SILENT = 3
"""So often in a row it may fail to tell: a server under load answers late."""

ReadBusy = Callable[[], Busy | None]
"""What the service has to do now; None where it does not tell. Raises HostError."""


def drain(rule: DrainSpec, read: ReadBusy, clock: Clock, name: str, say: Callable[[str], None]) -> None:
    """Returns once the service may be stopped. Requests may still arrive between that moment and the stop.

    Args:
        name: the service and its host, for messages.

    Raises:
        ServiceBusy: it has too much to do all the time.
        HostError: it does not tell. Nothing was changed.
    """
    limit = rule.busy_requests
    if limit is None:
        return
    began = clock.monotonic()
    said_at = -_SAY_EVERY_S
    silent = 0
    while True:
        seen = read()
        if seen is None and (silent := silent + 1) < _SILENT:
            clock.sleep(_POLL_S)
            continue
        if seen is None:
            raise HostError(
                f"{name} does not tell how many requests it works on, so nobody knows whether it may be stopped",
                "Let it: --enable-metrics (SGLang), --metrics or --slots (llama.cpp), and an API key where it wants"
                " one; or set service.drain.busy_requests to null.",
            )
        silent = 0
        if seen.requests <= limit:
            if said_at >= 0:
                say(f"{name}: {seen.words}; going on")
            return
        waited = clock.monotonic() - began
        if waited >= rule.wait_s:
            after = f" after {waited:.0f} s of waiting" if rule.wait_s else ""
            raise ServiceBusy(
                f"{name} is busy{after}: {seen.words}, and it is stopped with at most {limit}",
                "Nothing was changed. Try again when there is less to do, change service.drain, or roll back with"
                " --force.",
            )
        if waited - said_at >= _SAY_EVERY_S:
            said_at = waited
            say(f"{name} is busy: {seen.words}; waiting until there are at most {limit}")
        clock.sleep(min(_POLL_S, rule.wait_s - waited))
