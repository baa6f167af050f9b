"""Contrasts: one candidate against another, prompt by prompt, with the machine's drift taken out.

For each prompt the difference of log speeds is a weighted sum over trials. The weights are those of generalised least
squares (Aitken 1935) with one mean per candidate, a deviation per deployment, of which two measured side by side share
a part, and a Brownian drift of the machine. They interpolate between the neighbouring trials of a repeated candidate
where the machine drifts, average over all of them where it does not, and compare within pairs where these share much.
All trials of a prompt enter its one difference, so what a prompt does to a candidate every time it is asked is not
mistaken for something that repeating would average out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spectune.judge.table import Floats, Ints, Table

CLIP_SDS = 6.0
"""Differences further than this from their slice's median are pulled in to it (Huber 1964): one stalled request must
not decide a slice of five prompts. In the 13,439 differences of the campaigns in docs/evidence that moves no mean by
more than 0.2 %; at 4 it would be 1.6 % for n-grams, which gain much on few prompts."""

PRIOR_DF = 4.0
"""Weight of the variance pooled over all slices against that of a slice of its own (Smyth 2004)."""


FEW_DF = 8
"""Below so many degrees of freedom within slices, the scatter around the domains' means takes their place: with one
prompt a slice there are none at all, and with two or three the interval would span orders of magnitude."""


LEAST_DF = 2
"""With less, chance alone makes a scatter of nearly nothing: it counts as unknown."""


@dataclass(frozen=True, slots=True)
class Gain:
    """A mean difference of log speeds and what its uncertainty is made of.

    Attributes:
        log: mean difference; 0 is equal speed.
        prompts: paired prompts (for aggregate speed: cells) behind it.
        within: variance from the scatter over prompts; NaN where a single prompt tells nothing about scatter.
        within_df: degrees of freedom of `within`.
        deployments: sum of squared weights of the trials; multiplies the variance between deployments.
        shared: twice the sum of products of weights of trials side by side, negative where they are compared with each
            other; multiplies the part of that variance that they have in common.
        gap_s: seconds of free drift in the contrast; multiplies the drift variance per second.
    """

    log: float
    prompts: int
    within: float
    within_df: float
    deployments: float
    gap_s: float
    shared: float = 0.0


@dataclass(frozen=True)
class Contrast:
    """Differences plus - minus of each comparable prompt.

    Attributes:
        table: what was measured.
        used: indices of the columns that both sides have.
        values: differences of log speeds, outliers pulled in.
        weights: trials x used columns; each column sums to 0.
    """

    table: Table
    used: Ints
    values: Floats
    weights: Floats

    def gain(self, cells: Collection[str] = (), domain: str = "") -> Gain | None:
        """The mean difference of one slice; None without data. No cells: all of them under the objective's weights;
        otherwise the cells named, equally. Domain "": all, equally, so that none outvotes another by its number of
        prompts."""
        share = self._shares(cells, domain)
        if share is None:
            return None
        trial_weights = self.weights @ share
        gap = -0.5 * trial_weights @ self.table.lags @ trial_weights
        within, df = self._within(share)
        return Gain(
            float(self.values @ share),
            int(np.count_nonzero(share)),
            within,
            df,
            float(trial_weights @ trial_weights),
            max(0.0, float(gap)),
            float(trial_weights @ self.table.together @ trial_weights),
        )

    @property
    def is_repeated(self) -> bool:
        """Whether some prompt was asked in more than one trial of a side."""
        return bool(((self.weights > 0).sum(axis=0) > 1).any() or ((self.weights < 0).sum(axis=0) > 1).any())

    @property
    def empty_cells(self) -> tuple[str, ...]:
        """Cells that count under the objective and have nothing to compare."""
        present = {self.table.columns[index].cell for index in self.used}
        return tuple(cell for cell, weight in self.table.weights.items() if weight > 0 and cell not in present)

    def slice_means(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Cell index, domain index, mean difference and variance of the mean of every slice that has data."""
        slices = self._slice_of
        n = np.bincount(slices)
        first = np.unique(slices, return_index=True)[1]
        mean: Floats = np.bincount(slices, self.values) / n
        if self.table.per_prompt:
            variance: Floats = self._slice_variances[0] / n
        else:
            own = (self.weights**2 * self.table.variances[:, self.used]).sum(axis=0)
            variance = np.bincount(slices, own) / n**2
        used = self.used[first]
        return self.table.cell_of[used], self.table.domain_of[used], mean, variance

    @cached_property
    def _slice_of(self) -> Ints:
        """Used column -> number of its slice, 0 ... without holes."""
        pairs = self.table.cell_of[self.used] * len(self.table.domains) + self.table.domain_of[self.used]
        numbers: Ints = np.unique(pairs, return_inverse=True)[1].astype(np.intp)
        return numbers

    def _shares(self, named: Collection[str], domain: str) -> Floats | None:
        """Share of each used column in a slice; None where no column is in it."""
        cells, slices = self.table.cell_of[self.used], self._slice_of
        weight = np.array([cell in named if named else self.table.weights.get(cell, 0.0) for cell in self.table.cells])
        share = weight.astype(np.float64)[cells]
        if domain:
            wanted = self.table.domains.index(domain) if domain in self.table.domains else -1
            share[self.table.domain_of[self.used] != wanted] = 0.0
        counted = share > 0
        if not counted.any():
            return None
        prompts = np.bincount(slices[counted], minlength=slices.max() + 1)
        cell_of_slice = np.zeros(len(prompts), dtype=np.intp)
        cell_of_slice[slices] = cells
        domains = np.bincount(cell_of_slice[prompts > 0], minlength=cells.max() + 1)
        share = share / np.maximum(1, prompts[slices] * domains[cells])
        total: Floats = share / share.sum()
        return total

    @cached_property
    def _slice_variances(self) -> tuple[Floats, float]:
        """Variance of a difference in each slice, shrunk towards the pooled one; and the pooled degrees of freedom."""
        slices = self._slice_of
        n = np.bincount(slices)
        centre = np.bincount(slices, self.values) / n
        squares = np.bincount(slices, (self.values - centre[slices]) ** 2)
        total, df = float(squares.sum()), float((n - 1).sum())
        if df < FEW_DF:
            total, df = max((total, df), self._scatter_in_domains, key=lambda found: found[1])
        if df < LEAST_DF:
            return np.full(len(n), np.nan), 0.0
        prior = min(PRIOR_DF, df)
        return (prior * total / df + squares) / (prior + n - 1), df

    @property
    def _scatter_in_domains(self) -> tuple[float, float]:
        """Sum of squares around each domain's mean over all cells, and its degrees of freedom. What an effect truly
        differs between cells is in it, so it errs on the wide side."""
        domains = np.unique(self.table.domain_of[self.used], return_inverse=True)[1]
        n = np.bincount(domains)
        centre = np.bincount(domains, self.values) / n
        return float(((self.values - centre[domains]) ** 2).sum()), float((n - 1).sum())

    def _within(self, share: Floats) -> tuple[float, float]:
        if not self.table.per_prompt:
            own = (self.weights**2 * self.table.variances[:, self.used]).sum(axis=0)
            return float(own @ share**2), float("inf")
        variances, df = self._slice_variances
        if df == 0:
            return float("nan"), 0.0
        slices = self._slice_of
        parts = np.bincount(slices, share**2) * variances
        slice_df = min(PRIOR_DF, df) + np.bincount(slices) - 1
        total = float(parts.sum())
        # Welch (1947) and Satterthwaite (1946): degrees of freedom of a sum of variances.
        return total, total**2 / float((parts**2 / slice_df).sum()) if total > 0 else float("inf")


