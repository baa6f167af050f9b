"""Single requests that stalled, told from slow prompts by repeating them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectune.judge.table import Floats

REACH_SDS = 4.0
"""A repetition further than this from the others of its prompt is pulled in to it (Huber 1964)."""

FEWEST = 3
"""Trials of a candidate from which on the odd one out can be told."""


def without_stalls(logs: Floats, groups: Sequence[str]) -> Floats:
    """Log speeds (trials x prompts) with outliers among the repetitions of a prompt moved to the edge of the rest.

    Trials and prompts are fitted additively by medians (Tukey's median polish, 1977), so that neither a slow deployment
    nor a slow prompt counts as an outlier; only what one request did alone does. Candidates with fewer than three
    trials are left as they are.

    Args:
        groups: candidate of each row.
    """
    tamed = logs.copy()
    for group in dict.fromkeys(groups):
        rows = np.flatnonzero([other == group for other in groups])
        if len(rows) < FEWEST:
            continue
        columns = np.flatnonzero((~np.isnan(logs[rows])).sum(axis=0) >= FEWEST)
        if columns.size:
            block = np.ix_(rows, columns)
            tamed[block] = _tamed(logs[block])
    return tamed


def _tamed(values: Floats) -> Floats:
    trial = np.zeros((len(values), 1))
    for _ in range(2):
        prompt = np.nanmedian(values - trial, axis=0)
        apart = values - prompt
        known = ~np.isnan(apart).all(axis=1)
        trial[known] = np.nanmedian(apart[known], axis=1, keepdims=True)
    prompt = np.nanmedian(values - trial, axis=0)
    steps = np.diff(values - trial, axis=0)
    steps = steps[~np.isnan(steps)]
    # 1.4826 x the median absolute deviation is the standard deviation of a normal sample; a step has two deviations.
    reach = REACH_SDS * 1.4826 * float(np.median(np.abs(steps))) / np.sqrt(2) if steps.size else 0.0
    if reach == 0:
        return values
    fitted = prompt + trial
    pulled: Floats = fitted + np.clip(values - fitted, -reach, reach)
    return pulled
