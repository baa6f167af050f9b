"""The simulated engine without a server: its gains are what they are said to be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.judge.machine import BASELINE, candidate
from bench.judge.power import DEPTHS, on_engine
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose, Trial

TRIALS = 12


def mean_log_speed(trial: Trial) -> float:
    """Over cells and kinds of text, each alike."""
    found: dict[tuple[str, str], list[float]] = {}
    for key, cell in trial.cells.items():
        for record in cell.records:
            assert record.speed_tok_s
            found.setdefault((key, record.domain), []).append(math.log(record.speed_tok_s))
    return float(np.mean([np.mean(logs) for logs in found.values()]))


@pytest.mark.parametrize(("depth", "gain"), [(2, -0.03), (3, math.log1p(0.03)), (4, -0.03)])
def test_a_candidate_gains_what_it_shall(depth: int, gain: float) -> None:
    assert depth in DEPTHS
    machine = on_engine(CampaignSpec("gain"), 0.0, 0.03, np.random.default_rng(depth), "dense-8b-eagle3")
    logs = {
        tried.id: np.mean([mean_log_speed(machine.measure(tried, Purpose.EXPLORE)) for _ in range(TRIALS)])
        for tried in (BASELINE, candidate(depth))
    }
    assert logs[candidate(depth).id] - logs[BASELINE.id] == pytest.approx(gain, abs=0.006)


def test_equals_are_equal() -> None:
    machine = on_engine(CampaignSpec("none"), 0.0, None, np.random.default_rng(1), "dense-8b-eagle3")
    first, second = (
        np.mean([mean_log_speed(machine.measure(tried, Purpose.EXPLORE)) for _ in range(TRIALS)])
        for tried in (BASELINE, candidate(4))
    )
    assert second - first == pytest.approx(0, abs=0.006)


def test_a_cell_holds_as_many_requests_as_it_has_time_for() -> None:
    machine = on_engine(CampaignSpec("time"), 0.0, None, np.random.default_rng(1), "dense-8b-eagle3")
    trial = machine.measure(BASELINE, Purpose.BASELINE)
    for cell in trial.cells.values():
        users = cell.measurement.cell.level.users
        busy = sum((r.last_ns - r.first_ns) / 1e9 for r in cell.records if r.last_ns and r.first_ns is not None)
        assert 0.8 * 30 * users < busy <= 30 * users
