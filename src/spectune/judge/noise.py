"""How much this machine scatters: from deployment to deployment, and with time.

Repeated trials of one candidate differ by the deviations of two deployments and by the drift between them; successive
pairs of a confirmation by those of four. Both standard deviations have weak priors (half-Cauchy, Gelman 2006), so that
two baselines that agree by luck do not promise a precision that the third one breaks. What slows a machine for a minute
slows both servers of a pair that is measured side by side: a share of the deviation is common to the two, and how much
is learnt from how pairs move together. The joint posterior of the three is computed on a grid. A difference of log
speeds then has variance
V = within + tau^2 * (deployments + share * shared) + extra * deployments + drift * gap for each grid point; the mixture
over V is Student's t when V is scaled inverse chi-squared, which is matched by the first two moments of 1/V.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtr, stdtrit

from spectune.domain.estimate import Ratio
from spectune.judge.contrast import Gain
from spectune.judge.links import Link, links
from spectune.judge.table import Floats, Table

DEPLOYMENT_SD = 0.025
"""Prior median of the standard deviation of one deployment, log speed: a bit more than is expected of it, as Gelman
(2006) advises, so that machines noisier than usual (1.5 %) are covered as well."""

DRIFT_SD, DRIFT_S = 0.03, 600.0
"""Prior median of the drift's standard deviation, log speed, in so many seconds; heavy-tailed, as laptops drift by a
quarter."""

SLICE_SD, SLICE_DF = 0.01, 3.0
"""Prior of what a slice scatters beyond the overall speed of its deployment."""

_TAUS: Floats = np.geomspace(0.001, 0.3, 26)
_DRIFTS: Floats = np.geomspace(0.001, 0.6, 24)
_SHARES: Floats = 1 - np.geomspace(1.0, 0.002, 10)
"""Common share of the deviations of two servers side by side; even in the log of what is left, but for APART_WEIGHT."""

APART_WEIGHT = 0.35
"""Prior density grows as (1 - share) to this power, so that two pairs that agree by luck are not taken for twins: with
it, intervals of 95 % held the truth in 93 to 100 % of simulated confirmations, with 0 in 82 to 99 %."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Posterior of the machine's scatter.

    Attributes:
        tau2: variances of a deployment's deviation, one a grid point.
        drift: drift variances per second, one a grid point.
        probability: of the grid points.
        timing: variance of one trial's overall log speed from repeating the same requests.
        extra: kind of slice ("cell", "domain", "both") -> variance of a deployment's deviation beyond tau2.
        repeats: differences of repeated trials behind it; 0 means that only the prior speaks.
        share: of tau2 that two deployments side by side have in common, one a grid point.
    """

    tau2: Floats
    drift: Floats
    probability: Floats
    timing: float = 0.0
    extra: Mapping[str, float] = field(default_factory=dict)
    repeats: int = 0
    share: Floats = field(default_factory=lambda: np.zeros(1))

    @property
    def tau(self) -> float:
        """Standard deviation between deployments, log speed; the geometric mean of the posterior."""
        return math.exp(float(self.probability @ np.log(self.tau2)) / 2)

    @property
    def drift_rate(self) -> float:
        """Drift variance per second; the geometric mean of the posterior."""
        return math.exp(float(self.probability @ np.log(self.drift)))

    @property
    def common(self) -> float:
        """Part of a deployment's variance that it shares with one side by side; geometric mean of the posterior."""
        return self.tau**2 - self._apart

    @property
    def own(self) -> float:
        """The other part, with what repeating the same requests scatters."""
        return self._apart + self.timing

    @property
    def _apart(self) -> float:
        return math.exp(float(self.probability @ np.log(self.tau2 * (1 - self.share))))

    def between(self, gain: Gain) -> float:
        """Variance of a gain from the deviations of its deployments, at the posterior's middle."""
        return self.tau**2 * gain.deployments + self.common * gain.shared

    def spread(self, gain: Gain, kind: str = "") -> tuple[float, float]:
        """Scale and degrees of freedom of the t distribution of a gain; (inf, 1) where the scatter is unknown."""
        if not math.isfinite(gain.within):
            return math.inf, 1.0
        deviations = self.tau2 * (gain.deployments + self.share * gain.shared)
        variance = gain.within + deviations + self.extra.get(kind, 0.0) * gain.deployments + self.drift * gain.gap_s
        precision = 1 / variance
        mean = float(self.probability @ precision)
        scatter = float(self.probability @ (precision - mean) ** 2)
        inverse_df = scatter / (2 * mean**2) + (gain.within * mean) ** 2 / max(gain.within_df, 1e-9)
        return math.sqrt(1 / mean), min(1e6, 1 / inverse_df) if inverse_df > 0 else 1e6

    def ratio(self, gain: Gain, confidence: float, kind: str = "") -> Ratio:
        """The speed ratio with its interval; 0 to inf where the scatter is unknown."""
        scale, df = self.spread(gain, kind)
        if math.isinf(scale):
            return Ratio(math.exp(gain.log), 0.0, math.inf, gain.prompts, confidence)
        half = scale * float(stdtrit(df, (1 + confidence) / 2))
        return Ratio(math.exp(gain.log), _exp(gain.log - half), _exp(gain.log + half), gain.prompts, confidence)

    def p_value(self, gain: Gain, kind: str = "") -> float:
        """Two-sided, against equal speed; 1 where the scatter is unknown."""
        scale, df = self.spread(gain, kind)
        return 1.0 if math.isinf(scale) else 2 * float(stdtr(df, -abs(gain.log) / scale))


