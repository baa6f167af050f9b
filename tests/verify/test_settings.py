"""Effective settings and limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Adjustment, Capacity, Counters, ListenerOwner, Meaning, Translation
from spectune.domain.finding import Status
from spectune.domain.knobs import KnobValue
from spectune.verify import settings
from spectune.verify.observed import Observed
from tests.verify.builders import (
    BASELINE,
    CELLS,
    DRAFT,
    DRAFT_FLAGS,
    EVIDENCE,
    RATE_CELL,
    SEEN,
    asked,
    seen,
)

OK, VIOLATED, UNKNOWN = Status.OK, Status.VIOLATED, Status.UNKNOWN
NONE = asked(BASELINE, ())


@pytest.mark.parametrize(
    ("wanted", "live", "status"),
    [
        (asked(), True, OK),
        (asked(), False, VIOLATED),
        (asked(), None, UNKNOWN),
        (NONE, False, OK),
        (NONE, True, VIOLATED),
        (NONE, None, UNKNOWN),
    ],
)
def test_speculation_live(wanted: Asked, live: bool | None, status: Status) -> None:
    found = settings.speculation_live(wanted, seen(speculating=live, sources={"speculating": "GET /slots"}))
    assert found.status is status
    assert ("GET /slots" in found.seen) is (live is not None)


@pytest.mark.parametrize(
    ("wanted", "observed", "status"),
    [
        (asked(), seen(), OK),
        (asked(), seen(method=Method.NGRAM), VIOLATED),
        (asked(), seen(method=None), OK),
        (asked(), seen(method=None, speculating=None), UNKNOWN),
        (asked(flags=("-md", "x")), seen(method=None), UNKNOWN),
        (asked(), replace(seen(method=None), evidence=replace(EVIDENCE, listener=ListenerOwner.UNKNOWN)), UNKNOWN),
        (NONE, seen(method=Method.NONE, speculating=False), OK),
        (NONE, seen(method=None, speculating=False), OK),
        (NONE, seen(method=None, speculating=None), UNKNOWN),
        (NONE, seen(method=Method.DRAFT), VIOLATED),
    ],
)
def test_speculation_method(wanted: Asked, observed: Observed, status: Status) -> None:
    assert settings.speculation_method(wanted, observed).status is status


@pytest.mark.parametrize(
    ("wanted", "observed", "status"),
    [
        (asked(), seen(), OK),
        (asked(), seen(depth=2), VIOLATED),
        (asked(), seen(depth=None), OK),
        (asked(), seen(depth=None, speculating=None), UNKNOWN),
        (asked(flags=()), seen(depth=None), UNKNOWN),
        (asked(flags=()), seen(depth=None, counters=Counters(accepted_per_position=(9, 8, 7))), OK),
        (asked(), seen(depth=None, counters=Counters(accepted_per_position=(9, 8, 7, 6))), VIOLATED),
        (asked(flags=()), seen(depth=None, counters=Counters(accepted_per_position=(9,))), UNKNOWN),
        (asked(), seen(depth=None, warnings=("W draft size (n_max=3, n_min=0) exceeds 2 -- clamping",)), UNKNOWN),
    ],
)
def test_speculation_depth(wanted: Asked, observed: Observed, status: Status) -> None:
    assert settings.speculation_depth(wanted, observed).status is status


@pytest.mark.parametrize(
    ("knobs", "flags", "observed", "status"),
    [
        ({}, (), seen(), OK),
        ({"threads": 1}, (), seen(settings={"threads": 1}), OK),
        ({"threads": 1}, (), seen(settings={"threads": "1"}), OK),
        ({"threads": 1}, ("--threads", "1"), seen(settings={"threads": 2}), VIOLATED),
        ({"threads": 1}, ("--threads", "1"), seen(), OK),
        ({"threads": 1}, ("--threads", "2"), seen(), UNKNOWN),
        ({"threads": 1}, (), seen(), UNKNOWN),
        ({"threads": 1}, ("--threads", "1"), seen(warnings=("W threads reset to 2",)), UNKNOWN),
        ({"mmap": False}, ("--no-mmap",), seen(), OK),
        ({"mmap": False}, (), seen(), OK),
        ({"mlock": True}, ("--mlock",), seen(), OK),
        ({"mlock": True}, (), seen(), UNKNOWN),
        ({"a": 1, "b": 2}, ("--a", "1"), seen(settings={"b": 3}), VIOLATED),
    ],
)
def test_settings(knobs: dict[str, KnobValue], flags: tuple[str, ...], observed: Observed, status: Status) -> None:
    assert settings.settings_effective(asked(flags=flags, knobs=knobs), observed).status is status


def test_settings_on_the_command_line_of_some_process_prove_nothing() -> None:
    foreign = Observed(replace(EVIDENCE, listener=ListenerOwner.FOREIGN), SEEN)
    wanted = asked(flags=("--threads", "1"), knobs={"threads": 1})
    assert settings.settings_effective(wanted, foreign).status is UNKNOWN


def test_a_finding_names_only_what_is_wrong() -> None:
    wanted = asked(flags=("--a", "1"), knobs={"a": 1, "b": 2})
    found = settings.settings_effective(wanted, seen(settings={"b": 3}, sources={"b": "log"}))
    assert found.asked == "b=2"
    assert found.seen == "b=3 (log)"


def test_settings_that_the_baseline_has_too_are_not_asked_to_be_proven() -> None:
    wanted = replace(asked(knobs={"threads": 1}), baseline=Candidate(knobs={"threads": 1}))
    assert settings.settings_effective(wanted, seen()).status is OK
    assert settings.settings_effective(wanted, seen(settings={"threads": 2})).status is VIOLATED


def test_settings_of_the_method_count_too() -> None:
    ngram = Candidate(Speculation(Method.NGRAM, 8, settings={"spec-ngram-simple-size-n": 4}))
    assert settings.settings_effective(asked(ngram, ()), seen()).status is UNKNOWN
    found = settings.settings_effective(asked(ngram, ("--spec-ngram-simple-size-n", "4")), seen())
    assert found.status is OK


@pytest.mark.parametrize(
    ("value", "status"), [(4, OK), (5, VIOLATED)], ids=["the named translation", "another difference"]
)
def test_translations(value: int, status: Status) -> None:
    rule = Translation("draft-tokens", 3, 4, "counts the bonus token too")
    plain = asked(knobs={"draft-tokens": 3})
    wanted = replace(plain, launch=replace(plain.launch, translations=(rule,)))
    found = settings.settings_effective(wanted, seen(settings={"draft-tokens": value}))
    assert found.status is status
    assert ("bonus" in found.seen) is (status is OK)


@pytest.mark.parametrize(
    ("capacity", "wanted", "status"),
    [
        (Capacity(8192, 4, 2048), asked(), OK),
        (Capacity(None, 4), asked(), OK),
        (Capacity(8192, 3), asked(), VIOLATED),
        (Capacity(8192, 3), asked(baseline_capacity=Capacity(8192, 4)), VIOLATED),
        (Capacity(8192, 3), asked(baseline_capacity=Capacity(8192, None)), VIOLATED),
        (Capacity(8192, 2), asked(baseline_capacity=Capacity(8192, 3)), OK),
        (Capacity(8192, 3), asked(BASELINE, ()), OK),
        (Capacity(1599, 4), asked(), UNKNOWN),
        (Capacity(8192, None), asked(), UNKNOWN),
        (Capacity(8192, 4), asked(longest=None), OK),
        (Capacity(), asked(cells=(RATE_CELL,), longest=None), OK),
    ],
)
def test_limits(capacity: Capacity, wanted: Asked, status: Status) -> None:
    assert settings.limits(wanted, seen(capacity=capacity)).status is status


@pytest.mark.parametrize(
    ("variables", "listener", "status"),
    [
        ({"X": "1"}, ListenerOwner.OURS, OK),
        ({}, ListenerOwner.OURS, UNKNOWN),
        ({"X": "1"}, ListenerOwner.FOREIGN, UNKNOWN),
    ],
)
def test_variables_are_known_of_our_own_process(
    variables: dict[str, str], listener: ListenerOwner, status: Status
) -> None:
    plain = asked(knobs={"env.X": 1})
    wanted = replace(plain, launch=replace(plain.launch, env=variables))
    observed = Observed(replace(EVIDENCE, listener=listener), SEEN)
    assert settings.settings_effective(wanted, observed).status is status


@pytest.mark.parametrize(
    ("context", "longest", "status"), [(400, 400, OK), (399, 400, VIOLATED), (None, 400, UNKNOWN), (None, None, OK)]
)
def test_fits(context: int | None, longest: int | None, status: Status) -> None:
    capacity = Capacity(context_per_request=context)
    assert settings.fits(asked(longest=longest), seen(capacity=capacity)).status is status


@pytest.mark.parametrize(
    ("meanings", "status", "words"),
    [
        ((), OK, "no change"),
        ((Meaning.SAME,), OK, "no change"),
        ((Meaning.SAME, Meaning.CHANGED), OK, "a1: because"),
        ((Meaning.CHANGED, Meaning.INVALID), VIOLATED, "a1: because (words)"),
    ],
)
def test_adjustments(meanings: tuple[Meaning, ...], status: Status, words: str) -> None:
    found = tuple(Adjustment(f"a{n}", "words", meaning, "because") for n, meaning in enumerate(meanings))
    result = settings.adjustments(asked(), seen(adjustments=found))
    assert result.status is status
    assert words in result.seen


def test_the_largest_level_counts() -> None:
    assert asked().most_users == 4
    assert asked(cells=(RATE_CELL, CELLS[0])).most_users == 1
    assert DRAFT_FLAGS[1] == "draft-simple"
    assert asked(DRAFT).speculates


TREE = Candidate(Speculation(Method.EAGLE, 3, topk=4))
TREE_FLAGS = ("--speculative-eagle-topk", "4")


@pytest.mark.parametrize(
    ("candidate", "flags", "observed", "status"),
    [
        (DRAFT, (), seen(), OK),
        (DRAFT, (), seen(settings={"speculative-eagle-topk": 1}), OK),
        (DRAFT, (), seen(settings={"speculative-eagle-topk": 4}), VIOLATED),
        (TREE, TREE_FLAGS, seen(settings={"speculative-eagle-topk": 4}), OK),
        (TREE, TREE_FLAGS, seen(settings={"speculative-eagle-topk": 1}), VIOLATED),
        (TREE, TREE_FLAGS, seen(), OK),
        (TREE, ("--speculative-eagle-topk", "1"), seen(), UNKNOWN),
        (TREE, TREE_FLAGS, seen(speculating=None), UNKNOWN),
        (TREE, (), seen(), UNKNOWN),
    ],
)
def test_branches(candidate: Candidate, flags: tuple[str, ...], observed: Observed, status: Status) -> None:
    assert settings.speculation_topk(asked(candidate, flags), observed).status is status
