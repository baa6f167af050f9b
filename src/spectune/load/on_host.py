"""Loading a server from another host than this one: the end of the talk that stays here."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from time import perf_counter_ns
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from spectune import __version__
from spectune.domain.errors import CommandFailed, HostError, InputError
from spectune.domain.hosts import Host, Lines
from spectune.domain.measurement import Outcome, Phase, RequestRecord, TokenSource
from spectune.domain.workload import LevelKind, Prompt
from spectune.load import lines
from spectune.load.lines import Ended, Enough, Hello, Line, Order, Refused, Served, Thought, Told
from spectune.load.record import Recorded
from spectune.load.running import Run, Task
from spectune.load.window import Window
from spectune.load.worker import Prompts, Want

_SEND_S = 120.0
# Open both ways: a pipe that nobody reads any more does not hold up the one who opens it.
_SEND = '[ -p "$1" ] && exec cat 1<>"$1"'
_AHEAD = 256
_AHEAD_S = 4.0
_AHEAD_BYTES = 4 << 20
_READERS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in (Hello, Want, Served, Told, Thought, Ended, Refused)
}


class LoadOnHost:
    """As running.load, on another host; see HttpLoad. The process there ends with the call, whatever ends it.

    Args:
        host: where the load comes from.
        where: its name, for messages.
        command: what runs load.remote there.
        url: of the server as that host reaches it; None where it is the same as from here.
    """

    def __init__(self, host: Host, where: str, command: tuple[str, ...], url: str | None = None) -> None:
        self._host = host
        self._where = where
        self._command = command
        self._url = url

    def __call__(self, task: Task) -> Run:
        """
        Raises:
            InputError: as running.load; or what is to be sent there lives only in this process.
            HostError: the host is lost, or the load generator can't run there.
        """
        with self._host.follow(self._command) as said:
            talk = _Talk(self._host, self._where, said, task, self._url)
            return talk.run()


class _Talk:
    """One load. Stamps are of the host's clock, and moved to this one's by one and the same difference, which is known
    to within the way of one line: between themselves they are as exact as if they had been taken here."""

    def __init__(self, host: Host, where: str, said: Lines, task: Task, url: str | None) -> None:
        self._host = host
        self._where = where
        self._said = said
        self._task = task
        self._server = replace(task.server, url=url or task.server.url)
        self._recorded: list[Recorded] = []
        self._thought: list[tuple[int, int]] = []
        self._fifo = ""
        self._shift_ns = 0
        self._told_enough = False

    def run(self) -> Run:
        self._greet()
        self._send(self._order())
        for line in self._lines():
            match line:
                case Want():
                    self._send(self._prompts())
                case Served(requests):
                    self._hear(requests)
                case Told():
                    self._recorded.append(self._moved(line))
                case Thought(spans):
                    self._thought += [(self._here(begun), self._here(over)) for begun, over in spans]
                case Refused(message, advice, is_input):
                    raise InputError(message, advice) if is_input else HostError(f"{self._where}: {message}", advice)
                case Ended():
                    return self._ended(line)
                case Hello():
                    pass
        raise HostError(f"the load generator on {self._where} ended without a result", "Run the same command again.")

    def _greet(self) -> None:
        try:
            hello = next(self._lines(), None)
        except CommandFailed as error:
            last = error.message.splitlines()[-1]
            raise HostError(
                f"the load generator does not run on {self._where}: {last}",
                f"Name a Python there that has spectune {__version__} installed (measure from host:PYTHON), or measure"
                " from here.",
            ) from error
        if not isinstance(hello, Hello):
            raise HostError(f"the load generator on {self._where} said nothing before it ended", "")
        if hello.version != __version__:
            raise InputError(
                f"spectune on {self._where} is {hello.version}, and this one is {__version__}",
                f"Install the same there: pip install spectune=={__version__}",
            )
        self._fifo, self._shift_ns = hello.fifo, perf_counter_ns() - hello.now_ns

    def _lines(self) -> Iterator[Line]:
        for text in self._said:
            try:
                ((name, value),) = orjson.loads(text).items()
                yield _READERS[name].validate_python(value)
            except (ValueError, KeyError, AttributeError, ValidationError) as error:
                raise HostError(
                    f"the load generator on {self._where} said what can't be understood: {text[:80]!r}",
                    "Does something else write there, such as a profile of the login?",
                ) from error

    def _order(self) -> Order:
        task = self._task
        if task.options.tokenizer is not None:
            raise InputError("tokens can't be counted with a tokenizer while the load comes from another host")
        options = replace(task.options, ssl=None)
        insecure = task.options.ssl is not None
        return Order(self._server, task.cell, task.seconds, options, task.cores, insecure, self._prompts())

    def _prompts(self) -> Prompts:
        """The next prompts: enough for the time that it takes to send more."""
        level = self._task.cell.level
        is_open = level.kind is LevelKind.RATE
        count = max(_AHEAD, round(_AHEAD_S * level.value) if is_open else 2 * level.users)
        least = 1 if is_open else 2 * level.users
        chosen: list[Prompt] = []
        size = 0
        for prompt in islice(self._task.prompts, count):
            chosen.append(prompt)
            size += sum(len(message.content) for message in prompt.messages)
            if size > _AHEAD_BYTES and len(chosen) >= least:
                return Prompts(chosen, False)
        return Prompts(chosen, len(chosen) < count)

    def _send(self, what: Order | Prompts | Enough) -> None:
        try:
            data = lines.frame(what)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise InputError(f"what is to be loaded can't be sent to {self._where}: {error}") from error
        sent = self._host.run(["/bin/sh", "-c", _SEND, "sh", self._fifo], input=data, timeout_s=_SEND_S)
        if sent.code != 0 and not isinstance(what, Enough):  # which may come too late
            sent.checked(f"sending prompts to {self._where}")

    def _hear(self, requests: list[tuple[int, int | None, int | None, int | None]]) -> None:
        for sent_ns, tokens, first_ns, last_ns in requests:
            self._task.listener.add(
                RequestRecord(
                    "", "", Outcome.OK, Phase.STEADY, sent_ns, sent_ns, first_ns, last_ns, last_ns or sent_ns, tokens,
                    TokenSource.UNKNOWN if tokens is None else TokenSource.USAGE,
                )
            )  # fmt: skip
        if requests and not self._told_enough and self._task.listener.is_enough():
            self._told_enough = True
            self._send(Enough())

    def _moved(self, told: Told) -> Recorded:
        record, shift = told.record, self._shift_ns
        stamps = array("q")
        last = shift
        for gap in told.stamps:
            last += gap
            stamps.append(last)
        record = replace(
            record,
            due_ns=record.due_ns + shift,
            # 0 says that it was never sent.
            sent_ns=record.sent_ns and record.sent_ns + shift,
            first_ns=None if record.first_ns is None else record.first_ns + shift,
            last_ns=None if record.last_ns is None else record.last_ns + shift,
            end_ns=record.end_ns + shift,
        )
        return Recorded(record, stamps, "", told.in_session, told.forced)

    def _ended(self, end: Ended) -> Run:
        window = Window(self._here(end.opened_ns), self._here(end.closed_ns))
        return Run(
            self._recorded, window, end.stopped, end.lost, self._thought, end.watched, end.overflowed, end.cut_off
        )

    def _here(self, there_ns: int) -> int:
        return there_ns + self._shift_ns
