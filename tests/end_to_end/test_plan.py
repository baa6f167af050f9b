"""`spectune plan` as a user runs it, on the simulated SGLang: it starts nothing, and a run takes along what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.end_to_end.conftest import Desk

EXAMPLE = Path(__file__).parents[2] / "examples" / "hand-run.yaml"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def document() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    found["service"]["env"]["SPECTUNE_SIM_LOAD_SECONDS"] = "0"
    found["search"]["speculation"][0]["depths"] = [1, 2, 3]
    found["budget"] |= {"cell_seconds": 1.0, "confirm_pairs": 0}
    return found


def test_with_nothing_measured_it_says_so_and_leaves_nothing_behind(desk: Desk, document: dict[str, Any]) -> None:
    desk.write(document)
    done = desk.call("plan", str(desk.file))
    assert done.returncode == 0, done.stderr
    assert "Nothing is measured yet" in done.stdout
    assert not desk.runs.exists()
    assert desk.servers() == []
    assert desk.call("plan", str(desk.file), "--prior", "nowhere").returncode == 2


def test_a_later_campaign_learns_from_the_earlier_one_and_says_so(desk: Desk, document: dict[str, Any]) -> None:
    desk.write(document)
    first = desk.run("run", str(desk.file))
    assert first.returncode in {0, 1}, first.stderr
    (earlier,) = (row["id"] for row in json.loads(desk.call("list", "--json").stdout))
    told = json.loads(desk.call("plan", str(desk.file), "--json").stdout)
    assert len(told["sources"]) == 1
    assert earlier in told["sources"][0]
    assert told["learned"]
    assert all(row["gain"] is not None for row in told["rows"])
    second = desk.run("run", str(desk.file))
    assert f"of campaign {earlier}; no result comes from it" in second.stderr
    assert f"of campaign {earlier}; no figure of this report" in " ".join(desk.call("show").stdout.split())
    assert desk.history().opened.priors[0].campaign == earlier
