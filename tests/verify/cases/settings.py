"""Effective settings and limits."""

from __future__ import annotations

from dataclasses import replace

from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Adjustment, Capacity, Counters, ListenerOwner, Meaning, Translation
from spectune.verify.observed import Observed
from tests.verify.builders import BASELINE, EVIDENCE, NGRAM, RATE_CELL, SEEN, asked, evidence, seen
from tests.verify.cases.case import Cases, ok, unknown, violated

NONE = asked(BASELINE, ())
PASSED = asked(knobs={"threads": 1}, flags=("--threads", "1"))
ALREADY = replace(asked(knobs={"threads": 1}), baseline=Candidate(knobs={"threads": 1}))
"""The baseline has the setting too."""
TREE = Candidate(Speculation(Method.EAGLE, 3, topk=4))
TREE_FLAGS = ("--speculative-eagle-topk", "4")
BONUS = Translation("draft-tokens", 3, 4, "counts the bonus token too")
PLAIN = asked(knobs={"draft-tokens": 3})
COUNTED_TWICE = replace(PLAIN, launch=replace(PLAIN.launch, translations=(BONUS,)))
"""Draft tokens that the engine counts in its own way."""
CLAMPED = "W draft size (n_max=3, n_min=0) exceeds 2 -- clamping"


def variable(environment: dict[str, str]) -> Asked:
    plain = asked(knobs={"env.X": 1})
    return replace(plain, launch=replace(plain.launch, env=environment))


def positions(*accepted: int) -> Observed:
    return seen(depth=None, counters=Counters(accepted_per_position=accepted))


def room(kv: int | None = None, running: int | None = None, context: int | None = None) -> Observed:
    return seen(capacity=Capacity(kv, running, context))


def beside(running: int | None) -> Asked:
    """A candidate whose baseline takes so many requests at a time."""
    return asked(baseline_capacity=Capacity(8192, running))


def adjusted(*meanings: Meaning) -> Observed:
    return seen(
        adjustments=tuple(Adjustment(f"a{n}", "words", meaning, "because") for n, meaning in enumerate(meanings))
    )


