"""The set of prompts that are asked before anything is measured."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from spectune.domain.workload import Message, Prompt
from spectune.verify.probes import FULL, SMALL, Size, probe_set


def shared(most: int = 1000) -> Iterator[Prompt]:
    """Prompts of a workload."""
    return (Prompt(f"w{n}", ("chat", "code")[n % 2], (Message("user", f"{n}?"),), 256) for n in range(most))


def test_the_full_set_has_64_prompts_of_all_kinds() -> None:
    probes = probe_set(FULL, shared())
    kinds = Counter(probe.domain for probe in probes)
    assert len({probe.id for probe in probes}) == len(probes) == 64
    assert (kinds["json"], kinds["tools"], kinds["long"]) == (8, 8, 8)
    assert kinds["chat"] + kinds["code"] == 40
    assert {probe.max_tokens for probe in probes if probe.domain == "long"} == {320}


def test_the_small_set_has_every_kind_and_few_tokens() -> None:
    probes = probe_set(SMALL, shared())
    assert {"json", "tools", "long", "chat", "code"} == {probe.domain for probe in probes}
    assert sum(probe.max_tokens for probe in probes) < 200


def test_a_smaller_set_is_the_beginning_of_a_larger_one() -> None:
    few, many = (probe_set(Size(n, 8, 8, 8), shared()) for n in (10, 40))
    assert many[:10] == few


def test_the_first_probe_is_plain() -> None:
    """A server that refuses tools still answers it."""
    assert not probe_set(SMALL, shared())[0].extra


@pytest.mark.parametrize("most", [0, 3])
def test_a_workload_that_ends_ends_the_set(most: int) -> None:
    assert sum(probe.id.startswith("w") for probe in probe_set(FULL, shared(most))) == most


def test_tools_are_functions_with_required_parameters() -> None:
    probes = [probe for probe in probe_set(FULL, shared()) if probe.domain == "tools"]
    for probe in probes:
        (tool,) = probe.extra["tools"]
        parameters = tool["function"]["parameters"]
        assert set(parameters["required"]) == set(parameters["properties"])
        assert all(isinstance(name, str) for name in parameters["properties"])
        assert json.dumps(tool)
    assert len({probe.extra["tools"][0]["function"]["name"] for probe in probes}) == 8
