from __future__ import annotations

import json

import pytest

from spectune.domain.deployment import Page
from spectune.engines.common.acceptance import at_least
from spectune.engines.common.pages import count, first, json_of, listed_model, simulated, whole, words


@pytest.mark.parametrize("page", [None, Page(404, "{}"), Page(200, ""), Page(200, "{"), Page(200, "[" * 100_000)])
def test_what_is_no_json_page(page: Page | None) -> None:
    assert json_of(page) is None
    assert listed_model(page) == {}


@pytest.mark.parametrize(
    ("body", "model"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, {"id": "a"}),
        ({"data": []}, {}),
        ({"data": ["a"]}, {}),
        ({"data": {}}, {}),
        ([], {}),
    ],
    ids=str,
)
def test_the_first_model_counts(body: object, model: dict[str, object]) -> None:
    assert listed_model(Page(200, json.dumps(body))) == model


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, (3, 3, None)), (-1, (-1, None, None)), (True, (None,) * 3), ("x", (None, None, "x")), ("", (None,) * 3)],
    ids=str,
)
def test_values(value: object, expected: tuple[int | None, int | None, str | None]) -> None:
    assert (whole(value), count(value), words(value)) == expected


def test_the_first_number_told() -> None:
    assert first(None, 0, 1) == 0
    assert first(None) is None


@pytest.mark.parametrize(
    ("version", "made_up"), [("0.5.15+sim", True), ("1-SIM", True), ("0.5.15", False), (None, False)]
)
def test_simulated_versions(version: str | None, made_up: bool) -> None:
    assert simulated(version) == (f"this is a simulated server (version {version})" if made_up else None)


@pytest.mark.parametrize(
    ("exactly", "least"), [((), ()), ((5,), ()), ((5, 0), (0,)), ((1, 2, 3, 4), (9, 7, 4))], ids=str
)
def test_from_exactly_to_at_least(exactly: tuple[int, ...], least: tuple[int, ...]) -> None:
    assert at_least(exactly) == least
