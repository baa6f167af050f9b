"""Whole campaigns on a real llama-server."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable

import pytest

from spectune.domain.errors import SpectuneError
from spectune.domain.trial import Purpose, Trial, TrialState
from tests.end_to_end.conftest import Campaign, Desk

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]


def test_a_campaign_ends_with_an_answer_and_a_report(desk: Desk, campaign: Campaign) -> None:
    campaign()
    ended = desk.run("run", "campaign.yaml", "--json")
    assert ended.returncode in {0, 1}, ended.stderr
    report = json.loads(ended.stdout)
    history = desk.history()
    assert history.conclusion is not None
    # Drafts of a random model cost time and are never accepted: they must not win.
    assert history.conclusion.changed is False
    assert [trial.purpose for trial in history.ordered[:3]] == [Purpose.BASELINE, Purpose.BASELINE, Purpose.EXPLORE]
    explored = [trial for trial in history.ordered if trial.purpose is Purpose.EXPLORE]
    for trial in explored:
        assert trial.deployment is not None
        assert trial.deployment.seen.speculating
        assert trial.deployment.seen.depth == trial.candidate.speculation.depth
    assert all(len(trial.cells) == 2 for trial in history.ordered)
    assert report["campaign"].startswith("tiny-")
    page = next(desk.runs.glob("*.html")).read_text()
    assert "tiny" in page
    assert not desk.servers()


def test_killed_at_any_moment_it_goes_on_and_leaves_nothing(desk: Desk, campaign: Campaign) -> None:
    campaign()
    for finished in (0, 2):
        run = desk.start("run", "campaign.yaml")
        wait_for_trials(desk, finished)
        wait_for_server(desk)
        run.send_signal(signal.SIGKILL)
        run.wait()
        until_gone(desk)
    last = desk.run("run", "campaign.yaml")
    assert last.returncode in {0, 1}, last.stderr
    history = desk.history()
    numbers = [trial.number for trial in history.ordered]
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(trial.state is not TrialState.RUNNING for trial in history.ordered)
    assert history.resumed == 2
    assert not desk.servers()


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(desk: Desk, campaign: Campaign, times: int) -> None:
    campaign(budget__trials=2)
    run = desk.start("run", "campaign.yaml")
    wait_for_server(desk)
    for _ in range(times):
        run.send_signal(signal.SIGINT)
        time.sleep(0.1)
    _, err = run.communicate(timeout=100)
    assert run.returncode == 130
    assert "goes on from here" in err or times == 2
    assert "Traceback" not in err
    until_gone(desk)
    ended = desk.run("run", "campaign.yaml")
    assert ended.returncode in {0, 1}
    assert re.search(r"Going on (after trial \d|with an interrupted run)", ended.stderr)
    assert all(trial.state is not TrialState.RUNNING for trial in desk.history().ordered)


def test_a_server_that_dies_while_measured_makes_the_trial_invalid(desk: Desk, campaign: Campaign) -> None:
    campaign(budget__cell_seconds=3.0)
    run = desk.start("run", "campaign.yaml")
    wait_until(lambda: any(trial.probes for trial in trials(desk)), "nothing was measured")
    for server in desk.servers():
        server.kill()
    _, err = run.communicate(timeout=100)
    assert run.returncode == 3
    assert "died" in err or "stopped answering" in err
    trial = desk.history().ordered[0]
    assert trial.state is TrialState.INVALID
    assert not desk.servers()


def test_simulated_acceptance_is_marked_and_never_wins(desk: Desk, campaign: Campaign) -> None:
    campaign(
        service__args={"threads": 1, "ctx-size": 2048, "parallel": 2, "spec-synth-rates": "0.95,0.9"},
        search__speculation=[{"method": "draft", "depths": [2], "draft_model": str(desk.folder / "draft.gguf")}],
    )
    ended = desk.run("run", "campaign.yaml")
    assert ended.returncode in {0, 1}, ended.stderr
    history = desk.history()
    explored = [trial for trial in history.ordered if trial.purpose is Purpose.EXPLORE]
    assert explored
    assert all(trial.deployment and trial.deployment.seen.invalid_output for trial in explored)
    assert history.conclusion is not None
    assert history.conclusion.changed is False
    assert "simulated" in ended.stdout + ended.stderr


def wait_until(condition: Callable[[], object], failing: str) -> None:
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end, failing
        time.sleep(0.05)


def wait_for_server(desk: Desk) -> None:
    wait_until(desk.servers, "no server was started")


def wait_for_trials(desk: Desk, count: int) -> None:
    """Until so many trials are over, seen by a reader beside the writer."""
    wait_until(lambda: sum(trial.ended_at is not None for trial in trials(desk)) >= count, f"never {count} trials")


def trials(desk: Desk) -> tuple[Trial, ...]:
    try:
        return desk.history().ordered
    except SpectuneError:  # there is no ledger yet, or no campaign in it
        return ()


def until_gone(desk: Desk) -> None:
    wait_until(lambda: not desk.servers(), f"left behind: {desk.servers()}")
