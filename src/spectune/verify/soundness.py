"""Whether a measurement is one of the load that was asked: which doubts keep a winner from resting on it.

A doubt blocks where it can make a candidate look faster than its users will find it, and where no interval covers that:

- always, where it was not this load on this server: cached prompts, other users, users that never came, a client that
  stood still;
- where drafting is what the candidate changes, and text that is easier to draft than real answers (loops) was measured
  in more than half of the cells, unless the campaign asks for answers that go on past their end: such a campaign gets
  its answer, marked, and promotion refuses it;
- where a single request is all that more than half of the cells measured.

Doubts about the machine (another program, drift, a client that is a little late) concern all candidates alike and are
in the intervals. They block where one side of the comparison alone has them, which only the judge can see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from spectune.domain.asked import Asked
from spectune.domain.trial import MeasuredCell
from spectune.verify.check import Result, ok, unknown
from spectune.verify.observed import Observed

OTHER_LOAD = frozenset({"prefix-cache-hit", "tokens-differ-from-server", "load-not-reached", "client-blocked"})
"""Doubts with which it was not this load on this server, in any cell."""
EASY_TEXT = frozenset({"looping-answers"})
"""Doubts about text that drafts guess more easily than what users will get."""
TOO_LITTLE = frozenset({"few-requests"})
MOST_CELLS = 0.5
"""Share of the cells up to which easy text, or too little of it, leaves a comparison that rests on the others."""


def measured_soundly(asked: Asked, observed: Observed) -> Result:
    """Whether a winner may rest on what was measured (rule: see the module)."""
    wanted = "the load that was asked, on text as users get it, nobody else on the server"
    if not observed.cells:
        return unknown(wanted, "nothing was measured")
    alike = asked.candidate.speculation == asked.baseline.speculation
    forced = any(cell.sampling.ignore_eos for cell in asked.cells)
    found = list(_in_the_way(observed.cells, TOO_LITTLE if alike or forced else TOO_LITTLE | EASY_TEXT))
    return unknown(wanted, "; ".join(found)) if found else ok(wanted, "no doubt that stands in the way, in any cell")


def _in_the_way(cells: Mapping[str, MeasuredCell], common: Set[str]) -> Iterator[str]:
    blocking = OTHER_LOAD | {name for name in common if _share(cells, name) > MOST_CELLS}
    for key, cell in cells.items():
        for doubt in cell.measurement.doubts:
            if doubt.name in blocking:
                yield f"{key}: {doubt.message} ({doubt.name})"


def _share(cells: Mapping[str, MeasuredCell], name: str) -> float:
    return sum(any(doubt.name == name for doubt in cell.measurement.doubts) for cell in cells.values()) / len(cells)
