"""Acceptance of drafts, from the counters around a window and from what vLLM sends with an answer.

vLLM's counters have two biases:

- Steps without a draft are not counted. 1 + accepted / drafts is therefore the mean over steps that had a draft; the
  mean over all steps is emitted tokens / steps, and steps are counted by another metric (`Metrics.steps`).
- There is no count of tokens drafted at each position. Where all drafts were as long as the depth it is the number of
  drafts; where n-gram, suffix or a schedule made shorter ones, accepted / drafts of later positions is too low. The
  counts that are there bound it from both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spectune.domain.deployment import Page
from spectune.engines.common.acceptance import PerRequest, at_least
from spectune.engines.common.pages import count
from spectune.engines.vllm.metrics import Metrics, read_metrics

_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Window:
    """What happened between two readings of the counters.

    Attributes:
        steps: (request, step) pairs that emitted tokens after the request's first.
        drafts: those of them that had a draft.
        drafted, accepted: tokens; the bonus token is not counted.
        tokens_per_step: accept length over all steps, from the tokens that were emitted; None without steps.
        tokens_per_draft: accept length over steps with a draft, which is what vLLM's log calls mean acceptance length;
            None without drafts.
        positions: for each draft position (lowest, highest) share of drafted tokens that were accepted; both are the
            same where all drafts were as long as the depth. Conditional on the position having been drafted, not on the
            one before having been accepted.
    """

    steps: int
    drafts: int
    drafted: int
    accepted: int
    tokens_per_step: float | None
    tokens_per_draft: float | None
    positions: tuple[tuple[float, float], ...] = ()

    @property
    def draft_share(self) -> float | None:
        """Share of steps that had a draft; None without steps."""
        return self.drafts / self.steps if self.steps else None


def window(before: Page | None, after: Page | None) -> Window | None:
    """From two /metrics pages; None where they are none, or lack figures, or the server was restarted in between."""
    first, last = read_metrics(before), read_metrics(after)
    if first is None or last is None or first.steps is None or last.steps is None:
        return None
    steps = last.steps - first.steps
    drafts, drafted, accepted = (_grown(first, last, key) for key in ("drafts", "drafted", "accepted"))
    if min(steps, drafts, drafted, accepted) < 0:
        return None
    emitted = _grown(first, last, "output") - _grown(first, last, "firsts")
    earlier = first.per_position or (0,) * len(last.per_position)
    grown = [now - then for then, now in zip(earlier, last.per_position, strict=False)]
    return Window(
        steps,
        drafts,
        drafted,
        accepted,
        emitted / steps if steps else None,
        1 + accepted / drafts if drafts else None,
        _positions(grown, drafts, drafted),
    )


def _grown(first: Metrics, last: Metrics, key: str) -> int:
    return last.totals.get(key, 0) - first.totals.get(key, 0)


def _positions(accepted: list[int], drafts: int, drafted: int) -> tuple[tuple[float, float], ...]:
    """Bounds from: position 1 is drafted in every draft, later positions never more often than earlier ones, all
    together make the drafted tokens, and what was accepted was drafted."""
    if not drafts:
        return ()
    depth = len(accepted)
    found: list[tuple[float, float]] = []
    for before, tokens in enumerate(accepted):
        least = max((drafted - before * drafts) / (depth - before), tokens, 0)
        found.append((tokens / drafts, min(1.0, tokens / least) if least else 0.0))
    return tuple(found)


def acceptance_from_metrics(metrics: Mapping[str, object]) -> PerRequest | None:
    """Reads `metrics` of an answer (--per-request-spec-decode-metrics, 0.32 and later); None where the request was not
    speculated or the server does not tell."""
    told = metrics.get("speculative_decoding")
    if not isinstance(told, Mapping):
        return None
    drafts, drafted, accepted = (
        count(told.get(key)) for key in ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
    )
    if drafts is None or drafted is None or accepted is None or drafts < 1:
        return None
    listed = told.get("acceptance_histogram")
    counts = [count(value) for value in listed] if isinstance(listed, list) and len(listed) <= _LONGEST else []
    histogram = [number for number in counts if number is not None]
    whole = len(histogram) == len(counts) and sum(histogram) == drafts
    return PerRequest(drafts, drafted, accepted, at_least(histogram) if whole else ())
