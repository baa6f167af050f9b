"""Prompts from a file of the user's: JSON lines, or one JSON array, in the forms that are about."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from spectune.domain.workload import Prompt, WorkloadInfo
from spectune.workload import conversation
from spectune.workload.dealing import check_domains, check_lane, take_turns
from spectune.workload.problems import BadRecord, Problems
from spectune.workload.records import Records, changed, json_records

_SHOWN_FIELDS = 10


class JsonlSource:
    """Deals the entries of a file, each once; see domain.ports.PromptSource.

    Only where entries begin is kept in memory; an entry is read again when it is dealt.
    """

    def __init__(self, path: Path, domains: Sequence[str], max_tokens: int | None) -> None:
        self._path = str(path)
        self._max_tokens = max_tokens
        self._records: Records = json_records(path)
        self._by_domain: dict[str, array[int]] = {}
        self._numbers: dict[str, array[int]] = {}
        self._renamed: dict[int, str] = {}
        notes = self._scan()
        if domains:
            check_domains(domains, self._by_domain)
            self._by_domain = {domain: self._by_domain[domain] for domain in self._by_domain if domain in domains}
        counts = {domain: len(places) for domain, places in self._by_domain.items()}
        options = repr((tuple(sorted(domains)), max_tokens))
        sha256 = hashlib.sha256((self._records.sha256 + options).encode()).hexdigest()
        self.info = WorkloadInfo(self._path, sha256, sum(counts.values()), counts, notes)

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        check_lane(lane, lanes)
        return take_turns({domain: self._of_domain(domain, lane, lanes) for domain in self._by_domain})

    def _of_domain(self, domain: str, lane: int, lanes: int) -> Iterator[Prompt]:
        places, numbers = self._by_domain[domain], self._numbers[domain]
        for index in range(lane, len(places), lanes):
            try:
                prompt = self._prompt(self._records.read(places[index]), numbers[index], conversation.Left())
            except BadRecord as error:
                raise changed(self._path) from error
            yield replace(prompt, id=self._renamed.get(numbers[index], prompt.id))

    def _prompt(self, record: bytes, number: int, left: conversation.Left) -> Prompt:
        name = f"{self._records.unit}-{number}"
        return conversation.to_prompt(conversation.decoded(record), name, self._max_tokens, left)

    def _scan(self) -> tuple[str, ...]:
        """Finds the good entries, and says what a reader must know of the others."""
        problems, left = Problems(self._path, self._records.unit), conversation.Left()
        texts: set[bytes] = set()
        ids: set[bytes] = set()
        repeated = 0
        for place, number, record in self._records.scan():
            try:
                prompt = self._prompt(record, number, left)
            except BadRecord as bad:
                problems.add(number, str(bad))
                continue
            text = _digest(prompt)
            if text in texts:
                repeated += 1
                continue
            texts.add(text)
            self._name(prompt.id, number, ids)
            self._by_domain.setdefault(prompt.domain, array("q")).append(place)
            self._numbers.setdefault(prompt.domain, array("q")).append(number)
        problems.check(len(texts) + repeated, conversation.EXPECTED)
        return (*problems.notes(), *_notes(repeated, len(self._renamed), left))

    def _name(self, name: str, number: int, ids: set[bytes]) -> None:
        """Ids pair the arms of a comparison, so that two prompts must never share one."""
        free = name
        while (key := _short(free.encode(errors="surrogatepass"))) in ids:
            free = f"{free}#{number}"
        ids.add(key)
        if free != name:
            self._renamed[number] = free


def jsonl_source(path: Path, domains: Sequence[str] = (), max_tokens: int | None = None) -> JsonlSource:
    """Reads a file of conversations, one a line or all in one JSON array. Each is an object with one of

    - "messages": [{"role": ..., "content": ...}], as OpenAI's API takes them, with tool calls and tool results, and
      "tools" or "response_format" beside it; also inside "body", as in OpenAI's batch files;
    - "prompt": "...", as vLLM's custom data sets have it, with or without a "completion";
    - "conversations": [{"from": "human", "value": ...}], as ShareGPT has it;

    and, if wanted, "id", "domain" and "max_tokens" (or "output_tokens"). Answers at the end of a conversation are left
    out: they are for the server to give. Bad entries are counted and named in the notes; repeated prompts are dealt
    once.

    Args:
        path: the file.
        domains: those to take; empty takes all.
        max_tokens: upper bound on every entry's own cap.

    Raises:
        InputError: when the file can't be read, lacks a domain, holds no usable entry, or more than half are bad.
    """
    return JsonlSource(path, domains, max_tokens)


def _notes(repeated: int, renamed: int, left: conversation.Left) -> Iterator[str]:
    if repeated:
        yield f"{repeated} repeated prompts dealt once"
    if renamed:
        yield f"{renamed} entries share an id with an earlier one and got one of their own"
    if left.openings:
        yield f"{left.openings} conversations began with an answer, which was left out"
    if left.fields:
        names = sorted(left.fields)
        shown = ", ".join(names[:_SHOWN_FIELDS]) + (", ..." if len(names) > _SHOWN_FIELDS else "")
        yield f"fields that are not sent to the server: {shown}"


def _digest(prompt: Prompt) -> bytes:
    """Equal for prompts that ask the same."""
    said = [[message.role, message.content, dict(message.extra)] for message in prompt.messages]
    return _short(orjson.dumps([said, dict(prompt.extra)], option=orjson.OPT_SORT_KEYS))


def _short(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=12).digest()
