"""What the campaign measured, read from its ledger, and what was timed beside it."""

from __future__ import annotations

import json
import lzma
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Final

from bench.full_size.geometry import tokens_a_step
from spectune.assemble.ledgers import find_campaign, readable
from spectune.domain.candidate import Candidate
from spectune.domain.estimate import Estimate
from spectune.domain.history import History
from spectune.domain.trial import Trial

FORCED: Final = "env.SGLANG_SIMULATE_ACC_LEN"
SHARES: Final = (0.9, 0.6)
"""Probabilities of acceptance, the same at every drafted position, that the campaign forced in turn."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The fused expert kernels of one layer on one GPU. Times are in microseconds a call, weights cold."""

    tokens: int
    distinct: float
    default: float
    borrowed: float
    tuned: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Kernel time of so many steps of one server at one batch. Times are in microseconds."""

    steps: int
    span: float
    busy: float
    kernels: tuple[tuple[str, float, int], ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Attributes:
    history: the campaign.
    read_rate: bytes per second that one GPU was seen to read.
    profiles: setting (k0, k3, k0-tuned, ...) -> batch -> where its time went.
    """

    history: History
    read_rate: float
    kernels: tuple[Kernel, ...]
    profiles: Mapping[str, Mapping[int, Profile]]


def load(folder: Path) -> Evidence:
    """Raises OSError, ValueError where a file is missing or damaged, and LedgerError."""
    timed = json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as place:
        ledger = Path(place) / "ledger.sqlite"
        ledger.write_bytes(lzma.decompress((folder / "ledger.sqlite.xz").read_bytes()))
        with readable(Path(place)) as opened:
            _, history = find_campaign(opened, None)
    kernels = tuple(
        Kernel(int(tokens), row["experts"], row["default_us"], row["borrowed_us"], row["tuned_us"])
        for tokens, row in sorted(timed["kernels"].items(), key=lambda item: int(item[0]))
    )
    profiles = {
        setting: {int(batch): _profile(row) for batch, row in found.items() if isinstance(row, dict)}
        for setting, found in timed["profiles"].items()
    }
    return Evidence(history, 1e9 * timed["read_GB_s"], kernels, profiles)


def _profile(row: Mapping[str, object]) -> Profile:
    kernels = row["kernels"]
    assert isinstance(kernels, list)
    span, busy = (float(str(row[name])) for name in ("span_us", "busy_us"))
    return Profile(int(str(row["steps"])), span, busy, tuple((name, time, count) for name, time, count in kernels))


def log_sd(one: Estimate) -> float:
    """Standard deviation of an estimate's logarithm, as its interval tells."""
    return math.log(one.high / one.low) / 2 / NormalDist().inv_cdf((1 + one.confidence) / 2)


def share_of(candidate: Candidate) -> float | None:
    """Which acceptance was forced on a candidate; None without speculation."""
    forced = candidate.knobs.get(FORCED)
    if forced is None:
        return None
    depth = candidate.speculation.depth
    return min(SHARES, key=lambda share: abs(tokens_a_step(share, depth) - float(str(forced))))


def plain(candidate: Candidate) -> Candidate:
    """The candidate without the variable that forces its acceptance: what a user would have tried."""
    return replace(candidate, knobs={name: value for name, value in candidate.knobs.items() if name != FORCED})


def series(history: History, share: float) -> dict[int, list[Trial]]:
    """Depth -> usable trials under one acceptance, no speculation among them as depth 0; other settings as they are in
    the service."""
    found: dict[int, list[Trial]] = {}
    for trial in history.finished:
        forced = share_of(trial.candidate)
        if plain(trial.candidate).knobs or not trial.cells or forced not in (None, share):
            continue
        found.setdefault(trial.candidate.speculation.depth, []).append(trial)
    return dict(sorted(found.items()))
