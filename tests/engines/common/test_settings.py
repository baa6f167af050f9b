from __future__ import annotations

import pytest

from spectune.domain.errors import InputError
from spectune.domain.knobs import Knob, KnobKind, KnobValue
from spectune.engines.common.settings import as_setting, chosen, number, once_each, switched

WHOLE = Knob("n", KnobKind.INTEGER, low=1, high=10**19)
REAL = Knob("x", KnobKind.NUMBER, low=0, high=1)
SUFFIXES = {"k": 1000, "Ki": 1024}


def read(written: str, value: KnobValue) -> tuple[str, KnobValue]:
    return written.removeprefix("old-"), value


def test_each_setting_is_given_once() -> None:
    assert once_each({"old-a": 1, "b": 2}, "service.args", "E", False, read) == {"a": 1, "b": 2}
    with pytest.raises(InputError, match=r"service\.args: 'old-a' and 'a' set the same E flag"):
        once_each({"a": 1, "old-a": 1}, "service.args", "E", False, read)
    with pytest.raises(InputError, match="candidate: 'old-a' is called 'a' here"):
        once_each({"old-a": 1}, "candidate", "E", True, read)


@pytest.mark.parametrize(
    ("knob", "value", "expected"),
    [
        (WHOLE, 7, 7),
        (WHOLE, 7.0, 7),
        (WHOLE, " +7 ", 7),
        (WHOLE, 2**63 - 1, 2**63 - 1),
        (WHOLE, "1e3", 1000),
        (WHOLE, "32k", 32_000),
        (WHOLE, "1.5Ki", 1536),
        (REAL, "0.5", 0.5),
        (REAL, 1, 1.0),
    ],
    ids=str,
)
def test_numbers(knob: Knob, value: KnobValue, expected: int | float) -> None:
    found = number(knob, value, "it", SUFFIXES)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("knob", "value", "message"),
    [
        (WHOLE, "k", "must be a whole number, got 'k'"),
        (WHOLE, "1.0001k", "must be a whole number"),
        (WHOLE, "infk", "must be a whole number"),
        (WHOLE, 2.5, "must be a whole number"),
        (WHOLE, True, "must be a whole number, got 'True'"),
        (WHOLE, 0, "must be at least 1, got 0"),
        (WHOLE, 10**20, "must be at most 1e[+]19"),
        (REAL, "nan", "must be a number, got 'nan'"),
        (REAL, "0.0001k", "must be a number, got '0.0001k'"),
        (REAL, -1, "must be at least 0"),
    ],
    ids=str,
)
def test_no_numbers(knob: Knob, value: KnobValue, message: str) -> None:
    with pytest.raises(InputError, match=f"^it {message}"):
        number(knob, value, "it", SUFFIXES)


def test_choices() -> None:
    knob = Knob("c", KnobKind.CHOICE, choices=("triton", "flashinfer"))
    assert chosen(knob, "triton", "it") == "triton"
    with pytest.raises(InputError, match="it must be one of triton, flashinfer, got 'flashinfr'") as refused:
        chosen(knob, "flashinfr", "it")
    assert refused.value.advice == "Did you mean 'flashinfer'?"


@pytest.mark.parametrize(("value", "state"), [(True, True), ("ON", True), (1, True), ("false", False), (0, False)])
def test_switches(value: KnobValue, state: bool) -> None:
    assert switched(value, "it") is state
    with pytest.raises(InputError, match="it is a switch, got 'perhaps'"):
        switched("perhaps", "it")


@pytest.mark.parametrize(
    ("value", "many", "expected"),
    [
        (3, False, 3),
        ("x", True, "x"),
        ([1, "a", 2.5], True, "1 a 2.5"),
        ([1], False, None),
        ([], True, None),
        ([{}], True, None),
        (float("nan"), False, None),
        (float("inf"), True, None),
        (None, False, None),
    ],
    ids=str,
)
def test_what_is_told(value: object, many: bool, expected: KnobValue | None) -> None:
    assert as_setting(value, many) == expected
