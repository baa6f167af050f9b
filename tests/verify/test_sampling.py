"""Sampled answers: what is asked, of whom, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer, ProbeRun, Status
from spectune.verify import sampling
from spectune.verify.gate import Gate
from spectune.verify.sampling import PLENTY, sampled_set
from tests.verify.builders import EVIDENCE, SEEN
from tests.verify.cases.sampling import COLD, FIRST, after


def test_every_prompt_is_asked_with_its_own_seed_under_the_sampling_of_the_workload() -> None:
    prompts = sampled_set(0.7, 0.9)
    assert len(prompts) == PLENTY.prompts * PLENTY.times
    assert len({prompt.id for prompt in prompts}) == len({prompt.extra["seed"] for prompt in prompts}) == len(prompts)
    assert all((prompt.extra["temperature"], prompt.extra["top_p"]) == (0.7, 0.9) for prompt in prompts)
    assert prompts == sampled_set(0.7, 0.9)


@pytest.mark.parametrize(
    ("wants", "applies"),
    [
        (after(FIRST), True),
        (after(FIRST, temperature=None), True),
        (after(FIRST, temperature=0.0), False),
        (after(), False),
        (after((Answer("chat/1", "hello"),)), False),
    ],
)
def test_only_sampling_workloads_whose_baseline_is_known_are_checked(wants: Asked, applies: bool) -> None:
    assert sampling.wanted_of(wants) == applies


def test_the_gate_keeps_sampled_answers_from_the_greedy_ones() -> None:
    greedy = tuple(Answer(f"chat/{n}", f"An answer of some words, number {n}.", "stop") for n in range(8))
    baseline = (ProbeRun(4, greedy), ProbeRun(4, FIRST))
    wants = replace(after(), baseline_probes=(baseline, baseline))
    found = Gate().before(wants, EVIDENCE, SEEN, (ProbeRun(4, greedy), ProbeRun(4, COLD)))
    status = {finding.check: finding.status for finding in found.findings}
    assert (status["answers"], status["answers-sampled"]) == (Status.OK, Status.VIOLATED)
    assert found.invalid_because is not None
    assert found.invalid_because.check == "answers-sampled"