def kind_of(cell: str, domain: str) -> str:
    """Kind of a slice, as in `Noise.extra`."""
    return {(True, True): "both", (True, False): "cell", (False, True): "domain"}.get((bool(cell), bool(domain)), "")


def noise_of(table: Table) -> Noise:
    """The posterior given all repeated trials of a table."""
    found = tuple(links(table))
    repeated = [link.within / 2 for link in found if link.is_repeated and math.isfinite(link.within)]
    timing = float(np.mean(repeated)) if repeated else 0.0
    shares = _SHARES if table.together.any() else np.zeros(1)
    tau2, drift, share = (axis.ravel() for axis in np.meshgrid(_TAUS**2, _DRIFTS**2 / DRIFT_S, shares, indexing="ij"))
    log = _log_prior(tau2, DEPLOYMENT_SD**2) + _log_prior(drift, DRIFT_SD**2 / DRIFT_S)
    log = log + APART_WEIGHT * np.log1p(-share)
    if found:
        log = log + _log_likelihood(found, table, timing, tau2 * (1 - share), tau2 * share, drift)
    probability = np.exp(log - log.max())
    extra = {kind: _extra(found, table, kind) for kind in ("cell", "domain", "both")}
    return Noise(tau2, drift, probability / probability.sum(), timing, extra, len(found), share)


def _log_prior(variance: Floats, scale: float) -> Floats:
    """Half-Cauchy of the standard deviation with the median sqrt(scale), as a density of the log of the variance (the
    grid is even in the log).

    An inverse chi-squared prior, however weak, forbids a variance well below its scale, so that where the scatter of
    the prompts hides that of the deployments, a quiet machine is taken for an average one (Gelman 2006).
    """
    density: Floats = np.log(variance) / 2 - np.log1p(variance / scale)
    return density


def _log_likelihood(
    found: Sequence[Link], table: Table, timing: float, own: Floats, common: Floats, drift: Floats
) -> Floats:
    """Of all differences jointly: neighbours share a deployment, pairs side by side what is common to them,
    overlapping ones drift."""
    step = np.zeros((len(found), len(table.trials)))
    for index, link in enumerate(found):
        step[index, list(link.step)] = list(link.step.values())
    since = table.times - table.times.min()
    requests = np.array([_of_requests(found, row, timing) for row in range(len(table.trials))])
    alone = step @ step.T
    beside = alone + step @ table.together @ step.T
    drifting = step @ np.minimum(since[:, None], since[None, :]) @ step.T
    parts = ((np.ones_like(own), (step * requests) @ step.T), (own, alone), (common, beside), (drift, drifting))
    covariance = sum((size[:, None, None] * shape for size, shape in parts), start=np.zeros((1, 1, 1)))
    logs = np.array([link.log for link in found])
    solved = np.linalg.solve(covariance, np.broadcast_to(logs[:, None], (len(own), len(logs), 1)))[..., 0]
    likelihood: Floats = -0.5 * (np.linalg.slogdet(covariance)[1] + solved @ logs)
    return likelihood


def _of_requests(found: Sequence[Link], row: int, timing: float) -> float:
    """Variance of a trial's part in the differences from its requests: what they scatter when they are repeated, and
    with prompts of its own what a candidate does to each of them, too."""
    own = [link.within / len(link.step) for link in found if row in link.step and not link.is_repeated]
    own = [variance for variance in own if math.isfinite(variance)]
    return float(np.mean(own)) if own else timing


def _extra(found: Sequence[Link], table: Table, kind: str) -> float:
    """Variance of a slice's deviation beyond the overall one, by moments, shrunk towards its prior."""
    squares: list[float] = []
    for link in found:
        cells, domains, means, variances = link.slices
        weight = np.ones(len(means))
        if kind == "domain":
            weight = np.array([table.weights.get(table.cells[cell], 0.0) for cell in cells], dtype=np.float64)
        group = {"cell": cells, "domain": domains, "both": np.arange(len(means))}[kind]
        total = np.bincount(group, weight)
        heard = total > 0
        mean = np.bincount(group, weight * means)[heard] / total[heard]
        variance = np.bincount(group, weight**2 * variances)[heard] / total[heard] ** 2
        square = ((mean - link.log) ** 2 - variance) / len(link.step)
        squares += [float(value) for value in square[np.isfinite(square)]]
    return max(0.0, (SLICE_DF * SLICE_SD**2 + sum(squares)) / (SLICE_DF + len(squares)))


def _exp(log: float) -> float:
    return math.exp(log) if log < 700 else math.inf
