"""No check raises, whatever an engine prints: all from nothing, and all from every one of its cases with a part of it
exchanged, which comes as far into the check as the case does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import (
    Adjustment,
    Capacity,
    Counters,
    Evidence,
    Exit,
    Launch,
    ListenerOwner,
    Meaning,
    Page,
    Seen,
    Service,
    Translation,
)
from spectune.domain.finding import Answer, Finding, ProbeRun, Status
from spectune.domain.measurement import Acceptance, Doubt, Outcome
from spectune.domain.tasks import TASK
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Level, LevelKind, Sampling
from spectune.verify import soundness
from spectune.verify.catalogue import CHECKS
from spectune.verify.check import Check
from spectune.verify.first_words import PREFIX
from spectune.verify.gate import Gate, after_measuring, after_stopping, before_measuring, state_of
from spectune.verify.observed import Left, Observed, ProbeAnswers
from tests.verify.builders import cell, record
from tests.verify.cases.table import CASES

TEXT = st.text(max_size=12)
WHOLE = st.integers(-(2**40), 2**40)
MAYBE = st.none() | WHOLE
NUMBER = st.floats()
VALUE = st.booleans() | st.integers() | NUMBER | TEXT
NAME = st.sampled_from(["threads", "async-scheduling", "page-size", "spec-draft-n-max", "a", ""]) | TEXT
SETTINGS = st.dictionaries(NAME, VALUE, max_size=3)
LINES = st.lists(TEXT | st.sampled_from(["W n_max", "W threads reset"]), max_size=3).map(tuple)

OUTPUT = st.text(max_size=80) | st.sampled_from(
    ['{"a": 1}', '{"a": ', "```python\ndef f(:\n```", "```json\n[[[[\n```", "<tool_call>{}</tool_call>", "[" * 5000]
)
CAPACITY = st.builds(Capacity, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE)

COUNTERS = st.builds(Counters, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, st.lists(WHOLE, max_size=5).map(tuple))
SEEN = st.builds(
    Seen,
    adjustments=st.lists(st.builds(Adjustment, TEXT, TEXT, st.sampled_from(Meaning), TEXT), max_size=2).map(tuple),
    speculating=st.none() | st.booleans(),
    method=st.none() | st.sampled_from(Method),
    depth=MAYBE,
    settings=SETTINGS,
    sources=st.dictionaries(NAME, TEXT, max_size=2),
    model=st.none() | TEXT,
    model_id=st.none() | TEXT,
    version=st.none() | TEXT,
    capacity=CAPACITY,
    warnings=LINES,
    counters=st.none() | COUNTERS,
    invalid_output=st.none() | TEXT,
    invented_text=st.booleans(),
)
EVIDENCE = st.builds(
    Evidence,
    log=TEXT,
    pages=st.dictionaries(TEXT, st.builds(Page, WHOLE, TEXT), max_size=2),
    listener=st.sampled_from(ListenerOwner),
    started_unix=st.none() | NUMBER,
    exit=st.none() | st.builds(Exit, WHOLE, TEXT),
    rss_bytes=MAYBE,
)
SPECULATION = st.builds(
    Speculation, st.sampled_from(Method), st.integers(0, 100), st.integers(1, 4), st.none(), SETTINGS
)
CANDIDATE = st.builds(Candidate, SPECULATION, SETTINGS)
ARGV = st.lists(TEXT | st.sampled_from(["--threads", "1", "--spec-type", "--spec-draft-n-max=3"]), max_size=6).map(
    tuple
)
LEVEL = st.builds(Level, st.integers(1, 64), st.sampled_from(LevelKind))
TRANSLATION = st.builds(Translation, NAME, st.none() | VALUE, st.none() | VALUE, TEXT)
LAUNCH = st.builds(
    Launch,
    argv=ARGV,
    env=st.just({}),
    url=TEXT,
    ready_path=TEXT,
    probe_paths=st.just(()),
    counters_path=st.none() | TEXT,
    model_id=TEXT,
    translations=st.lists(TRANSLATION, max_size=2).map(tuple),
)


def answers_to(ids: str, prefix: str = "") -> st.SearchStrategy[tuple[Answer, ...]]:
    """Answers to prompts of these ids, some of them to the same one."""
    names = st.sampled_from([prefix + name for name in ids])
    score = st.none() | st.floats()
    one = st.builds(Answer, names, OUTPUT, st.none() | TEXT, st.just("") | TEXT, score)
    return st.lists(one, max_size=8).map(tuple)


PLAIN = answers_to("abcdefgh")
SAMPLED = answers_to("xyz", PREFIX).map(lambda found: found * 12)
"""Each asked a dozen times, as many as are compared."""
TASKS = answers_to("xyz", TASK)
ANSWERS = PLAIN | SAMPLED | TASKS
RUN = st.builds(ProbeRun, st.integers(1, 4), ANSWERS)
LEFT = st.builds(Left, MAYBE, MAYBE)
ENGINE = st.sampled_from(["", "llama.cpp", "vllm", "sglang"])
ASKED = st.builds(
    Asked,
    service=st.builds(
        Service,
        st.sampled_from(["", "llama.cpp", "vllm", "sglang"]),
        TEXT,
        TEXT,
        SETTINGS,
        st.just({}),
        TEXT,
        WHOLE,
        TEXT,
    ),
    candidate=CANDIDATE,
    baseline=CANDIDATE,
    launch=LAUNCH,
    cells=st.lists(st.builds(Cell, LEVEL, st.just(Sampling())), max_size=3).map(tuple),
    started_after=NUMBER,
    tokens_per_request=MAYBE,
    baseline_warnings=st.none() | LINES,
    baseline_probes=st.lists(st.lists(RUN, max_size=2).map(tuple), max_size=3).map(tuple),
    baseline_capacity=st.none() | CAPACITY,
    baseline_settings=st.none() | SETTINGS,
)
PROBES = st.lists(st.builds(ProbeAnswers, PLAIN, PLAIN, st.none() | PLAIN, st.integers(1, 64)), max_size=2)
DOUBTS = st.sampled_from(sorted(soundness.OTHER_LOAD | soundness.EASY_TEXT | soundness.TOO_LITTLE)) | TEXT


@st.composite
def measured(draw: st.DrawFn) -> MeasuredCell:
    acceptance = st.builds(Acceptance, WHOLE, WHOLE, WHOLE, st.lists(NUMBER, max_size=4).map(tuple), TEXT)
    sent = st.builds(record, st.sampled_from("ab"), MAYBE, MAYBE, outcome=st.sampled_from(Outcome), sent=WHOLE)
    records = st.lists(sent, max_size=3).map(tuple)
    return cell(
        draw(st.none() | acceptance),
        counters=(draw(st.none() | COUNTERS), draw(st.none() | COUNTERS)),
        records=draw(records),
        requests=draw(st.dictionaries(st.sampled_from(Outcome), WHOLE, max_size=3)),
        started=draw(NUMBER),
        doubts=draw(st.lists(st.builds(Doubt, DOUBTS, TEXT, TEXT), max_size=2).map(tuple)),
    )


CELLS = st.dictionaries(TEXT, measured(), max_size=2)


def must_hold(finding: Finding) -> None:
    """What every finding says, whatever was found."""
    assert finding.seen
    assert bool(finding.why and finding.advice) is (finding.status is not Status.OK)
    assert not (finding.blocks_measurement and finding.status is Status.UNKNOWN)


LENIENT = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@LENIENT
@given(ASKED, EVIDENCE, SEEN, PROBES, CELLS, LEFT, SAMPLED, TASKS)
def test_no_check_raises(
    asked: Asked,
    evidence: Evidence,
    seen: Seen,
    probes: list[ProbeAnswers],
    cells: dict[str, MeasuredCell],
    left: Left,
    sampled: tuple[Answer, ...],
    tasks: tuple[Answer, ...],
) -> None:
    observed = Observed(evidence, seen)
    runs = tuple(ProbeRun(group.users, group.candidate) for group in probes)
    found = before_measuring(asked, observed, probes) + after_measuring(asked, observed, cells)
    found += after_stopping(asked, left) + Gate().before(asked, evidence, seen, runs)
    state_of(found)
    whole = Observed(evidence, seen, tuple(probes), cells, left, sampled, tasks)
    for finding in (*found.findings, *(check(asked, whole) for check in CHECKS)):
        must_hold(finding)


PARTS: Mapping[str, st.SearchStrategy[Any]] = {
    "evidence": EVIDENCE,
    "seen": SEEN,
    "answers": PROBES.map(tuple),
    "cells": CELLS,
    "left": st.none() | LEFT,
    "sampled": SAMPLED,
    "tasks": TASKS,
}
"""Part of what is observed -> anything that it may be."""
FIELDS: Mapping[str, st.SearchStrategy[Any]] = {
    "settings": SETTINGS,
    "capacity": CAPACITY,
    "counters": st.none() | COUNTERS,
    "depth": MAYBE,
    "warnings": LINES,
    "version": st.none() | TEXT,
}
"""The same for single things that were seen."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
@settings(LENIENT, max_examples=20)
@given(data=st.data())
def test_no_check_raises_when_a_part_of_a_case_is_anything(check: Check, data: st.DataObject) -> None:
    case = CASES[check.name][data.draw(st.integers(0, len(CASES[check.name]) - 1))]
    part = data.draw(st.sampled_from([*PARTS, *FIELDS]))
    if part in PARTS:
        observed = replace(case.observed, **{part: data.draw(PARTS[part])})
    else:
        observed = replace(case.observed, seen=replace(case.observed.seen, **{part: data.draw(FIELDS[part])}))
    must_hold(check(case.asked, observed))
    must_hold(check(data.draw(ASKED), case.observed))


@given(ASKED)
def test_nothing_seen_is_never_ok_for_what_must_be_seen(asked: Asked) -> None:
    nothing = Observed(Evidence("", {}, ListenerOwner.UNKNOWN), Seen())
    found = before_measuring(asked, nothing)
    must = {"listener-is-ours", "process-alive", "started-after-deploy", "model-served", "speculation-live"}
    must |= {"speculation-method", "output-valid", "new-warnings", "adjustments-allowed", "generation", "answers"}
    if not asked.is_baseline:
        must |= {"scheduler-parity"}
    statuses = {finding.check: finding.status for finding in found.findings}
    assert {statuses[name] for name in must} == {Status.UNKNOWN}
