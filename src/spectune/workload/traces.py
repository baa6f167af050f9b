"""Recorded traces, replayed with text of our own: arrival times, lengths and shared prefixes are the trace's."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from spectune.domain.errors import InputError
from spectune.domain.workload import Message, Prompt, WorkloadInfo
from spectune.workload import text
from spectune.workload.dealing import check_domains, check_lane
from spectune.workload.problems import BadRecord, Numbers, Problems
from spectune.workload.records import Lines, changed
from spectune.workload.trace_rows import BLOCK_TOKENS, FORMATS, Format, Parse, Row, columns_of

_BLOCKS_KEPT = 1024
_NAME_TOKENS = 6


class TraceSource:
    """Deals the requests of a trace in the order of their arrival; see domain.ports.PromptSource.

    A lane is one stretch of the trace, not every n-th request, so that rate, bursts and shared prefixes stay what they
    were; its times count from its own beginning. Only where lines begin, and when, is kept in memory.
    """

    def __init__(
        self, path: Path, form: str, domains: Sequence[str], max_tokens: int | None, tokens_per_word: float
    ) -> None:
        self._path, self._form, self._max_tokens = str(path), form, max_tokens
        self._tokens_per_word = tokens_per_word
        self._lines = Lines(path)
        self._starts, self._numbers, self._times = array("q"), array("q"), array("d")
        records = self._lines.scan()
        self._parse = self._parser(FORMATS[form], records)
        scan = _Scan(Problems(self._path, "line"))
        self._scan(records, FORMATS[form], scan, frozenset(domains))
        if domains:
            check_domains(domains, scan.domains)
        counts = {domain: count for domain, count in scan.domains.items() if not domains or domain in domains}
        options = repr((form, tuple(sorted(domains)), max_tokens, tokens_per_word, text.fingerprint()))
        sha256 = hashlib.sha256((self._lines.sha256 + options).encode()).hexdigest()
        notes = tuple(_notes(form, scan, max_tokens, tokens_per_word))
        self.info = WorkloadInfo(self._path, sha256, len(self._starts), counts, notes)

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        check_lane(lane, lanes)
        count = len(self._starts)
        return self._stretch(count * lane // lanes, count * (lane + 1) // lanes)

    def _stretch(self, first: int, end: int) -> Iterator[Prompt]:
        for index in range(first, end):
            row = self._row(self._starts[index])
            yield self._prompt(row, self._numbers[index], self._times[index] - self._times[first])

    def _row(self, start: int) -> Row:
        try:
            return self._parse(self._lines.read(start))
        except BadRecord as error:
            raise changed(self._path) from error

    def _prompt(self, row: Row, number: int, due_s: float) -> Prompt:
        name = f"{self._form}-{number}"
        content = self._shared(row) if row.blocks else self._own(name, row.input)
        cap = row.output if self._max_tokens is None else min(row.output, self._max_tokens)
        return Prompt(name, row.domain, (Message("user", content),), cap, due_s=due_s, fixed_length=True)

    def _own(self, name: str, tokens: int) -> str:
        """Text that shares nothing with that of another line: it begins with the line's name."""
        count = text.words_for(max(1, tokens - _NAME_TOKENS), self._tokens_per_word)
        return f"{name}: {text.passage(f'{self._form} {name}', count)}"

    def _shared(self, row: Row) -> str:
        """The blocks' texts, the last one cut to the recorded length."""
        pieces: list[str] = []
        left = row.input
        for block in row.blocks:
            if left <= 0:
                break
            words = _block(block, text.words_for(BLOCK_TOKENS, self._tokens_per_word))
            pieces += words[: text.words_for(min(left, BLOCK_TOKENS), self._tokens_per_word)]
            left -= BLOCK_TOKENS
        if left > 0:
            pieces += text.words(f"rest of {row}", text.words_for(left, self._tokens_per_word))
        return " ".join(pieces)

    def _parser(self, form: Format, records: Iterator[tuple[int, int, bytes]]) -> Parse:
        if not form.columns:
            return form.parser({})
        return form.parser(self._columns(form, next(records, (0, 0, b""))[2]))

    def _scan(
        self, records: Iterator[tuple[int, int, bytes]], form: Format, scan: _Scan, domains: frozenset[str]
    ) -> None:
        for start, number, record in records:
            try:
                row = self._parse(record)
            except BadRecord as bad:
                scan.problems.add(number, str(bad))
                continue
            scan.good += 1
            if not row.output:
                scan.unanswered.add(number)
                continue
            scan.domains[row.domain] += 1
            if domains and row.domain not in domains:
                continue
            if row.blocks and len(row.blocks) != -(-row.input // BLOCK_TOKENS):
                scan.uneven.add(number)
            self._starts.append(start)
            self._numbers.append(number)
            self._times.append(row.at_s)
        scan.problems.check(scan.good, form.expected)
        if not scan.domains:
            raise InputError(f"workload.source: no request of {self._path} got an answer", form.expected)
        scan.sorted = self._sort()

    def _columns(self, form: Format, header: bytes) -> dict[str, int]:
        columns = columns_of(header)
        missing = [name for name in form.columns if name not in columns]
        if missing:
            raise InputError(
                f"workload.source: line 1 of {self._path} is no {self._form} header: no column {missing[0]!r}",
                form.expected,
            )
        return columns

    def _sort(self) -> bool:
        """Puts the rows into the order of their arrival; returns whether they were not."""
        times = np.frombuffer(self._times, dtype=np.float64) if self._times else np.empty(0)
        if bool(np.all(times[:-1] <= times[1:])):
            return False
        order = np.argsort(times, kind="stable")
        self._starts = array("q", np.frombuffer(self._starts, dtype=np.int64)[order].tobytes())
        self._numbers = array("q", np.frombuffer(self._numbers, dtype=np.int64)[order].tobytes())
        self._times = array("d", times[order].tobytes())
        return True


class _Scan:
    """What was met while finding the rows."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.good = 0
        self.unanswered = Numbers()
        self.uneven = Numbers()
        self.domains: Counter[str] = Counter()
        self.sorted = False


def trace_source(
    path: Path,
    form: str,
    domains: Sequence[str] = (),
    max_tokens: int | None = None,
    tokens_per_word: float = text.TOKENS_PER_WORD,
) -> TraceSource:
    """Reads a trace.

    Args:
        path: the file.
        form: "mooncake", "azure" or "burstgpt"; see trace_rows.
        domains: kinds of request to take; empty takes all.
        max_tokens: cuts longer answers, which is noted.
        tokens_per_word: how many tokens a word of the generated text is to the server's tokenizer.

    Raises:
        InputError: when the file can't be read, is of another form, or more than half of its lines are bad.
    """
    return TraceSource(path, form, domains, max_tokens, tokens_per_word)


@lru_cache(maxsize=_BLOCKS_KEPT)
def _block(block: str, count: int) -> list[str]:
    """The words of a hash id's block."""
    return text.words(f"block {block}", count)


def _notes(form: str, scan: _Scan, max_tokens: int | None, tokens_per_word: float) -> Iterator[str]:
    yield (
        f"{form} trace replayed with generated text; prompt lengths are estimates "
        f"at {tokens_per_word:g} tokens a word, without the chat template"
    )
    yield "fixed-length answers (ignore_eos): each ends exactly at its recorded length, which flatters speculation"
    if form == "mooncake":
        yield "equal hash_ids are equal text, so that prefixes are shared as recorded; whole prompts may repeat"
    else:
        yield "the trace tells nothing of shared prefixes; no prompt shares one"
    if max_tokens is not None:
        yield f"answers are cut at {max_tokens} tokens, where the recorded ones were longer"
    yield from scan.problems.notes()
    if scan.unanswered.count:
        yield f"{scan.unanswered.count} requests that got no answer left out: lines {scan.unanswered}"
    if scan.uneven.count:
        yield (
            f"{scan.uneven.count} lines whose hash_ids do not match input_length, "
            f"the length was kept: lines {scan.uneven}"
        )
    if scan.sorted:
        yield "lines were not in the order of their times; they are dealt in that order"
