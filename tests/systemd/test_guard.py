"""Campaigns, promotions and undo on a real systemd over a real ssh."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.errors import HostError, InputError
from spectune.domain.service_state import Purpose, Winner
from tests.systemd.box import FAKE, PORT, PYTHON, Bench, fake_unit, whole_command
from tests.systemd.faults import Old, killed

pytestmark = pytest.mark.systemd

WINNER = Winner("demo-1", "abcd1234", "mtp k=2", "because")


def test_promoted_and_undone_byte_for_byte(bench: Bench) -> None:
    own = bench.box.start(bench.name)
    before = bench.box.files(bench.name)
    text = whole_command(bench.launch("--spam", "3"), {})
    with bench.guard().around(Purpose.PROMOTION) as plan:
        assert plan.back_to.running
        done = bench.guard_now.promote(WINNER, text)
    assert done is not None
    assert (done.number, done.winner) == (1, WINNER)
    assert bench.box.argv(bench.name) == [PYTHON, FAKE, "--port", str(PORT), "--spam", "3"]
    assert bench.records.plan() is None
    with bench.guard("token2").around(Purpose.PROMOTION):
        assert bench.guard_now.promote(WINNER, text) is None
    assert [promotion.number for promotion in bench.records.promotions()] == [1]
    bench.guard("token3").rollback()
    assert bench.box.files(bench.name) == before
    assert bench.box.argv(bench.name) == own
    assert bench.records.promotions() == ()
    with pytest.raises(InputError, match="nothing to undo"):
        bench.guard("token4").rollback()


@pytest.mark.slow
def test_a_second_one_is_kept_out(bench: Bench) -> None:
    bench.box.start(bench.name)
    with bench.guard().around(), pytest.raises(HostError, match=r"being changed by tester@here \(campaign"):
        bench.guard("token2").rollback()
    assert bench.box.active(bench.name) == "active"


@pytest.mark.slow
def test_what_was_stopped_stays_stopped(bench: Bench) -> None:
    before = bench.box.files(bench.name)
    with bench.guard().around(), bench.deployer().deploy(bench.launch(), "m/1"):
        assert bench.box.active(bench.name) == "active"
    assert bench.box.active(bench.name) == "inactive"
    assert bench.box.files(bench.name) == before


def test_an_untouched_service_is_not_restarted(bench: Bench) -> None:
    bench.box.start(bench.name)
    pid = bench.box.run("systemctl", "show", "-p", "MainPID", "--value", bench.name)
    with bench.guard().around():
        pass
    assert bench.box.run("systemctl", "show", "-p", "MainPID", "--value", bench.name) == pid


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing.service", "no unit nothing.service"), ("masked.service", "can't use masked.service: masked")],
)
def test_units_that_can_not_be_tuned_are_refused(bench: Bench, name: str, message: str) -> None:
    bench.box.run("ln", "-sf", "/dev/null", "/etc/systemd/system/masked.service")
    bench.box.run("systemctl", "daemon-reload")
    bench.name = name
    with pytest.raises(InputError, match=message), bench.guard().around():
        pass


def test_files_that_systemd_has_not_read_are_not_touched(bench: Bench) -> None:
    bench.box.start(bench.name)
    (bench.box.host.root / f"etc/systemd/system/{bench.name}").write_text(fake_unit("--spam", "1"))
    with pytest.raises(HostError, match="has not read them"), bench.guard().around():
        pass


@pytest.mark.slow
def test_the_next_run_puts_back_what_a_killed_one_has_left(bench: Bench) -> None:
    old = Old.of(bench)
    assert killed(bench, 24, 0.0)
    assert not old.is_back(bench)
    with bench.guard("token2").around() as plan:
        assert old.is_back(bench)
        assert plan.id == "token2"
    assert any("left in the middle of a change by tester@here" in text for text in bench.said)
    assert bench.records.plan() is None


def test_files_of_a_command_line_are_there_before_the_start(bench: Bench) -> None:
    path = f"{bench.unit.files_folder}/steps.json"
    launch = replace(bench.launch(), files={path: "[1, 2]"})
    with bench.guard().around(), bench.deployer().deploy(launch, "m/1"):
        assert bench.box.run("stat", "-c", "%a", path) == "644"
        assert bench.box.run("stat", "-c", "%a", "/var/lib/spectune") == "755"
        assert bench.box.run("stat", "-c", "%a", bench.unit.state_folder) == "700"
    assert bench.box.run("cat", path) == "[1, 2]"


@pytest.mark.slow
def test_a_users_own_unit(bench: Bench) -> None:
    bench.box.run("systemctl", "start", "user@0.service")
    bench.box.host.put("/root/.config/systemd/user/mine.service", fake_unit())
    for words in (["daemon-reload"], ["start", "mine.service"]):
        assert bench.ssh.run(["systemctl", "--user", *words], timeout_s=20).code == 0
    bench.name, bench.user = "mine.service", True
    try:
        with bench.guard().around(), bench.deployer().deploy(bench.launch("--spam", "1"), "m/1") as running:
            assert running.observe(["/health"]).log.startswith("first line\nto stderr\nline 0")
        assert bench.box.run("find", "/root/.config/systemd/user", "-type", "f").endswith("/mine.service")
        assert bench.ssh.run(["systemctl", "--user", "is-active", "mine.service"], timeout_s=20).text == "active\n"
    finally:
        bench.ssh.run(["systemctl", "--user", "stop", "mine.service"], timeout_s=20)
        bench.name, bench.user = "llm.service", False
