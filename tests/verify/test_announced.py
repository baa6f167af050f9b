"""What a server says about itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.finding import Status
from spectune.verify.announced import kind, new_warnings, output_valid
from spectune.verify.observed import Observed
from tests.verify.builders import BASELINE, EVIDENCE, SEEN, asked, evidence, seen

OK, VIOLATED, UNKNOWN = Status.OK, Status.VIOLATED, Status.UNKNOWN
KEY = "W srv llama_server: security: no API key is set and CORS allows all origins"
CONTEXT = "W llama_context: n_ctx_seq (40000000) > n_ctx_train (8192) -- possible training context overflow"


@pytest.mark.parametrize(
    ("observed", "status"),
    [
        (seen(), OK),
        (seen(invalid_output="synthetic speculative acceptance is enabled"), VIOLATED),
        (seen(invalid_output=""), VIOLATED),
        (evidence(log=" \n"), UNKNOWN),
    ],
)
def test_output_valid(observed: Observed, status: Status) -> None:
    found = output_valid(asked(), observed)
    assert found.status is status
    assert ("simulated:" in found.seen) is (status is VIOLATED)


@pytest.mark.parametrize(
    ("warnings", "before", "status"),
    [
        ((), (), OK),
        ((), None, OK),
        ((KEY,), (), OK),
        ((CONTEXT,), (CONTEXT,), OK),
        ((CONTEXT,), (CONTEXT.replace("40000000", "16384"),), OK),
        ((CONTEXT,), (), UNKNOWN),
        ((CONTEXT,), None, UNKNOWN),
        ((KEY, CONTEXT), (KEY,), UNKNOWN),
    ],
)
def test_new_warnings(warnings: tuple[str, ...], before: tuple[str, ...] | None, status: Status) -> None:
    found = new_warnings(asked(baseline_warnings=before), seen(warnings=warnings))
    assert found.status is status
    assert ("training context overflow" in found.seen) is (status is UNKNOWN)


def test_without_a_log_warnings_are_unknown() -> None:
    assert new_warnings(asked(), Observed(replace(EVIDENCE, log=""), SEEN)).status is UNKNOWN


def test_the_baseline_sets_the_measure() -> None:
    assert new_warnings(asked(BASELINE, (), baseline_warnings=None), seen(warnings=(CONTEXT,))).status is OK


def test_only_a_few_kinds_are_quoted_and_each_once() -> None:
    lines = (CONTEXT, CONTEXT, *(f"W strange thing {letter}" for letter in "abcd"))
    found = new_warnings(asked(), seen(warnings=lines)).seen
    assert found.count("overflow") == 1
    assert found.endswith("and 2 more")


def test_a_known_trap_is_named_with_its_advice() -> None:
    line = "W common_speculative: ngram_mod n_match=8 is too small - poor quality is possible"
    found = new_warnings(asked(), seen(warnings=(line,)))
    assert found.status is UNKNOWN
    assert "pool-too-short" in found.seen
    assert "n-match" in found.advice


def test_a_kind_forgets_numbers_and_paths() -> None:
    assert kind("W slot  3 | took 1.5 s in '/tmp/x.gguf'") == kind("W slot 11 | took 20 s in '/var/y.gguf'")
    assert kind("W a") != kind("W b")