def contrast(
    table: Table,
    groups: Sequence[str],
    plus: str,
    minus: str,
    own: float = 1.0,
    common: float = 0.0,
    drift: float = 0.0,
) -> Contrast | None:
    """Compares two groups of trials over the prompts that both have; None where they share none.

    Args:
        groups: group of each row; "" leaves it out. Groups besides the two compared help to follow the drift.
        own: variance between deployments, scatter of repeated requests included, that two side by side do not share.
        common: variance between deployments that two side by side share.
        drift: variance of the machine's drift per second.
    """
    member = np.array([group != "" for group in groups], dtype=bool)
    present = ~np.isnan(table.logs) & member[:, None]
    pattern_of = _patterns(present[member])
    weights = np.zeros(table.logs.shape)
    for index, column in enumerate(np.unique(pattern_of, return_index=True)[1]):
        rows = np.flatnonzero(present[:, column])
        covariance = _covariance(table, rows, own, common, drift)
        solved = _weights([groups[int(row)] for row in rows], plus, minus, covariance)
        if solved is not None:
            weights[np.ix_(rows, np.flatnonzero(pattern_of == index))] = solved[:, None]
    used: Ints = np.flatnonzero(np.any(weights != 0, axis=0))
    if not used.size:
        return None
    weights = weights[:, used]
    values: Floats = (weights * np.nan_to_num(table.logs[:, used])).sum(axis=0)
    return Contrast(table, used, _pulled_in(values, table, used), weights)


