"""Prompts of their own for the pairs of a confirmation.

A candidate is picked by how it did on the prompts of the explorations. What it owes to these very prompts would come
back each time they are asked, so the pairs that confirm it are asked others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from spectune.domain.history import History
from spectune.domain.trial import Purpose, partners
from spectune.domain.workload import Prompt


def asked_before(history: History, number: int, cell: str) -> frozenset[str]:
    """Ids of the prompts that a cell was asked before the pair to which a confirming trial belongs; none for other
    trials, which are all asked the same.

    Args:
        number: of the trial; it has started.
        cell: its key.
    """
    if history.trials[number].purpose is not Purpose.CONFIRM:
        return frozenset()
    first = min(number, partners(history.ordered).get(number, number))
    earlier = (trial.cells[cell].records for trial in history.ordered if trial.number < first and cell in trial.cells)
    return frozenset(record.prompt_id for records in earlier for record in records)


def unasked(prompts: Iterator[Prompt], asked: Collection[str]) -> Iterator[Prompt]:
    """Prompts that were not asked, and after them the others again, for a workload that has no more.

    Turns of a session stay together. A trace begins anew: its times belong to its beginning.
    """
    head = next(prompts, None)
    if head is None:
        return
    lane = chain((head,), prompts)
    if head.due_s is not None:
        yield from lane
        return
    again: list[Prompt] = []
    begun: set[str] = set()
    for prompt in lane:
        if prompt.id not in asked and prompt.session not in begun:
            yield prompt
            continue
        if prompt.session:
            begun.add(prompt.session)
        again.append(prompt)
    yield from again
