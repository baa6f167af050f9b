"""Greedy answers, and the baseline's."""

from __future__ import annotations

import random
from dataclasses import replace

from spectune.domain.finding import Answer
from spectune.verify.observed import Observed, ProbeAnswers
from tests.verify.builders import BASELINE, answers, asked, seen
from tests.verify.cases.case import Cases, ok, unknown, violated

VOCABULARY = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in "lmnrst"]


def text(seed: int, length: int = 60) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choices(VOCABULARY, k=length))


def parted(seed: int, at: int, length: int = 60) -> str:
    """The text of a seed that goes another way after so many words."""
    return " ".join([*text(seed, length).split()[:at], "OTHERWISE", *text(seed + 1000, length).split()[at:]])


BASE = answers(*(text(n) for n in range(12)))


def run(*changes: tuple[int, str]) -> tuple[Answer, ...]:
    """The baseline's answers with some texts exchanged."""
    found = dict(enumerate(BASE)) | {n: replace(BASE[n], text=new) for n, new in changes}
    return tuple(found.values())


def all_parted(at: int) -> tuple[Answer, ...]:
    return run(*((n, parted(n, at)) for n in range(12)))


def probed(*groups: ProbeAnswers) -> Observed:
    return replace(seen(), answers=groups)


GARBAGE = "\ufffd\x01" * 30
SERVICE = asked(BASELINE, ())
REFUSED = Answer("tools", "", None, "http-error: HTTP 400 no tools")
HUNG = Answer("tools", "", None, "timeout-first-token: nothing came")
ALIKE = ProbeAnswers(BASE, BASE, BASE)

CASES: Cases = {
    "generation": (
        ok(asked(), probed(ProbeAnswers(BASE))),
        ok(asked(), probed(ProbeAnswers(answers("", "Yes.")))),
        violated(asked(), probed(ProbeAnswers(answers("", " \n"))), "without text"),
        violated(asked(), probed(ProbeAnswers(BASE), ProbeAnswers(answers("", error="HTTP 500"))), "HTTP 500"),
        unknown(asked(), probed()),
        unknown(asked(), probed(ProbeAnswers(()))),
        # What the service as it is refuses too is no fault.
        ok(asked(), probed(ProbeAnswers((*BASE, REFUSED), (*BASE, REFUSED)))),
        violated(asked(), probed(ProbeAnswers((*BASE, REFUSED), (*BASE, Answer("tools", "{}"))))),
        violated(asked(), probed(ProbeAnswers((*BASE, REFUSED)))),
        ok(SERVICE, probed(ProbeAnswers((*BASE, REFUSED)))),
        violated(SERVICE, probed(ProbeAnswers((*BASE, HUNG)))),
        violated(SERVICE, probed(ProbeAnswers((REFUSED, REFUSED, BASE[0])))),
    ),
    "answers": (
        ok(asked(), probed(ALIKE)),
        violated(asked(), probed(ALIKE, ProbeAnswers(all_parted(0), BASE, BASE, 4)), "4 users: 0 of 12 answers equal"),
        unknown(asked(), probed(ALIKE, ProbeAnswers(BASE, BASE, None, 4)), "4 users"),
        unknown(asked(), probed(ProbeAnswers(BASE)), "not known"),
        unknown(asked(), probed(), "no probe was sent"),
        unknown(asked(), replace(probed(ALIKE), seen=replace(seen().seen, invented_text=True)), "not the model's"),
        ok(SERVICE, probed(ProbeAnswers(BASE, floor=BASE))),
        ok(SERVICE, probed(ProbeAnswers(BASE))),
        ok(SERVICE, probed(ProbeAnswers(BASE, BASE))),
        violated(SERVICE, probed(ProbeAnswers(run((1, GARBAGE)), BASE))),
        unknown(SERVICE, probed(ProbeAnswers(all_parted(2), BASE))),
        violated(SERVICE, probed(ProbeAnswers(all_parted(0), BASE, BASE))),
    ),
}
