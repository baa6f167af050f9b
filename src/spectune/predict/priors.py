"""Earlier campaigns in the fit: how much less they are worth than a trial of today, and when they are dropped.

Machines, versions and workloads drift, so what an earlier campaign measured is taken with more noise:

- All its speeds may lie off together, by SHIFT (log speed), alike at neighbouring loads. Two campaigns on the same H200
  host with the same versions and settings differ, baseline against baseline, by -33 to +19 % from level to level (root
  mean square 20 %; docs/search.md). Such a shift is the host's, and cancels out between candidates.
- A candidate may lie off against the others of its campaign, by DRIFT. Two deployments differ by 0.5 to 3 % on the
  machines of docs/statistics.md (1.5 % are usual); the rough ones are taken, since nobody repeats an old campaign. It
  is the deployment's, the same at every load, and no neighbour's.
- Each thing that is known to differ (another engine version, another workload) adds DIFFERENT, in squares.
- Acceptance may lie off by ACCEPTANCE (logit; 0.15 is about 3 points at 70 %), and by more for each difference.

The sum is a prior that is outweighed by a trial or two. Where what this campaign has measured itself contradicts one,
beyond what that much noise lets happen in one case of twenty, it is left out altogether: see `agrees`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.special import chdtrc

from spectune.domain.priors import Prior
from spectune.predict.fit import Floats
from spectune.predict.points import Speed

SHIFT, SHIFT_REACH = 0.2, 1.5
"""Of a whole campaign, and how far it reaches in ln(batch)."""

DRIFT, DIFFERENT = 0.03, 0.06
ACCEPTANCE, ACCEPTANCE_DIFFERENT = 0.15, 0.3
DEPTH_REACH: Final = 0.6
"""Half of what a difference does to a candidate it does to its family's depths so near in ln(1 + depth)."""

LEAST_LIKELY: Final = 0.05
"""A campaign whose speeds fit an earlier one worse than by chance in so many cases does without it."""


def drift(prior: Prior) -> float:
    """Log speed, one standard deviation, of a candidate against others of the same earlier campaign."""
    return math.hypot(DRIFT, *(DIFFERENT for _ in prior.differs))


def acceptance_drift(prior: Prior) -> float:
    """Logit, one standard deviation."""
    return math.hypot(ACCEPTANCE, *(ACCEPTANCE_DIFFERENT for _ in prior.differs))


def drifted(seen: Sequence[Speed]) -> Floats:
    """Covariance that speeds of earlier campaigns have beyond a measurement of today; zero for today's own."""
    own = np.array([speed.source == "" for speed in seen])
    if bool(own.all()):
        return np.zeros((len(seen), len(seen)))
    names = {name: i for i, name in enumerate({speed.source for speed in seen})}
    source = [names[speed.source] for speed in seen]
    same = np.equal.outer(source, source) & ~np.logical_or.outer(own, own)
    batch = [math.log(speed.point.batch) for speed in seen]
    depth = [math.log1p(speed.point.depth) for speed in seen]
    near = np.exp(-(np.subtract.outer(batch, batch) ** 2) / 2 / SHIFT_REACH**2)
    families = {family: i for i, family in enumerate({speed.point.family for speed in seen})}
    kind = [families[speed.point.family] for speed in seen]
    apart = np.subtract.outer(depth, depth)
    family = np.equal.outer(kind, kind)
    alike = family * (np.exp(-(apart**2) / 2 / DEPTH_REACH**2) + (apart == 0)) / 2
    sd = np.array([speed.drift for speed in seen])
    differing = np.maximum(0.0, np.multiply.outer(sd, sd) - DRIFT**2)
    found: Floats = same * (near * (SHIFT**2 + differing * alike) + DRIFT**2 * (family & (apart == 0)))
    return found


def agrees(off: Floats, covariance: Floats) -> bool:
    """Whether own speeds lie where an earlier campaign lets expect them (chi-squared test).

    Args:
        off: measured - expected, log speed.
        covariance: of `off`, the noise of measuring included.
    """
    if not len(off):
        return True
    square = float(off @ np.linalg.solve(covariance, off))
    return bool(chdtrc(len(off), max(0.0, square)) >= LEAST_LIKELY)
