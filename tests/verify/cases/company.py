"""Greedy answers of one deployment, asked one by one and together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from spectune.domain.finding import Answer
from spectune.verify.observed import Observed, ProbeAnswers
from tests.verify.builders import asked, seen
from tests.verify.cases.answers import BASE, SERVICE, all_parted, probed, run
from tests.verify.cases.case import Cases, ok, unknown, violated

RECORDED = Path(__file__).resolve().parents[2] / "cases" / "vllm" / "0.26.0" / "garbled-in-company.json"


def together(answers: tuple[Answer, ...], alone: tuple[Answer, ...] = BASE, users: int = 4) -> Observed:
    return probed(ProbeAnswers(alone), ProbeAnswers(answers, users=users))


def recorded(setting: str) -> Observed:
    """vLLM 0.26.0 on an H200, graphs captured whole (cudagraph_mode FULL) without compilation: with speculation by a
    draft model its answers are sound, without speculation they are garbled as soon as several users ask."""
    runs = json.loads(RECORDED.read_text(encoding="utf-8"))[setting]
    alone, company = (tuple(Answer(name, text) for name, text in runs[load].items()) for load in ("1", "16"))
    return together(company, alone, 16)


CASES: Cases = {
    "answers-in-company": (
        ok(asked(), together(BASE), "12 of 12 answers equal"),
        ok(SERVICE, together(BASE)),
        ok(asked(), together(all_parted(20))),  # as numerics part them
        ok(asked(), together(run((3, "something else")))),
        ok(asked(), probed(ProbeAnswers(BASE))),
        violated(SERVICE, together(all_parted(0)), "alone: "),
        violated(asked(), together(all_parted(1), users=16), "16 users: 0 of 12 answers equal"),
        unknown(asked(), together(all_parted(5)), "more than numerics explain"),
        unknown(asked(), together(BASE[:3]), "3 prompts to compare"),
        unknown(asked(), probed(ProbeAnswers(BASE, users=4)), "0 prompts to compare"),
        unknown(asked(), probed(), "no probe was sent"),
        unknown(asked(), replace(together(BASE), seen=replace(seen().seen, invented_text=True)), "not the model's"),
        violated(SERVICE, recorded("none"), "0 of 7 answers equal"),
        unknown(asked(), recorded("ngram k=3"), "more than numerics explain"),
        ok(asked(), recorded("draft k=3"), "7 of 7 answers equal"),
    ),
}
