"""Comparisons of candidates over a set of trials, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spectune.domain.estimate import Ratio
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Trial
from spectune.domain.verdict import Effect
from spectune.judge.contrast import Contrast, Gain, contrast
from spectune.judge.noise import Noise, kind_of, noise_of
from spectune.judge.stalls import without_stalls
from spectune.judge.table import Table

_THIS = "this trial"

ENOUGH_PAIRS, FIXED = 2, 1e3
"""From so many pairs side by side on, their differences alone count: what else was measured of either was measured on a
machine at another speed, by an amount that a few trials tell badly. FIXED is the common variance that says so."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One candidate against another."""

    contrast: Contrast
    noise: Noise

    def gain(self, cell: str = "", domain: str = "") -> Gain | None:
        return self.contrast.gain((cell,) if cell else (), domain)

    def ratio(self, confidence: float, cell: str = "", domain: str = "") -> Ratio | None:
        """The ratio in a slice; None without data."""
        gain = self.gain(cell, domain)
        return None if gain is None else self.noise.ratio(gain, confidence, kind_of(cell, domain))

    def ratio_over(self, cells: Collection[str], confidence: float) -> Ratio | None:
        """The ratio over several cells, equally weighted; None without data."""
        gain = self.contrast.gain(cells)
        return None if gain is None else self.noise.ratio(gain, confidence, "cell")

    def effects(self, confidence: float) -> tuple[Effect, ...]:
        """All slices that have data: overall, by domain, by cell, by both."""
        found = ((cell, domain, self.ratio(confidence, cell, domain)) for cell, domain in slices(self.contrast.table))
        return tuple(Effect(cell, domain, ratio) for cell, domain, ratio in found if ratio is not None)

    def more_pairs(self, confidence: float, min_gain: float, done: int) -> int | None:
        """Further interleaved pairs after which a difference of the size seen could be told, from zero where it is
        worth having, else from one worth having; None where more prompts would be needed, or over 100 pairs."""
        gain = self.gain()
        if gain is None or not math.isfinite(gain.within):
            return None
        noise, worth = self.noise, math.log1p(min_gain)
        goal = abs(gain.log) if abs(gain.log) >= worth else worth - abs(gain.log)
        repeated = noise.timing * gain.deployments if self.contrast.is_repeated else gain.within
        shrinking = repeated + noise.between(gain) + noise.drift_rate * gain.gap_s
        fixed = max(0.0, gain.within - repeated)
        scale, _ = noise.spread(gain)
        reach = (math.log(noise.ratio(gain, confidence).high) - gain.log) / scale
        left = (goal / reach) ** 2 - fixed
        if left <= 0:
            return None
        needed = math.ceil(shrinking * max(1, done) / left)
        return max(1, needed - done) if needed <= 100 else None


@dataclass(frozen=True)
class Comparer:
    """Compares candidates over all trials given; what repeats among them tells the noise."""

    table: Table
    noise: Noise
    _known: dict[tuple[str, str], Comparison | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, spec: CampaignSpec, trials: Iterable[Trial]) -> Comparer:
        table = usable(spec, trials)
        return cls(table, noise_of(table))

    def has(self, candidate: str) -> bool:
        """Whether any usable value of a candidate is there."""
        return candidate in self.table.ids

    def compare(self, candidate: str, reference: str) -> Comparison | None:
        """Over all trials of both; None where they share no prompt."""
        key = (candidate, reference)
        if key not in self._known:
            self._known[key] = self._contrast(candidate, reference, self.table.ids)
        return self._known[key]

    def compare_in(self, candidate: str, reference: str, counts: Callable[[Trial], bool]) -> Comparison | None:
        """Over those trials alone that count."""
        rows = zip(self.table.trials, self.table.ids, strict=True)
        return self._contrast(candidate, reference, [identity if counts(trial) else "" for trial, identity in rows])

    def repeat(self, trial: Trial) -> Comparison | None:
        """A trial against the others of the same candidate."""
        rows = zip(self.table.trials, self.table.ids, strict=True)
        groups = [_THIS if other.number == trial.number else identity for other, identity in rows]
        return self._contrast(_THIS, trial.candidate.id, groups)

    def _contrast(self, plus: str, minus: str, groups: Sequence[str]) -> Comparison | None:
        helpful = [name if name in (plus, minus) or groups.count(name) > 1 else "" for name in groups]
        noise, common = self.noise, self.noise.common
        if self._pairs(groups, plus, minus) >= ENOUGH_PAIRS:
            common = FIXED
        found = contrast(self.table, helpful, plus, minus, noise.own, common, noise.drift_rate)
        return None if found is None else Comparison(found, self.noise)

    def _pairs(self, groups: Sequence[str], plus: str, minus: str) -> int:
        """Pairs of the two that were measured side by side."""
        ours, theirs = (np.array([group == side for group in groups], dtype=np.float64) for side in (plus, minus))
        return round(float(ours @ self.table.together @ theirs))


def usable(spec: CampaignSpec, trials: Iterable[Trial]) -> Table:
    """The table of trials with stalled requests pulled in."""
    table = Table.of(spec, trials)
    logs = without_stalls(table.logs, table.ids) if table.per_prompt else table.logs
    return replace(table, logs=logs)


def slices(table: Table) -> Iterator[tuple[str, str]]:
    """(cell, domain) of every slice, the widest first; "" is all."""
    domains = [domain for domain in table.domains if domain]
    yield "", ""
    yield from (("", domain) for domain in domains)
    yield from ((cell, "") for cell in table.cells)
    yield from ((cell, domain) for cell in table.cells for domain in domains)
