"""Readiness of a service: its endpoint and its unit are both looked at, since either alone lies.

`systemctl start` of a Type=simple service that dies at once succeeds; a service that systemd starts again and again is
"active" most of the time; another program on the port answers just as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from spectune.domain.deployment import ListenerOwner, Page
from spectune.domain.errors import EngineFailure, FailureKind, SpectuneError
from spectune.domain.service_state import Endpoint
from spectune.systemd.probe import Look
from spectune.systemd.unit import ManagedUnit, description
from spectune.systemd.words import TAIL, exit_code, failure, output_of

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.08
_GROWTH = 1.3
_LOOK_EVERY_S = 0.4
_LISTENER_EVERY_S = 0.15
_LONGEST_ANSWER_S = 10.0
_BEGIN_S = 30.0
_HARD_CAP = 6.0
_SAY_EVERY_S = 5.0
_REFUSES_US = {401, 403}
"""A server that wants a key for its health page is up."""


class FetchPage(Protocol):
    """Gets one page of the endpoint; status 0 where nothing answers in time."""

    def __call__(self, path: str, timeout_s: float) -> Page: ...


Journal = Callable[[str], str]
"""All that one start has written, by its invocation id. Raises HostError."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A service that is up.

    Attributes:
        seconds: from the start to readiness.
    """

    look: Look
    seconds: float


@dataclass(slots=True)
class _Seen:
    cursor: str = ""
    progress_at: float = 0.0
    status: int = 0
    listens: bool = False
    said_at: float = 0.0


class Waiting:
    """Waits for one start of a unit.

    Args:
        before: invocation id of the start before this one.
        usual_s: how long it took the last time; None where it is not known.
        say: hears how far it is.
    """

    def __init__(
        self,
        unit: ManagedUnit,
        endpoint: Endpoint,
        fetch: FetchPage,
        journal: Journal,
        before: str,
        *,
        usual_s: float | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._unit = unit
        self._endpoint = endpoint
        self._fetch = fetch
        self._journal = journal
        self._before = before
        self._usual_s = usual_s
        self._say = say
        self._clock = unit.clock
        self._started = self._clock.monotonic()
        self.invocation = ""

    def until_ready(self) -> Ready:
        """Returns once the endpoint answers 200 from a socket of this start's processes.

        Raises:
            PortTaken: another program listens there.
            EngineFailure: EXITED, also where systemd has started it again; NEVER_READY after `ready_timeout_s`
                without a new line of log, or six times that.
            HostError: systemd can't or won't start it.
        """
        seen = _Seen(progress_at=self._started, said_at=self._started)
        pause, looked_at = FIRST_PAUSE_S, 0.0
        while True:
            wait_s = _LOOK_EVERY_S if seen.listens else _LISTENER_EVERY_S
            if self._clock.monotonic() - looked_at >= wait_s:
                look = self._looked(seen)
                looked_at = self._clock.monotonic()
            # Asking where nobody listens would fill the log of the host's sshd.
            if seen.listens and self._answers(seen):
                # The answer counts only if the process that gave it is ours and still lives.
                look = self._looked(seen)
                looked_at = self._clock.monotonic()
                if self._owned(look) and look.state.active == "active":
                    return Ready(look, self._clock.monotonic() - self._started)
            now = self._clock.monotonic()
            if now > self._deadline(seen):
                raise self._never_ready(look, seen)
            self._tell(seen, now)
            self._clock.sleep(pause)
            pause = min(LONGEST_PAUSE_S, pause * _GROWTH)

    def owner(self, look: Look) -> ListenerOwner:
        """Whose listener it is."""
        if self._endpoint.contained and look.listener is ListenerOwner.FOREIGN:
            return ListenerOwner.UNKNOWN
        return look.listener

    def _owned(self, look: Look) -> bool:
        return self.owner(look) in {ListenerOwner.OURS, ListenerOwner.UNKNOWN}

    def _looked(self, seen: _Seen) -> Look:
        look = self._unit.look(self._endpoint.port, invocation=self.invocation)
        state = look.state
        if not self.invocation and state.invocation not in {"", self._before}:
            self.invocation = state.invocation
        seen.listens = bool(self.invocation and look.listening)
        if look.cursor != seen.cursor:
            seen.cursor, seen.progress_at = look.cursor, self._clock.monotonic()
        if self.owner(look) is ListenerOwner.FOREIGN:
            # A socket of ours that was closed between the parts of a look would seem to be somebody else's.
            again = self._unit.look(self._endpoint.port)
            if self.owner(again) is ListenerOwner.FOREIGN and look.listening & again.listening:
                raise self._unit.port_taken(self._endpoint.port, min(look.listening))
        ended = state.active in {"failed", "inactive", "deactivating"} or state.sub == "auto-restart"
        if self.invocation and (ended or state.invocation != self.invocation or state.restarts):
            raise self._ended(look)
        return look

    def _answers(self, seen: _Seen) -> bool:
        left = max(LONGEST_PAUSE_S, self._deadline(seen) - self._clock.monotonic())
        seen.status = self._fetch(self._endpoint.ready_path, min(left, _LONGEST_ANSWER_S)).status
        return seen.status == 200 or seen.status in _REFUSES_US

    def _ended(self, look: Look) -> SpectuneError:
        log = self._journal(self.invocation)
        code = exit_code(look.state, log, self.invocation)
        return failure(self._unit, look.state, code, self._clock.monotonic() - self._started, log)

    def _deadline(self, seen: _Seen) -> float:
        limit = self._endpoint.ready_timeout_s
        if not self.invocation:
            return self._started + max(_BEGIN_S, limit)
        return min(seen.progress_at + limit, self._started + _HARD_CAP * limit)

    def _never_ready(self, look: Look, seen: _Seen) -> EngineFailure:
        unit, limit = self._unit, self._endpoint.ready_timeout_s
        now = self._clock.monotonic()
        if seen.status:
            state = f"{self._endpoint.ready_path} answers {seen.status}"
        elif look.listening:
            state = f"it listens on port {self._endpoint.port} but {self._endpoint.ready_path} does not answer"
        else:
            state = f"nothing listens on port {self._endpoint.port}"
        why = f"without a new log line for {limit:g} s" if now - seen.progress_at >= limit else "though its log grew"
        log = output_of(self._journal(self.invocation), look.state)[-TAIL:] if self.invocation else ""
        return EngineFailure(
            FailureKind.NEVER_READY,
            f"{unit.name} did not get ready in {now - self._started:.1f} s, {why}: {state}; systemd says"
            f" {description(look.state)}",
            "Raise service.ready_timeout_s if this model takes longer to load.",
            log,
        )

    def _tell(self, seen: _Seen, now: float) -> None:
        if now - seen.said_at < _SAY_EVERY_S:
            return
        seen.said_at = now
        so_far = now - self._started
        usual = f" of about {self._usual_s:.0f} s" if self._usual_s else ""
        self._say(f"{self._unit.name} loads: {so_far:.0f} s{usual}")