def _patterns(present: NDArray[np.bool_]) -> Ints:
    """Column -> number of its pattern of rows, 0 ... without holes. Rows are read as digits, 32 at a time, since to
    sort whole columns takes longer than all else that a contrast needs."""
    found: Ints = np.zeros(present.shape[1], dtype=np.intp)
    for start in range(0, len(present), 32):
        digits = present[start : start + 32]
        key = (found << 32) + (1 << np.arange(len(digits))) @ digits
        found = np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.intp)
    return found


def _covariance(table: Table, rows: Ints, own: float, common: float, drift: float) -> Floats:
    """Of the deviations of some trials."""
    times = table.times[rows]
    since = times - times.min() if rows.size else times
    beside = np.eye(len(rows)) + table.together[np.ix_(rows, rows)]
    found: Floats = own * np.eye(len(rows)) + common * beside + drift * np.minimum(since[:, None], since[None, :])
    return found


def _weights(groups: Sequence[str], plus: str, minus: str, covariance: Floats) -> Floats | None:
    """Weights of the best linear unbiased estimate of mean(plus) - mean(minus); None where a side is missing."""
    names = sorted(set(groups))
    if plus not in names or minus not in names:
        return None
    design = np.array([[group == name for name in names] for group in groups], dtype=np.float64)
    solved = np.linalg.solve(covariance, design)
    asked = np.array([(name == plus) - (name == minus) for name in names], dtype=np.float64)
    weights: Floats = solved @ np.linalg.solve(design.T @ solved, asked)
    weights[np.abs(weights) < 1e-12] = 0.0
    return weights


def _pulled_in(values: Floats, table: Table, used: Ints) -> Floats:
    """Values with outliers moved to the reach around their slice's median; slices of one or two are left alone."""
    _, slices = np.unique(table.cell_of[used] * len(table.domains) + table.domain_of[used], return_inverse=True)
    n = np.bincount(slices)
    first = np.cumsum(n) - n
    ordered = values[np.lexsort((values, slices))]
    centre = ((ordered[first + (n - 1) // 2] + ordered[first + n // 2]) / 2)[slices]
    crowded = n[slices] >= 3
    if not crowded.any():
        return values
    # 1.4826 x the median absolute deviation is the standard deviation of a normal sample.
    reach = CLIP_SDS * 1.4826 * float(np.median(np.abs(values - centre)[crowded]))
    if reach == 0:
        return values
    return np.where(crowded, np.clip(values, centre - reach, centre + reach), values)
