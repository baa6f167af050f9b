"""What a server says about itself."""

from __future__ import annotations

from spectune.domain.finding import Status
from spectune.verify.announced import kind, new_warnings, output_valid
from tests.verify.builders import asked, seen
from tests.verify.cases.announced import CONTEXT


def test_only_output_that_is_not_valid_is_called_simulated() -> None:
    assert "simulated:" not in output_valid(asked(), seen()).seen


def test_only_a_few_kinds_are_quoted_and_each_once() -> None:
    lines = (CONTEXT, CONTEXT, *(f"W strange thing {letter}" for letter in "abcd"))
    found = new_warnings(asked(), seen(warnings=lines)).seen
    assert found.count("overflow") == 1
    assert found.endswith("and 2 more")


def test_a_known_trap_is_named_with_its_advice() -> None:
    line = "W common_speculative: ngram_mod n_match=8 is too small - poor quality is possible"
    found = new_warnings(asked(), seen(warnings=(line,)))
    assert found.status is Status.UNKNOWN
    assert "pool-too-short" in found.seen
    assert "n-match" in found.advice


def test_a_kind_forgets_numbers_and_paths() -> None:
    assert kind("W slot  3 | took 1.5 s in '/tmp/x.gguf'") == kind("W slot 11 | took 20 s in '/var/y.gguf'")
    assert kind("W a") != kind("W b")
