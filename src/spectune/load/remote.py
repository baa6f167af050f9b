"""The load generator on another host: `python -m spectune.load.remote`, started there by load.on_host.

It needs the standard library, uvloop, httptools and orjson, and no numbers: intervals are known at the other end,
which hears of each request and says when it is enough. Its input comes through a named pipe, so that neither prompts
nor keys are ever in a file or on a command line; see lines. It ends when nobody reads what it says.
"""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns

from spectune import __version__
from spectune.domain.errors import InputError, SpectuneError
from spectune.domain.measurement import RequestRecord
from spectune.load import lines
from spectune.load.lines import Ended, Enough, Hello, Line, Order, Refused, Served, Thought, Told
from spectune.load.record import Recorded
from spectune.load.running import Run, Task, load
from spectune.load.worker import Prompts, Supply, Want

_TELL_S = 0.25
_SPANS = 1000


class Link:
    """This end of the talk: what Supply asks, and a Listener that passes on what it hears.

    Args:
        fifo: descriptor of the pipe, open for both ways so that it never ends between two writers.
    """

    def __init__(self, fifo: int) -> None:
        self._fifo = fifo
        self._lock = threading.Lock()
        self._is_cut = False
        self._served: deque[tuple[int, int | None, int | None, int | None]] = deque()
        self._enough = False

    def order(self) -> Order:
        """The first frame."""
        order = lines.read_frame(self._read)
        assert isinstance(order, Order)
        return order

    def tell(self, said: Line) -> None:
        """Writes a line; ends this process where nobody reads it: the wrapper around it may be gone as well."""
        data = lines.line(said)
        try:
            with self._lock:
                while data and not self._is_cut:
                    data = data[os.write(1, data) :]
        except OSError:
            self._is_cut = True
            os.kill(os.getpid(), signal.SIGTERM)

    def send(self, want: Want) -> None:
        """See Supply."""
        self.tell(want)

    def recv(self) -> Prompts:
        """See Supply."""
        while not isinstance(frame := lines.read_frame(self._read), Prompts):
            self._enough = self._enough or isinstance(frame, Enough)
        return frame

    def add(self, record: RequestRecord) -> None:
        self._served.append((record.sent_ns, record.output_tokens, record.first_ns, record.last_ns))

    def is_enough(self) -> bool:
        return self._enough

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += os.read(self._fifo, size - len(data))
        return bytes(data)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Passes on what was heard, a few times a second, and that this process is alive."""
        over = threading.Event()

        def tell() -> None:
            while not over.wait(_TELL_S):
                self.tell(Served([self._served.popleft() for _ in range(len(self._served))]))

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def main() -> None:
    """Says hello, loads what it is told to, and writes what it saw."""
    signal.signal(signal.SIGTERM, _end)
    folder = Path(tempfile.mkdtemp(prefix="spectune-load-"))
    try:
        os.mkfifo(folder / "in", 0o600)
        link = Link(os.open(folder / "in", os.O_RDWR))
        link.tell(Hello(str(folder / "in"), __version__, perf_counter_ns()))
        with link.telling():
            _work(link)
    finally:
        # The other end lets go once it has heard the last line.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        shutil.rmtree(folder, ignore_errors=True)


def _work(link: Link) -> None:
    order = link.order()
    options = order.options
    if order.insecure:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        options = replace(options, ssl=context)
    prompts = Supply(link, order.prompts)
    try:
        run = load(Task(order.server, order.cell, prompts, order.seconds, link, options, order.cores))
    except SpectuneError as error:
        link.tell(Refused(error.message, error.advice, isinstance(error, InputError)))
        return
    _tell_all(link, run)


def _tell_all(link: Link, run: Run) -> None:
    for recorded in run.recorded:
        link.tell(_told(recorded))
    for start in range(0, len(run.thought), _SPANS):
        link.tell(Thought(run.thought[start : start + _SPANS]))
    window = run.window
    link.tell(
        Ended(
            window.opened_ns, window.closed_ns, run.stopped, run.lost, run.watched, run.overflowed, run.cut_off
        )
    )  # fmt: skip


def _told(recorded: Recorded) -> Told:
    stamps = recorded.stamps.tolist()
    gaps = [later - earlier for earlier, later in zip([0, *stamps], stamps, strict=False)]
    return Told(recorded.record, gaps, recorded.in_session, recorded.forced)


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()
