"""Promotions that change the unit file itself, on a real systemd over a real ssh."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spectune.assemble.service_text import read_service
from spectune.assemble.services import settled_texts
from spectune.domain.errors import HostError, InputError
from spectune.domain.service_state import Purpose
from spectune.systemd.unit import ManagedUnit
from spectune.systemd.unit_file import editable
from tests.systemd.box import PORT, Bench, fake_unit, whole_command
from tests.systemd.faults import PROMOTED, WINNER, Old, campaign, killed, settled

pytestmark = pytest.mark.systemd

NAME = "llm.service"
PATH = f"/etc/systemd/system/{NAME}"
EDITED = fake_unit().replace(f"--port {PORT}", f"--port {PORT} --spam 2")
COMMANDS = 30
"""Of a promotion."""


def promote(bench: Bench) -> None:
    with bench.guard().around(Purpose.PROMOTION):
        bench.guard_now.promote(WINNER, EDITED, PATH)


def test_promoted_and_undone_byte_for_byte(bench: Bench) -> None:
    bench.box.run("chmod", "640", PATH)
    bench.box.run("chown", "7:8", PATH)
    old = Old.of(bench)
    promote(bench)
    assert bench.box.argv(NAME) == PROMOTED
    assert bench.box.files(NAME) == {NAME: EDITED.encode()}
    assert bench.box.run("stat", "-c", "%a %u:%g", PATH) == "640 7:8"
    with bench.guard("token2").around(Purpose.PROMOTION):
        assert bench.guard_now.promote(WINNER, EDITED, PATH) is None
    undone = bench.guard("token3").rollback()
    assert undone.promotion is not None
    assert undone.promotion.file == PATH
    assert old.is_back(bench)
    assert bench.box.run("stat", "-c", "%a %u:%g", PATH) == "640 7:8"
    assert bench.records.promotions() == ()


def test_at_the_end_of_a_campaign_the_trials_drop_in_is_gone(bench: Bench) -> None:
    old = Old.of(bench)
    with bench.guard().around():
        with bench.deployer().deploy(bench.launch("--spam", "1"), "m.1.1"):
            assert f"{NAME}.d/50-spectune.conf" in bench.box.files(NAME)
        bench.guard_now.promote(WINNER, EDITED, PATH)
    assert bench.box.files(NAME) == {NAME: EDITED.encode()}
    assert bench.box.argv(NAME) == PROMOTED
    bench.guard("token2").rollback()
    assert old.is_back(bench)


@pytest.mark.slow
def test_a_drop_in_that_follows_and_the_edit_are_undone_one_after_the_other(bench: Bench) -> None:
    old = Old.of(bench)
    promote(bench)
    with bench.guard("token2").around(Purpose.PROMOTION):
        done = bench.guard_now.promote(WINNER, whole_command(bench.launch("--spam", "3"), {}))
    assert done is not None
    assert done.number == 2
    bench.guard("token3").rollback()
    assert bench.box.files(NAME) == {NAME: EDITED.encode()}
    assert bench.box.argv(NAME) == PROMOTED
    bench.guard("token4").rollback()
    assert old.is_back(bench)


def test_a_link_stays_and_its_target_is_changed(bench: Bench) -> None:
    bench.box.run("mkdir", "-p", "/srv/units")
    bench.box.run("mv", PATH, f"/srv/units/{NAME}")
    bench.box.run("chmod", "600", f"/srv/units/{NAME}")
    # An absolute one would lead elsewhere from this machine, which looks on.
    leads = f"../../../srv/units/{NAME}"
    bench.box.run("ln", "-s", leads, PATH)
    bench.box.run("systemctl", "daemon-reload")
    old = Old.of(bench)
    found = editable(bench.unit, bench.unit.found(), NAME)
    assert (found.path, found.target) == (PATH, f"/srv/units/{NAME}")
    promote(bench)
    assert bench.box.argv(NAME) == PROMOTED
    assert bench.box.run("readlink", PATH) == leads
    assert bench.box.run("stat", "-c", "%a", f"/srv/units/{NAME}") == "600"
    bench.guard("token2").rollback()
    assert old.is_back(bench)
    assert bench.box.run("readlink", PATH) == leads


def test_what_somebody_has_changed_since_is_not_overwritten(bench: Bench) -> None:
    bench.box.start(NAME)
    promote(bench)
    theirs = EDITED + "# mine\n"
    bench.box.unit(NAME, theirs)
    with pytest.raises(InputError, match=rf"{PATH} on box is not what was promoted any more"):
        bench.guard("token2").rollback()
    assert bench.box.files(NAME) == {NAME: theirs.encode()}


def test_what_somebody_changes_meanwhile_is_neither_overwritten_nor_undone(bench: Bench) -> None:
    own = bench.box.start(NAME)
    theirs = fake_unit() + "# mine\n"

    def disturbed() -> None:
        with bench.guard().around():
            with bench.deployer().deploy(bench.launch("--spam", "1"), "m.1.1"):
                bench.box.unit(NAME, theirs)
            bench.guard_now.promote(WINNER, EDITED, PATH)

    with pytest.raises(HostError, match="was changed by somebody else meanwhile"):
        disturbed()
    assert bench.box.files(NAME) == {NAME: theirs.encode()}
    assert bench.box.argv(NAME) == own
    assert bench.records.promotions() == ()


def test_a_winner_that_does_not_come_up_leaves_the_old_file(bench: Bench) -> None:
    old = Old.of(bench)
    broken = fake_unit("--exit-code", "3")
    with pytest.raises(Exception, match="exited with code 3"), bench.guard().around(Purpose.PROMOTION):
        bench.guard_now.promote(WINNER, broken, PATH)
    assert old.is_back(bench)
    assert bench.records.promotions() == ()


@pytest.mark.parametrize("at", [pytest.param(n, marks=[pytest.mark.slow] * (n % 15 != 0)) for n in range(1, COMMANDS)])
def test_spectune_is_killed(bench: Bench, at: int) -> None:
    old = Old.of(bench)
    killed(bench, at, 0.03 if at % 2 else 0.0, promote)
    settled(bench, old)


@pytest.mark.parametrize(("act", "at"), [(promote, 27), pytest.param(campaign, 24, marks=pytest.mark.slow)])
def test_texts_are_read_as_they_were_before_what_was_cut_off(
    bench: Bench, act: Callable[[Bench], None], at: int
) -> None:
    old = Old.of(bench)
    before = read_service(bench.unit)
    assert killed(bench, at, 0.0, act)
    cut_off = read_service(bench.unit)
    assert cut_off != before
    assert settled_texts(cut_off, bench.unit) == before
    settled(bench, old)
    assert settled_texts(before, bench.unit) == before


def write(bench: Bench, path: str, text: str) -> None:
    bench.box.host.put(path, text)
    bench.box.run("systemctl", "daemon-reload")


@pytest.mark.parametrize(
    ("name", "path", "link", "why"),
    [
        ("a.service", "/usr/lib/systemd/system/a.service", "", "it belongs to a package"),
        ("a.service", "/usr/local/lib/systemd/system/a.service", "", "it belongs to a package"),
        ("a.service", "/run/systemd/system/a.service", "", "it is made anew at every boot"),
        ("a@1.service", "/etc/systemd/system/a@.service", "", "it is the template of all its instances"),
        ("a.service", "/usr/share/a.service", "/etc/systemd/system/a.service", "link to /usr/share/a.service, which"),
    ],
)
def test_files_that_are_not_edited(bench: Bench, name: str, path: str, link: str, why: str) -> None:
    write(bench, path, fake_unit())
    try:
        if link:
            bench.box.run("ln", "-s", path, link)
            bench.box.run("systemctl", "daemon-reload")
        unit = ManagedUnit(bench.ssh, name, bench.clock, "box")
        with pytest.raises(InputError, match=why) as caught:
            editable(unit, unit.found(), name)
        assert "drop-in" in caught.value.advice
    finally:
        bench.box.run("rm", "-f", path, *([link] if link else []))
        bench.box.run("systemctl", "daemon-reload")


def test_drop_ins_of_this_unit_are_edited_and_those_of_others_are_not(bench: Bench) -> None:
    write(bench, f"{PATH}.d/10-mine.conf", "[Service]\nNice=1\n")
    write(bench, "/etc/systemd/system/service.d/20-all.conf", "[Service]\nNice=2\n")
    try:
        state = bench.unit.found()
        assert editable(bench.unit, state, "10-mine.conf").path == f"{PATH}.d/10-mine.conf"
        with pytest.raises(InputError, match=r"it counts for other units than llm\.service too"):
            editable(bench.unit, state, "20-all.conf")
    finally:
        bench.box.run("rm", "-rf", "/etc/systemd/system/service.d")
        bench.box.run("systemctl", "daemon-reload")


def test_a_drop_in_of_the_users_is_edited_in_place(bench: Bench) -> None:
    mine = fake_unit().partition("[Service]\n")[2]
    path = f"{PATH}.d/90-mine.conf"
    write(bench, path, f"[Service]\nExecStart=\n{mine}")
    old = Old.of(bench)
    with bench.guard().around(Purpose.PROMOTION):
        bench.guard_now.promote(WINNER, f"[Service]\nExecStart=\n{mine}".replace("8080", "8080 --spam 2"), path)
    assert bench.box.argv(NAME) == PROMOTED
    bench.guard("token2").rollback()
    assert old.is_back(bench)
