"""What a stopped server leaves behind."""

from __future__ import annotations

from dataclasses import replace

from spectune.verify.aftermath import SLACK_BYTES
from spectune.verify.observed import Left, Observed
from tests.verify.builders import asked, seen
from tests.verify.cases.case import Cases, ok, unknown, violated

GIB = 2**30


def left(before: int | None, after: int | None) -> Observed:
    return replace(seen(), left=Left(before, after))


CASES: Cases = {
    "memory-returned": (
        ok(asked(), left(GIB, GIB)),
        ok(asked(), left(GIB, GIB + SLACK_BYTES)),
        ok(asked(), left(GIB, 0)),
        violated(asked(), left(GIB, 3 * GIB), "2.0 GiB more"),
        unknown(asked(), left(None, 3 * GIB)),
        unknown(asked(), left(GIB, None)),
        unknown(asked(), seen()),
    ),
}
