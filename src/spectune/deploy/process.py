"""Deployments as processes of this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from spectune.deploy.guarded import Guarded
from spectune.deploy.listeners import UNKNOWN_PROGRAM, Place, check_free, holder, owner, place_of
from spectune.deploy.logs import LogFile
from spectune.deploy.marks import end_all, marked
from spectune.deploy.pages import Pages
from spectune.deploy.readiness import await_ready
from spectune.domain.deployment import Evidence, Exit, Launch
from spectune.domain.errors import HostError
from spectune.domain.ports import Clock, Running

GRACE_S = 10.0
_PORT_LIMIT_S = 3.0
_PORT_POLL_S = 0.02
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class LocalProcesses:
    """Runs servers as children of this process, each under a guard that ends it even if this process is killed.

    Args:
        log_dir: takes one log file for each mark; made when missing.
        clock: must run in real time, since real processes do.
        grace_s: seconds a server gets between SIGTERM and SIGKILL.
    """

    def __init__(self, log_dir: Path, clock: Clock, grace_s: float = GRACE_S) -> None:
        self._log_dir = log_dir
        self._clock = clock
        self._grace_s = grace_s

    @contextmanager
    def deploy(self, launch: Launch, mark: str) -> Iterator[Running]:
        """See the Deployer port. The server has no input and a session of its own; its output goes to the mark's log.

        Raises:
            PortTaken: another program listens there; the message names it.
            EngineFailure: EXITED or NEVER_READY.
            HostError: the program can't be started, the log can't be written, or processes are left that can't be
                ended.
            InputError: the launch's url is not the URL of a server.
        """
        place = place_of(launch.url)
        check_free(place)
        with contextlib.ExitStack() as cleanup:
            log = LogFile(self._log_dir, mark)
            cleanup.callback(log.close)
            pages = Pages(launch.url, self._clock, launch.headers)
            cleanup.callback(pages.close)
            _put(launch.files)
            server = Guarded(launch, mark, log, self._grace_s)
            cleanup.callback(self._await_free, place)
            cleanup.callback(server.stop, self._clock)
            server.start()
            ready_s, started_unix = await_ready(launch, place, server, log, pages, self._clock)
            yield LocalRunning(server, place, log, pages, started_unix, ready_s)

    def sweep(self, marks: str) -> tuple[str, ...]:
        """Ends servers left behind by killed runs, whose mark begins with `marks`. Servers whose spectune still lives
        are left alone, and so is everything without a mark.

        Returns:
            Those it ended, such as "llama-server (pid 123, mark demo/7)".

        Raises:
            HostError: when some can't be ended.
        """
        return end_all(lambda: [one for one in marked(marks) if not one.owned], self._grace_s, self._clock)

    def _await_free(self, place: Place) -> None:
        """Waits for the kernel to take back sockets of processes that are gone; other programs' are not waited for."""
        deadline = self._clock.monotonic() + _PORT_LIMIT_S
        while holder(place) == UNKNOWN_PROGRAM and self._clock.monotonic() < deadline:
            self._clock.sleep(_PORT_POLL_S)


def _put(files: Mapping[str, str]) -> None:
    """Writes what the command line names and is not there yet.

    Raises:
        HostError: a file can't be written.
    """
    for name, text in files.items():
        path = Path(name)
        if path.is_file():
            continue
        try:
            beginning = path.with_name(f"{path.name}.{os.getpid()}")
            beginning.write_text(text, encoding="utf-8")
            beginning.replace(path)
        except OSError as error:
            raise HostError(f"cannot write {path}: {error.strerror}", "The server reads it at its start.") from error


class LocalRunning:
    """A server that runs, or ran, on this machine. Useful only inside its `with` block."""

    def __init__(
        self, server: Guarded, place: Place, log: LogFile, pages: Pages, started_unix: float, ready_s: float
    ) -> None:
        self._server = server
        self._place = place
        self._log = log
        self._pages = pages
        self._started_unix = started_unix
        self._ready_s = ready_s

    @property
    def pid(self) -> int:
        return self._server.pid

    @property
    def started_unix(self) -> float:
        return self._started_unix

    @property
    def ready_s(self) -> float:
        return self._ready_s

    def observe(self, paths: Iterable[str] = ()) -> Evidence:
        """Fetches pages, then looks at listener, memory and log. Never raises for what the server does."""
        pages = self._pages.get_all(paths)
        tree = self._server.tree()
        code = self._server.poll()
        return Evidence(
            log=self._log.text(),
            pages=pages,
            listener=owner(self._place, self._server.pids),
            started_unix=self._started_unix,
            exit=None if code is None else Exit(code, self._log.tail()),
            rss_bytes=sum(process.rss_pages for process in tree) * _PAGE_BYTES,
        )
