"""English-like text of a wanted length: varied, readable, the same for the same seed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import yaml

TOKENS_PER_WORD = 1.23
"""Estimate for this text, punctuation included: measured with SmolLM2's vocabulary; larger ones give a little less.
Measure it with the server's own tokenizer where lengths matter."""

_BEFORE_VOWELS = {"a": "an", "A": "An"}
_NUMBERS = tuple(str(number) for number in range(3, 1000))

Slots = tuple[tuple[Sequence[str], str], ...]
"""A sentence: for each word what to choose from, and what follows the word."""


@cache
def _lists() -> dict[str, Any]:
    text = resources.files("spectune.workload").joinpath("words", "english.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


@cache
def _patterns() -> tuple[Slots, ...]:
    return tuple(_compiled(pattern) for pattern in _lists()["patterns"])


def _compiled(pattern: str) -> Slots:
    slots: list[tuple[Sequence[str], str]] = []
    for piece in pattern.split():
        if piece in {".", ",", ";"}:
            slots[-1] = (slots[-1][0], piece)
        elif piece == "{number}":
            slots.append((_NUMBERS, ""))
        elif piece.startswith("{"):
            slots.append((tuple(_lists()[piece.strip("{}")]), ""))
        else:
            slots.append(((piece,), ""))
    return tuple(slots)


def words(seed: str, count: int) -> list[str]:
    """Exactly `count` words in sentences, punctuation attached; the last sentence may be cut."""
    draw = random.Random(seed).random
    patterns = _patterns()
    made: list[str] = []
    while len(made) < count:
        starts = len(made)
        for options, mark in patterns[int(draw() * len(patterns))]:
            choice = options[int(draw() * len(options))] + mark
            if made and made[-1] in _BEFORE_VOWELS and choice[0] in "aeiou":
                made[-1] = _BEFORE_VOWELS[made[-1]]
            if " " in choice:
                made.extend(choice.split())
            else:
                made.append(choice)
        made[starts] = made[starts][0].upper() + made[starts][1:]
    return made[:count]


def passage(seed: str, count: int) -> str:
    """`count` words as one text."""
    return " ".join(words(seed, count))


def ask(seed: str) -> str:
    """Something to do with a passage that stands above it; answers to it end by themselves."""
    asks: list[str] = _lists()["asks"]
    return random.Random(seed).choice(asks)


def words_for(tokens: int, tokens_per_word: float) -> int:
    """How many words make about so many tokens; at least one."""
    return max(1, round(tokens / tokens_per_word))


def fingerprint() -> str:
    """Changes whenever the generated text does."""
    sample = "\n".join(passage(f"fingerprint {number}", 400) + ask(str(number)) for number in range(8))
    return hashlib.sha256(sample.encode()).hexdigest()
