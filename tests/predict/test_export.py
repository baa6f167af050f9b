from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Capacity, Deployment, Seen
from spectune.domain.estimate import Estimate
from spectune.domain.history import History
from spectune.domain.measurement import Acceptance, Doubt, Measurement
from spectune.domain.metrics import MetricName
from spectune.domain.trial import MeasuredCell, Purpose, Trial, TrialState
from spectune.domain.workload import Cell, Level, Sampling
from spectune.predict.export import acceptance_export, surface_csv
from tests.support.histories import opened

MTP2 = Candidate(Speculation(Method.MTP, 2))
ONE, FOUR = (Cell(Level(users), Sampling(0.0)) for users in (1, 4))


def measured(
    cell: Cell, acceptance: Acceptance | None = None, speed: float = 100.0, doubts: tuple[Doubt, ...] = ()
) -> Measurement:
    metrics = {MetricName.PER_USER_SPEED: Estimate(speed, speed - 1, speed + 1, 10)}
    return Measurement(cell, 0.0, 10.0, metrics, {}, {}, 1.0, acceptance=acceptance, doubts=doubts)


def trial(number: int, *cells: Measurement, candidate: Candidate = MTP2, invalid_output: str | None = None) -> Trial:
    seen = Seen(capacity=Capacity(kv_tokens=5000, max_running=8), invalid_output=invalid_output)
    deployment = Deployment((), {}, "http://127.0.0.1:1", 1, 0.0, 1.0, 0.0, seen)
    found = {part.cell.key: MeasuredCell(part, ()) for part in cells}
    return Trial(
        number,
        1,
        candidate,
        Purpose.EXPLORE,
        "",
        0.0,
        TrialState.VALID,
        deployment=deployment,
        cells=found,
        ended_at=1.0,
    )


def history(*trials: Trial, simulated: str = "") -> History:
    start = opened()
    start = replace(start, provenance=replace(start.provenance, simulated=simulated))
    return History(start, {part.number: part for part in trials})


def candidates(*trials: Trial) -> list[dict[str, object]]:
    found = acceptance_export(history(*trials))["candidates"]
    assert isinstance(found, list)
    return found


def test_accepted_tokens_a_step_are_pooled_over_trials_and_cells() -> None:
    first = measured(ONE, Acceptance(100, 200, 120, (0.8, 0.4)))
    second = measured(ONE, Acceptance(300, 600, 300, (0.6, 0.4)))
    (entry,) = candidates(trial(1, first, measured(FOUR, Acceptance(600, 1200, 600, (0.7, 0.3)))), trial(2, second))
    assert (entry["nextn"], entry["nextn_accepted"], entry["drafts"]) == (2, 1.02, 1000)
    assert entry["arguments"] == ["--nextn", "2", "--nextn-accepted", "1.02"]
    cells = entry["cells"]
    assert isinstance(cells, dict)
    assert cells["c1 T0"]["nextn_accepted"] == pytest.approx(420 / 400)
    # 260 of 400 drafts got past the first token, 160 of them past the second.
    assert cells["c1 T0"]["nextn_accept_rates"] == pytest.approx([0.65, 160 / 260])
    json.dumps(entry)


def test_rates_by_position_give_back_the_accepted_tokens() -> None:
    """Their running products sum to it, which is how the tool reads them."""
    (entry,) = candidates(trial(1, measured(ONE, Acceptance(100, 200, 120, (0.8, 0.4)))))
    rates = entry["nextn_accept_rates"]
    assert isinstance(rates, list)
    assert rates[0] + rates[0] * rates[1] == pytest.approx(entry["nextn_accepted"])


def test_without_positions_there_are_no_rates_by_position() -> None:
    (entry,) = candidates(trial(1, measured(ONE, Acceptance(100, 200, 120))))
    assert "nextn_accept_rates" not in entry


def test_a_draft_that_is_never_accepted_has_rates_of_nothing() -> None:
    (entry,) = candidates(trial(1, measured(ONE, Acceptance(100, 200, 0, (0.0, 0.0)))))
    assert entry["nextn_accept_rates"] == [0.0, 0.0]


@pytest.mark.parametrize(
    "left_out",
    [
        trial(1, measured(ONE)),
        trial(1, measured(ONE, Acceptance(0, 0, 0))),
        trial(1, measured(ONE, Acceptance(9, 18, 9), doubts=(Doubt("x", "", "", fatal=True),))),
        trial(1, measured(ONE, Acceptance(9, 18, 9)), invalid_output="acceptance is simulated"),
        trial(1, measured(ONE, Acceptance(9, 18, 9)), candidate=Candidate(Speculation(Method.NGRAM, 2))),
        trial(1, measured(ONE, Acceptance(9, 18, 9)), candidate=Candidate(Speculation(Method.MTP, 2, topk=4))),
        replace(trial(1, measured(ONE, Acceptance(9, 18, 9))), state=TrialState.INVALID),
    ],
)
def test_what_is_no_measured_chain_is_left_out(left_out: Trial) -> None:
    assert candidates(left_out) == []


def test_what_is_simulated_says_so() -> None:
    assert acceptance_export(history(simulated="llama.cpp simulator"))["simulated"] == "llama.cpp simulator"


def rows(campaign: History) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(surface_csv(campaign))))


def test_one_line_a_candidate_and_cell() -> None:
    drafts = Acceptance(100, 200, 120, (0.8, 0.4))
    plain = trial(1, measured(ONE), measured(FOUR, speed=60.0), candidate=Candidate())
    found = rows(history(plain, trial(2, measured(ONE, drafts, 150.0)), trial(3, measured(ONE, drafts, 170.0))))
    assert [(row["method"], row["depth"], row["cell"], row["trials"]) for row in found] == [
        ("none", "0", "c1 T0", "1"),
        ("none", "0", "c4 T0", "1"),
        ("mtp", "2", "c1 T0", "2"),
    ]
    last = found[-1]
    speeds = [last[f"per_user_tok_s{part} [tok/s]"] for part in ("", "_min", "_max")]
    assert speeds == ["160.0", "150.0", "170.0"]
    assert last["accept_length [tokens/step]"] == "2.2"
    assert (last["kv_tokens"], last["max_running_requests"], last["marks"]) == ("5000", "8", "")
    assert found[0]["accept_length [tokens/step]"] == found[0]["aggregate_tok_s [tok/s]"] == ""


def test_made_up_results_are_marked() -> None:
    campaign = history(trial(1, measured(ONE), invalid_output="dummy weights"), simulated="yes")
    assert rows(campaign)[0]["marks"] == "simulated invalid-output"


def test_fatal_doubts_and_failed_trials_have_no_line() -> None:
    doubted = measured(ONE, doubts=(Doubt("x", "", "", fatal=True),))
    failed = replace(trial(2, measured(ONE)), state=TrialState.INVALID)
    assert rows(history(trial(1, doubted), failed)) == []
