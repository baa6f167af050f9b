from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Measurement, Outcome
from spectune.domain.metrics import MetricName
from spectune.domain.workload import Level, Sampling
from spectune.report.bench_flattery import flattery
from spectune.report.bench_flattery_view import flattery_report, render_flattery_json
from tests.support.bench_runs import cell

FLATTERED = Sampling(0.0, ignore_eos=True)


def flattering(speed: float, users: int = 1, accepted: int | None = 2500) -> Measurement:
    return cell(speed, Level(users), FLATTERED, accepted=accepted).measurement


def asked(speed: float, users: int = 1, accepted: int | None = 800, temperature: float | None = None) -> Measurement:
    return cell(speed, Level(users), Sampling(temperature), accepted=accepted).measurement


def test_speed_and_drafts_stand_side_by_side() -> None:
    found = flattery([flattering(100.0), flattering(60.0, 4)], [asked(50.0), asked(40.0, 4)])
    one, four = found.levels
    assert (one.level, four.level) == ("1 user", "4 users")
    assert one.flattering is not None
    assert one.asked is not None
    assert (one.flattering.value, one.asked.value) == pytest.approx((100, 50))
    assert one.ratio is not None
    assert one.ratio.value == pytest.approx(2)
    # Each half-width is 2 %: the log of the ratio has sqrt(2) times as much.
    assert one.ratio.low == pytest.approx(2 * math.exp(-0.02 * math.sqrt(2)), rel=1e-3)
    assert (one.flattering_length, one.asked_length) == (3.5, 1.8)
    assert one.length_ratio == pytest.approx(3.5 / 1.8)


def test_every_temperature_of_a_level_is_set_against_its_flattering_cell() -> None:
    found = flattery([flattering(100.0)], [asked(50.0), asked(45.0, temperature=0.7), asked(45.0, users=9)])
    assert [level.cell for level in found.levels] == ["1 user, model's own sampling", "1 user, temperature 0.7"]


UNKNOWN = replace(asked(50.0), metrics={MetricName.PER_USER_SPEED: Estimate(50, -math.inf, math.inf, 1)})
NO_SPEED = replace(asked(50.0), metrics={})
MEANINGS = {
    "it flatters everywhere": ([flattering(100)], [asked(50)], "at every level, up to 2.00 times (1.94 to 2.06"),
    "it flatters somewhere": (
        [flattering(100), flattering(50, 4)], [asked(50), asked(50, 4)], "at 1 of 2 levels, up to 2.00 times"),
    "it does not": ([flattering(50)], [asked(50)], "No difference is shown"),
    "the other way round": ([flattering(40)], [asked(50)], "does not flatter here"),
    "without drafts": ([flattering(100, accepted=None)], [asked(50, accepted=None)], "tells of no drafts"),
    "unknown spread": ([flattering(100)], [UNKNOWN], "measure longer"),
    "no speed": ([flattering(100)], [NO_SPEED], "measure longer"),
    "nothing": ([], [], "measure longer"),
}  # fmt: skip


@pytest.mark.parametrize("case", MEANINGS)
def test_one_sentence_says_what_it_means(case: str) -> None:
    flatters, mine, words = MEANINGS[case]
    meaning = flattery(flatters, mine).meaning
    assert words in meaning
    assert meaning.endswith(".")


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_and_tells_failures(width: int) -> None:
    failed = replace(flattering(100), requests={Outcome.OK: 5, Outcome.HTTP_ERROR: 3})
    found = flattery([failed, flattering(123.4, 16)], [asked(50), asked(61.7, 16, temperature=0.7), UNKNOWN])
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    parts = flattery_report(found)
    console.print(parts[1])
    assert max(cell_len(line) for line in out.getvalue().splitlines()) <= width
    assert "2.00 (1.94 to 2.06)" in " ".join(out.getvalue().split())
    assert "1 user, model's own sampling: 3 flattering and 0 of your requests failed" in map(str, parts)


def test_json_holds_it_all() -> None:
    document = json.loads(render_flattery_json(flattery([flattering(100)], [asked(50)])))
    assert document["levels"][0]["ratio"]["value"] == pytest.approx(2)
    assert document["meaning"].startswith("The flattering test")