CASES: Cases = {
    "speculation-live": (
        ok(asked(), seen(speculating=True, sources={"speculating": "GET /slots"}), "GET /slots"),
        violated(asked(), seen(speculating=False, sources={"speculating": "GET /slots"}), "GET /slots"),
        unknown(asked(), seen(speculating=None)),
        ok(NONE, seen(speculating=False)),
        violated(NONE, seen(speculating=True)),
        unknown(NONE, seen(speculating=None)),
    ),
    "speculation-method": (
        ok(asked(), seen()),
        violated(asked(), seen(method=Method.NGRAM)),
        ok(asked(), seen(method=None)),
        unknown(asked(), seen(method=None, speculating=None)),
        unknown(asked(flags=("-md", "x")), seen(method=None)),
        unknown(asked(), replace(seen(method=None), evidence=replace(EVIDENCE, listener=ListenerOwner.UNKNOWN))),
        ok(NONE, seen(method=Method.NONE, speculating=False)),
        ok(NONE, seen(method=None, speculating=False)),
        unknown(NONE, seen(method=None, speculating=None)),
        violated(NONE, seen(method=Method.DRAFT)),
    ),
    "speculation-depth": (
        ok(asked(), seen()),
        violated(asked(), seen(depth=2)),
        ok(asked(), seen(depth=None)),
        unknown(asked(), seen(depth=None, speculating=None)),
        unknown(asked(flags=()), seen(depth=None)),
        ok(asked(flags=()), positions(9, 8, 7)),
        violated(asked(), positions(9, 8, 7, 6)),
        unknown(asked(flags=()), positions(9)),
        unknown(asked(), seen(depth=None, warnings=(CLAMPED,))),
    ),
    "speculation-topk": (
        ok(asked(flags=()), seen()),
        ok(asked(flags=()), seen(settings={"speculative-eagle-topk": 1})),
        violated(asked(flags=()), seen(settings={"speculative-eagle-topk": 4})),
        ok(asked(TREE, TREE_FLAGS), seen(settings={"speculative-eagle-topk": 4})),
        violated(asked(TREE, TREE_FLAGS), seen(settings={"speculative-eagle-topk": 1})),
        ok(asked(TREE, TREE_FLAGS), seen()),
        unknown(asked(TREE, ("--speculative-eagle-topk", "1")), seen()),
        unknown(asked(TREE, TREE_FLAGS), seen(speculating=None)),
        unknown(asked(TREE, ()), seen()),
    ),
    "settings-effective": (
        ok(asked(flags=(), knobs={}), seen()),
        ok(asked(flags=(), knobs={"threads": 1}), seen(settings={"threads": 1})),
        ok(asked(flags=(), knobs={"threads": 1}), seen(settings={"threads": "1"})),
        violated(PASSED, seen(settings={"threads": 2})),
        ok(PASSED, seen()),
        unknown(asked(flags=("--threads", "2"), knobs={"threads": 1}), seen()),
        unknown(asked(flags=(), knobs={"threads": 1}), seen()),
        unknown(PASSED, seen(warnings=("W threads reset to 2",))),
        # On the command line of some process, which proves nothing.
        unknown(PASSED, Observed(replace(EVIDENCE, listener=ListenerOwner.FOREIGN), SEEN)),
        ok(asked(flags=("--no-mmap",), knobs={"mmap": False}), seen()),
        ok(asked(flags=(), knobs={"mmap": False}), seen()),
        ok(asked(flags=("--mlock",), knobs={"mlock": True}), seen()),
        unknown(asked(flags=(), knobs={"mlock": True}), seen()),
        violated(asked(flags=("--a", "1"), knobs={"a": 1, "b": 2}), seen(settings={"b": 3})),
        # What the baseline has too need not be proven, but may not be otherwise.
        ok(ALREADY, seen()),
        violated(ALREADY, seen(settings={"threads": 2})),
        ok(variable({"X": "1"}), evidence(listener=ListenerOwner.OURS)),
        unknown(variable({}), evidence(listener=ListenerOwner.OURS)),
        unknown(variable({"X": "1"}), evidence(listener=ListenerOwner.FOREIGN)),
        ok(COUNTED_TWICE, seen(settings={"draft-tokens": 4}), "bonus"),
        violated(COUNTED_TWICE, seen(settings={"draft-tokens": 5})),
        # Settings of the method count too.
        unknown(asked(NGRAM, ()), seen()),
        ok(asked(NGRAM, ("--spec-ngram-simple-size-n", "4")), seen()),
    ),
    "limits-cover-levels": (
        ok(asked(), room(8192, 4, 2048)),
        ok(asked(), room(None, 4)),
        violated(asked(), room(8192, 3)),
        violated(beside(4), room(8192, 3)),
        violated(beside(None), room(8192, 3)),
        ok(beside(3), room(8192, 2)),
        ok(NONE, room(8192, 3)),
        unknown(asked(), room(1599, 4)),
        unknown(asked(), room(8192, None)),
        ok(asked(longest=None), room(8192, 4)),
        ok(asked(cells=(RATE_CELL,), longest=None), room()),
    ),
    "requests-fit": (
        ok(asked(longest=400), room(context=400)),
        violated(asked(longest=400), room(context=399)),
        unknown(asked(longest=400), room()),
        ok(asked(longest=None), room()),
    ),
    "adjustments-allowed": (
        ok(asked(), adjusted(), "no change"),
        ok(asked(), adjusted(Meaning.SAME), "no change"),
        ok(asked(), adjusted(Meaning.SAME, Meaning.CHANGED), "a1: because"),
        violated(asked(), adjusted(Meaning.CHANGED, Meaning.INVALID), "a1: because (words)"),
        violated(asked(), Observed(replace(EVIDENCE, log=""), adjusted(Meaning.INVALID).seen)),
        unknown(asked(), evidence(log=" \n")),
    ),
}
