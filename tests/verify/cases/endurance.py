"""Surviving the load."""

from __future__ import annotations

from dataclasses import replace

from spectune.domain.deployment import Counters, Exit, ListenerOwner
from spectune.domain.measurement import Outcome
from spectune.verify.observed import Observed
from tests.verify.builders import asked, cell, evidence, loaded, record
from tests.verify.cases.case import Cases, ok, unknown, violated

RISING = cell(counters=(Counters(output_tokens=10), Counters(output_tokens=90)), started=1.0)
LATER = cell(counters=(Counters(output_tokens=90, drafted=1), Counters(output_tokens=95)), started=2.0)
FALLING = cell(counters=(Counters(output_tokens=90), Counters(output_tokens=10)))
ANEW = cell(counters=(Counters(output_tokens=0), Counters(output_tokens=80)), started=2.0)
GONE = evidence(listener=ListenerOwner.NONE, pages={})

OK, FIRST, IDLE, CANCELLED = Outcome.OK, Outcome.TIMEOUT_FIRST, Outcome.TIMEOUT_IDLE, Outcome.CANCELLED


WORDS = replace(record("p", outcome=Outcome.HTTP_ERROR), detail="HTTP 400 min_p is not supported")
REFUSED = cell(requests={Outcome.HTTP_ERROR: 9}, records=(record("q", outcome=CANCELLED), WORDS))


def ended(**requests: int) -> Observed:
    """One cell, of whose requests so many ended in each way."""
    return loaded(cell(requests={Outcome[name.upper()]: count for name, count in requests.items()}))


def in_order(*outcomes: Outcome) -> Observed:
    """One cell whose requests were sent in this order and ended so; their records are kept in another."""
    records = [record(f"p{n}", outcome=outcome, sent=n) for n, outcome in enumerate(outcomes)]
    return loaded(cell(records=tuple(reversed(records))))


CASES: Cases = {
    "server-survived": (
        ok(asked(), loaded(RISING)),
        ok(asked(), loaded(LATER, RISING)),
        ok(asked(), loaded(cell())),
        violated(asked(), loaded(FALLING), "counters fell back"),
        violated(asked(), loaded(RISING, ANEW), "counters fell back in cell 2"),
        violated(asked(), loaded(RISING, base=evidence(exit=Exit(139, "Segmentation fault"))), "Segmentation fault"),
        unknown(asked(), loaded(RISING, base=GONE)),
        violated(asked(), loaded(FALLING, base=GONE)),
    ),
    "no-failed-requests": (
        ok(asked(), ended(ok=100)),
        ok(asked(), ended(ok=99, reset=1)),
        violated(asked(), ended(ok=98, reset=1, http_error=1)),
        violated(asked(), ended(ok=10, timeout_idle=1)),
        # What the client itself cancelled is not counted.
        ok(asked(), ended(ok=10, cancelled=4)),
        unknown(asked(), ended(cancelled=4)),
        unknown(asked(), ended()),
        # They add up over cells, and are named.
        violated(asked(), loaded(cell(), cell(requests={Outcome.RESET: 3})), "3 of 103 failed (reset: 3)"),
        # In their own words, where they left any.
        violated(asked(), loaded(REFUSED), "9 of 9 failed (http-error: 9): HTTP 400 min_p is not supported"),
    ),
    "sustained-generation": (
        ok(asked(), in_order(OK, OK, OK)),
        ok(asked(), in_order(OK, FIRST, OK)),
        ok(asked(), in_order(OK, OK, FIRST)),
        violated(asked(), in_order(OK, FIRST, IDLE)),
        violated(asked(), in_order(OK, FIRST, FIRST, CANCELLED)),
        violated(asked(), in_order(*[OK] * 7, *[FIRST] * 3), "the last 3 of 10 requests: it hangs after 7"),
        ok(asked(), in_order(OK, Outcome.HTTP_ERROR, Outcome.HTTP_ERROR)),
        unknown(asked(), in_order(CANCELLED)),
        unknown(asked(), loaded()),
    ),
}
