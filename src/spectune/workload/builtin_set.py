"""The built-in prompts: four domains on which speculation behaves differently, each prompt with many variants."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from string import Template
from typing import Any

import yaml

from spectune.domain.errors import InputError
from spectune.domain.workload import Message, Prompt, WorkloadInfo
from spectune.workload.dealing import rotation, take_turns

DOMAINS = ("code_edit", "chat", "extraction", "prose")


@dataclass(frozen=True, slots=True)
class _Item:
    """One prompt as written: a template whose slots have several options each."""

    id: str
    domain: str
    max_tokens: int
    text: str
    slots: Mapping[str, Sequence[str]]

    @property
    def variants(self) -> int:
        return math.prod(len(options) for options in self.slots.values())

    def fill(self, variant: int) -> str:
        """The text of one variant, counted in mixed radix over the slots."""
        values = {}
        for name, options in self.slots.items():
            variant, choice = divmod(variant, len(options))
            values[name] = options[choice]
        return Template(self.text).substitute(values).strip()


class BuiltinSource:
    """Deals variants of the built-in prompts; see domain.ports.PromptSource."""

    def __init__(self, domains: Sequence[str], max_tokens: int | None, seed: int) -> None:
        self._max_tokens = max_tokens
        self._items = {domain: _load(domain) for domain in domains}
        self._seed = seed
        self.info = WorkloadInfo(
            name="builtin",
            sha256=self._hash(),
            prompts=sum(item.variants for items in self._items.values() for item in items),
            domains={domain: sum(item.variants for item in items) for domain, items in self._items.items()},
            notes=(f"{sum(len(items) for items in self._items.values())} prompts, each in many variants",),
        )

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        if not 0 <= lane < lanes:
            raise ValueError(f"lane {lane} of {lanes}")
        return take_turns({domain: self._of_domain(domain, lane, lanes) for domain in self._items})

    def _of_domain(self, domain: str, lane: int, lanes: int) -> Iterator[Prompt]:
        items = self._items[domain]
        order = list(range(len(items)))
        random.Random(f"{self._seed} {domain}").shuffle(order)
        for position, variant in rotation(len(items), lane, lanes):
            if variant >= max(item.variants for item in items):
                return
            item = items[order[position]]
            if variant < item.variants:
                yield self._prompt(item, self._scramble(item, variant))

    def _scramble(self, item: _Item, variant: int) -> int:
        """A seeded permutation of the variants, so that neighbours differ in more than one slot."""
        step = next(s for s in range(item.variants // 2 + 1, 2 * item.variants) if math.gcd(s, item.variants) == 1)
        return (variant * step + self._seed) % item.variants

    def _prompt(self, item: _Item, variant: int) -> Prompt:
        messages = (Message("user", item.fill(variant)),)
        cap = item.max_tokens if self._max_tokens is None else min(self._max_tokens, item.max_tokens)
        return Prompt(f"{item.id}/{variant}", item.domain, messages, cap)

    def _hash(self) -> str:
        text = repr((self._items, self._max_tokens, self._seed))
        return hashlib.sha256(text.encode()).hexdigest()


def builtin_source(domains: Sequence[str] = (), max_tokens: int | None = None, seed: int = 1) -> BuiltinSource:
    """The built-in prompts.

    Args:
        domains: those to take; empty takes all.
        max_tokens: upper bound on every prompt's own cap.
        seed: decides the order.

    Raises:
        InputError: when a domain does not exist.
    """
    for domain in domains:
        if domain not in DOMAINS:
            raise InputError(f"workload.domains: no built-in domain {domain!r}", f"There are: {', '.join(DOMAINS)}.")
    return BuiltinSource(tuple(domains) or DOMAINS, max_tokens, seed)


@cache
def _load(domain: str) -> tuple[_Item, ...]:
    text = resources.files("spectune.workload").joinpath("builtin", f"{domain}.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return tuple(
        _Item(entry["id"], document["domain"], entry["max_tokens"], entry["text"], entry["slots"])
        for entry in document["prompts"]
    )
