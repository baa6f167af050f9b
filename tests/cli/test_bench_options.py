from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.cli import bench_options as options
from spectune.domain.errors import InputError
from spectune.domain.measurement import Slo
from spectune.domain.workload import Arrival, Level, LevelKind


def rate(value: float, arrival: Arrival = Arrival.POISSON, burstiness: float = 1.0) -> Level:
    return Level(value, LevelKind.RATE, arrival, burstiness)


@pytest.mark.parametrize(
    ("concurrency", "rates", "arrival", "burstiness", "expected"),
    [
        (None, None, Arrival.POISSON, None, (Level(1), Level(4), Level(16))),
        ("2, 8", None, Arrival.POISSON, None, (Level(2), Level(8))),
        ("4,4,1", None, Arrival.POISSON, None, (Level(4), Level(1))),
        (None, "0.5,2", Arrival.POISSON, None, (rate(0.5), rate(2))),
        ("1", "2", Arrival.CONSTANT, None, (Level(1), rate(2, Arrival.CONSTANT))),
        (None, "2", Arrival.GAMMA, 4.0, (rate(2, Arrival.GAMMA, 4.0),)),
        (None, "1e1", Arrival.RAMP, None, (rate(10, Arrival.RAMP),)),
        (None, None, Arrival.TRACE, None, (rate(1, Arrival.TRACE),)),
        (None, "2", Arrival.TRACE, None, (rate(2, Arrival.TRACE),)),
    ],
)
def test_levels(
    concurrency: str | None, rates: str | None, arrival: Arrival, burstiness: float | None, expected: tuple[Level, ...]
) -> None:
    assert options.levels(concurrency, rates, arrival, burstiness) == expected


@pytest.mark.parametrize(
    ("concurrency", "rates", "arrival", "burstiness", "words"),
    [
        ("0", None, Arrival.POISSON, None, "--concurrency: '0'"),
        ("1,", None, Arrival.POISSON, None, "--concurrency: ''"),
        ("1.5", None, Arrival.POISSON, None, "'1.5'"),
        ("²", None, Arrival.POISSON, None, "'²'"),
        (None, "0", Arrival.POISSON, None, "--rates: '0'"),
        (None, "-1", Arrival.POISSON, None, "--rates: '-1'"),
        (None, "inf", Arrival.POISSON, None, "--rates: 'inf'"),
        (None, "nan", Arrival.POISSON, None, "--rates: 'nan'"),
        (None, "fast", Arrival.POISSON, None, "'fast'"),
        ("1", None, Arrival.GAMMA, None, "--arrival gamma without --rates"),
        (None, "1", Arrival.POISSON, 2.0, "--burstiness says nothing about poisson"),
    ],
)
def test_wrong_levels_are_told(
    concurrency: str | None, rates: str | None, arrival: Arrival, burstiness: float | None, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        options.levels(concurrency, rates, arrival, burstiness)
    assert words in caught.value.message
    assert caught.value.advice


@pytest.mark.parametrize(
    ("text", "expected"), [("default", (None,)), ("0, 0.7,default", (0.0, 0.7, None)), ("1,1", (1.0,))]
)
def test_temperatures(text: str, expected: tuple[float | None, ...]) -> None:
    assert options.temperatures(text) == expected


@pytest.mark.parametrize("text", ["", "hot", "-1", "6", "nan", "inf", "0,,1"])
def test_wrong_temperatures_are_told(text: str) -> None:
    with pytest.raises(InputError, match="is no temperature"):
        options.temperatures(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("ttft<0.5,tpot<0.05", Slo(0.5, 0.05)),
        ("ttft<500ms", Slo(0.5, None)),
        (" tpot <= .05 s ", Slo(None, 0.05)),
    ],
)
def test_slo(text: str | None, expected: Slo | None) -> None:
    assert options.slo(text) == expected


@pytest.mark.parametrize(
    "text", ["", "ttft", "ttft<", "ttft>0.5", "e2e<1", "ttft<0.5;tpot<1", "ttft<1,ttft<2", "ttft<1m"]
)
def test_wrong_slos_are_told(text: str) -> None:
    with pytest.raises(InputError, match="--slo"):
        options.slo(text)


def test_headers() -> None:
    assert options.headers(["X-Tenant: a: b", "X-Empty:"]) == {"X-Tenant": "a: b", "X-Empty": ""}


@pytest.mark.parametrize(
    "line", ["", "X-Tenant", ": x", "X Tenant: x", "X-A: b\r\nX-B: c", "X-A: é", "Host: x", "content-length: 1"]
)
def test_wrong_headers_are_told(line: str) -> None:
    with pytest.raises(InputError, match="--header"):
        options.headers([line])


def test_a_wrong_header_does_not_repeat_what_may_be_secret() -> None:
    with pytest.raises(InputError) as caught:
        options.headers(["X-Key: hunter2\x01"])
    assert "hunter2" not in caught.value.message
    with pytest.raises(InputError) as caught:
        options.headers(["Authorization Bearer hunter2hunter2hunter2"])
    assert "hunter2" not in caught.value.message


@given(st.text(max_size=20) | st.text("0123456789.,- edfault", max_size=12))
def test_any_text_is_temperatures_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        found = options.temperatures(text)
        assert 1 <= len(found) <= text.count(",") + 1
        assert len(set(found)) == len(found)
        assert all(value is None or 0 <= value <= 5 for value in found)


BOUNDS = st.builds("{}{}{}{}".format, st.sampled_from(["ttft", "tpot", "e2e"]), st.text("<>= ", max_size=2),
                   st.text("0123456789.-e", max_size=4), st.sampled_from(["", "s", "ms", " s", "m"]))  # fmt: skip


@given(st.text(max_size=20) | st.lists(BOUNDS, max_size=3).map(",".join))
def test_any_text_is_bounds_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        found = options.slo(text)
        assert found is not None
        bounds = {"ttft": found.ttft_s, "tpot": found.tpot_s}
        assert {name: value is not None for name, value in bounds.items()} == {name: name in text for name in bounds}
        assert all(value is None or 0 <= value < math.inf for value in bounds.values())


@given(st.text(max_size=20) | st.text("Xx-:: Host\r\né\x01", max_size=8))
def test_any_text_is_a_header_or_an_input_error(line: str) -> None:
    with contextlib.suppress(InputError):
        ((name, value),) = options.headers([line]).items()
        assert line.partition(":")[0].strip() == name
        assert line.partition(":")[2].strip() == value
        sent = f"{name}: {value}"
        assert sent.isascii()
        assert sent.isprintable()
        assert name
        assert " " not in name


@pytest.mark.parametrize(
    ("measure_from", "remote", "expected"),
    [
        (None, "", "here"),
        ("here", "", "here"),
        ("host", "llm-two", "host"),
        ("host:/opt/s/bin/python", "llm-two", "host:/opt/s/bin/python"),
    ],
)
def test_where_the_load_comes_from(measure_from: str | None, remote: str, expected: str) -> None:
    assert options.origin(measure_from, remote) == expected


@pytest.mark.parametrize(
    ("measure_from", "remote"),
    [("host", ""), (None, "llm-two"), ("there", "llm-two"), ("host:python3", "llm-two"), ("host:/a\nb", "llm-two")],
)
def test_a_wrong_place_is_told(measure_from: str | None, remote: str) -> None:
    with pytest.raises(InputError, match="--measure-from"):
        options.origin(measure_from, remote)
