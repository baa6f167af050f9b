"""Tables of outcomes as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.search.simulate import Outcome

WITHIN = 0.02
BUDGETS = (3, 5, 8)
RESAMPLES = 1000

Found = Mapping[tuple[float, str], Mapping[str, Sequence[Outcome]]]
"""(noise, strategy) -> surface -> outcomes."""


def summary(found: Found) -> Iterator[str]:
    """One line a noise and strategy. Intervals are 95 %, by bootstrap over campaigns within each surface."""
    needed_heads = "campaigns | launches to within 2 %: median | p95 | never"
    yield f"| noise | strategy | {needed_heads} | {_regret_heads()} | launches in all |"
    yield "| --- | --- | --- | --- | --- | --- | " + "--- | " * len(BUDGETS) + "--- |"
    for (noise, name), table in found.items():
        outcomes = [outcome for of_surface in table.values() for outcome in of_surface]
        needed = _needed(outcomes)
        never = 100 * float(np.isinf(needed).mean())
        regrets = " | ".join(_mean([[100 * o.after(n) for o in some] for some in table.values()]) for n in BUDGETS)
        spent = _mean([[len(o.regrets) - 1.0 for o in some] for some in table.values()])
        median, high = quantiles(needed)
        counted = f"{len(outcomes)} | {median:g} | {high:g} | {never:.1f} %"
        yield f"| {100 * noise:g} % | {name} | {counted} | {regrets} | {spent} |"


def each(found: Found) -> Iterator[str]:
    """One line a surface, noise and strategy."""
    yield "| surface | noise | strategy | median launches | p95 | never | " + _regret_heads() + " |"
    yield "| --- | --- | --- | --- | --- | --- | " + "--- | " * len(BUDGETS)
    for surface in dict.fromkeys(surface for table in found.values() for surface in table):
        for (noise, name), table in found.items():
            outcomes = table.get(surface, ())
            if not outcomes:
                continue
            needed = _needed(outcomes)
            median, high = quantiles(needed)
            regrets = " | ".join(f"{np.mean([100 * o.after(n) for o in outcomes]):.1f}" for n in BUDGETS)
            never = 100 * float(np.isinf(needed).mean())
            yield f"| {surface} | {100 * noise:g} % | {name} | {median:g} | {high:g} | {never:.1f} % | {regrets} |"


def _regret_heads() -> str:
    return " | ".join(f"regret after {n}, %" for n in BUDGETS)


def _needed(outcomes: Sequence[Outcome]) -> NDArray[np.float64]:
    """Launches each campaign needed; infinite where it never got there."""
    found = (outcome.launches_to(WITHIN) for outcome in outcomes)
    return np.array([np.inf if needed is None else float(needed) for needed in found])


def quantiles(needed: NDArray[np.float64]) -> tuple[float, float]:
    median, high = (float(np.quantile(needed, q, method="higher")) for q in (0.5, 0.95))
    return median, high


def _mean(by_surface: Sequence[Sequence[float]]) -> str:
    """Mean over all values. Surfaces are given, not drawn: only campaigns are resampled, within their surface."""
    rng = np.random.default_rng(0)
    values = [np.array(some) for some in by_surface]
    sums = sum(some[rng.integers(0, len(some), (RESAMPLES, len(some)))].sum(axis=1) for some in values)
    count = sum(map(len, values))
    low, high = np.quantile(np.asarray(sums) / count, (0.025, 0.975))
    return f"{sum(some.sum() for some in values) / count:.2f} ({low:.2f} to {high:.2f})"
