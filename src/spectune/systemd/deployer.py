"""Launches as starts of a systemd unit, by a drop-in that changes its command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Protocol

from spectune.domain.deployment import Evidence, Exit, Launch, ListenerOwner, Page
from spectune.domain.errors import PortTaken
from spectune.domain.ports import Running
from spectune.domain.service_state import Endpoint
from spectune.systemd.probe import Look
from spectune.systemd.readiness import Journal, Ready, Waiting
from spectune.systemd.unit import ManagedUnit
from spectune.systemd.words import TAIL, exit_code, output_of

MARK = "SPECTUNE_MARK"


class PageSource(Protocol):
    """Pages of a server, from wherever they can be fetched."""

    def get(self, path: str, timeout_s: float) -> Page: ...

    def get_all(self, paths: Iterable[str]) -> Mapping[str, Page]: ...


class Editor(Protocol):
    """Knows the unit's texts."""

    def __call__(self, launch: Launch, variables: Mapping[str, str]) -> str:
        """The drop-in with which the unit starts what the launch asks for, with further variables.

        Raises:
            InputError: the unit's command line can't be changed with certainty.
        """
        ...


class SystemdDeployer:
    """See the Deployer port. It leaves its drop-in behind: what puts the service back is the guard around a campaign.

    Args:
        port: where the service listens, as its own host sees it.
        edit: writes drop-ins.
        pages: opens the endpoint of a launch.
        journal: reads the log of a start.
        contained: see Endpoint.
        before_change: called before each change; raises where it must not be made.
        say: hears, with the mark, what is being waited for.
    """

    def __init__(
        self,
        unit: ManagedUnit,
        port: int,
        edit: Editor,
        pages: Callable[[Launch], AbstractContextManager[PageSource]],
        journal: Journal,
        *,
        contained: bool = False,
        before_change: Callable[[], None] = lambda: None,
        say: Callable[[str, str], None] = lambda mark, text: None,
    ) -> None:
        self._unit = unit
        self._port = port
        self._edit = edit
        self._pages = pages
        self._journal = journal
        self._contained = contained
        self._before_change = before_change
        self._say = say
        self._busy = False
        self._load_s: float | None = None

    @contextmanager
    def deploy(self, launch: Launch, mark: str) -> Iterator[Running]:
        """Stops what the unit runs, writes the drop-in, starts it, and stops it at the end.

        Raises:
            PortTaken, EngineFailure, HostError: see the port.
            InputError: the unit can't be changed so.
        """
        if self._busy:
            raise PortTaken(f"{self._unit.name} already runs another trial", "One unit runs one server at a time.")
        text = self._edit(launch, {MARK: mark})
        self._before_change()
        self._busy = True
        try:
            before = self._unit.stop(self._port, lambda said: self._say(mark, said)).state.invocation
            self._unit.write_missing(launch.files)
            self._unit.write(self._unit.drop_in, text.encode())
            self._unit.reload()
            for warning in self._unit.verify():
                self._say(mark, f"systemd-analyze verify: {warning}")
            with self._pages(launch) as pages:
                try:
                    yield self._started(launch, mark, pages, before)
                finally:
                    self._unit.stop(self._port)
        finally:
            self._busy = False

    def sweep(self, marks: str) -> tuple[str, ...]:
        """Stops the unit where it runs a server that a killed run has started."""
        if self._busy:
            return ()
        state = self._unit.show()
        mark = state.environment.get(MARK, "")
        if not (state.runs and mark and mark.startswith(marks)):
            return ()
        self._before_change()
        self._unit.stop(self._port)
        return (f"{self._unit.name} on {self._unit.where} (mark {mark})",)

    def _started(self, launch: Launch, mark: str, pages: PageSource, before: str) -> ServiceRunning:
        unit = self._unit
        started_unix = unit.clock.now()
        waiting = Waiting(
            unit,
            Endpoint(self._port, launch.ready_path, launch.ready_timeout_s, self._contained),
            pages.get,
            self._journal,
            before,
            usual_s=self._load_s,
            say=lambda text: self._say(mark, text),
        )
        unit.start()
        ready = waiting.until_ready()
        self._load_s = ready.seconds
        return ServiceRunning(unit, self._port, waiting, pages, self._journal, ready, started_unix)


class ServiceRunning:
    """A service that runs, or ran. Useful only inside its `with` block."""

    def __init__(
        self,
        unit: ManagedUnit,
        port: int,
        waiting: Waiting,
        pages: PageSource,
        journal: Journal,
        ready: Ready,
        started_unix: float,
    ) -> None:
        self._unit = unit
        self._port = port
        self._waiting = waiting
        self._pages = pages
        self._journal = journal
        self._ready = ready
        self._started_unix = started_unix
        self._latest: Evidence | None = None

    @property
    def pid(self) -> int:
        return self._ready.look.state.main_pid

    @property
    def started_unix(self) -> float:
        return self._started_unix

    @property
    def ready_s(self) -> float:
        return self._ready.seconds

    def observe(self, paths: Iterable[str] = ()) -> Evidence:
        """Fetches pages, then looks at unit, port and journal.

        One page alone is how counters are read while the server is measured: then the host is left in peace, and the
        rest is as it was seen before.

        Raises:
            HostError: the host can't be reached any more.
        """
        wanted = tuple(paths)
        pages = self._pages.get_all(wanted)
        if self._latest is not None and len(wanted) == 1 and pages[wanted[0]].status:
            return replace(self._latest, pages=pages)
        look = self._unit.look(self._port)
        log = self._journal(self._waiting.invocation)
        said = output_of(log, look.state)
        ended = self._exit(look, log, said)
        self._latest = Evidence(
            log=said,
            pages=pages,
            listener=ListenerOwner.NONE if ended and not look.listening else self._waiting.owner(look),
            started_unix=self._started_unix,
            exit=ended,
            rss_bytes=look.rss_bytes or None,
        )
        return self._latest

    def _exit(self, look: Look, log: str, said: str) -> Exit | None:
        """How the start that was deployed ended; one that systemd has started again has ended."""
        state, invocation = look.state, self._waiting.invocation
        if state.active == "active" and state.invocation == invocation and not state.restarts:
            return None
        code = exit_code(state, log, invocation)
        if code is None and state.sub == "stop-sigterm":
            return None
        return Exit(code if code is not None else 0, said[-TAIL:])
