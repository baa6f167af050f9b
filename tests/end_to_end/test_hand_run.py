"""The campaign that was first done by hand, on the simulated SGLang: the published figures, and fewer restarts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from spectune.domain.metrics import MetricName
from spectune.domain.trial import Purpose, TrialState
from tests.end_to_end.conftest import Desk

EXAMPLE = Path(__file__).parents[2] / "examples" / "hand-run.yaml"
PUBLISHED = {1: (123, 1582, 26, 455_357), 2: (186, 1844, 21, 377_207), 3: (234, None, 17, None)}
"""Steps -> tok/s of one user, of 64 users together, requests at a time, KV tokens."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_hand_run_campaign(desk: Desk) -> None:
    document = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    document["service"]["env"]["SPECTUNE_SIM_LOAD_SECONDS"] = "0"
    document["search"]["strategy"] = "staged"
    document["budget"] |= {"cell_seconds": 1.5, "confirm_pairs": 1}
    desk.write(document)
    done = desk.start("run", str(desk.file))
    out, err = done.communicate(timeout=280)
    assert done.returncode == 0, err
    history = desk.history()
    depths = [t.candidate.speculation.depth for t in history.ordered if t.purpose is Purpose.EXPLORE]
    assert depths[:2] == [2, 3]
    by_depth = {
        t.candidate.speculation.depth: t for t in reversed(history.ordered) if t.state is not TrialState.INVALID
    }
    for depth, (one, all_together, running, tokens) in PUBLISHED.items():
        trial = by_depth[depth]
        speeds = {key: cell.measurement.metrics for key, cell in trial.cells.items()}
        assert speeds["c1 T0"][MetricName.PER_USER_SPEED].value == pytest.approx(one, rel=0.06)
        if all_together is not None:
            assert speeds["c64 T0"][MetricName.AGGREGATE_SPEED].value == pytest.approx(all_together, rel=0.1)
        assert trial.deployment is not None
        room = trial.deployment.seen.capacity
        assert room.max_running == running
        assert tokens in (None, room.kv_tokens)
    assert history.conclusion is not None
    assert history.conclusion.changed
    winner = history.candidates[history.conclusion.winner or ""]
    assert winner.speculation.depth >= 3
    assert "Simulated" in out
    assert desk.servers() == []
