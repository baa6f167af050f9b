"""Promotion and undo from a terminal, for the simulated SGLang as a unit of a real systemd over a real ssh."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
import yaml

import spectune
from spectune import assemble
from spectune.assemble.draining import busy_now
from spectune.cli import campaign_file
from spectune.domain.candidate import Candidate
from spectune.domain.events import CampaignEnded, Decided, TrialEnded, TrialStarted
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Conclusion, Decision, Verdict
from tests.end_to_end.test_systemd import HIDDEN, NAME, UNIT, Desk
from tests.support.testhost.host import CannotBoot
from tests.systemd.box import box

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.timeout(300)]

AT = ("--remote", "box", "--unit", NAME)
FORCED = ("--force", "a simulated server, in a test")
QUESTION = "Write this and restart the service? [y/N]:"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk at which a campaign has just ended: depth 3 wins."""
    paths = (str(Path(spectune.__file__).parent.parent), sysconfig.get_paths()["purelib"])
    if any(path.startswith(HIDDEN) for path in paths):
        pytest.skip("the checkout is in a folder that test hosts do not see")
    try:
        with box(tmp_path_factory.mktemp("box")) as made:
            made.host.put("/srv/qwen/config.json", "{}")
            made.unit(NAME, UNIT.format(path=":".join(paths)))
            here = Desk(tmp_path_factory.mktemp("desk"), made)
            made.start(NAME)
            wrote = here.run("init", "qwen.yaml", *AT)
            if "uvloop" in wrote.stderr:
                pytest.skip("the test host's own Python is not the one that the packages are for")
            assert wrote.returncode == 0, wrote.stderr
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SPECTUNE_SSH_CONFIG", str(made.config))
                won(here)
                yield here
    except CannotBoot as error:
        pytest.skip(f"no systemd can be booted here: {error}")


def won(desk: Desk, **service: object) -> None:
    """Writes a campaign into the ledger that depth 3 has won."""
    file = desk.folder / "qwen.yaml"
    document = yaml.safe_load(file.read_text())
    document["service"].update(service)
    file.write_text(yaml.safe_dump(document))
    spec = campaign_file.load(file)
    with assemble.site(spec.service, None, print) as site:
        prepared = assemble.prepare(spec, lambda text, done: None, site=site)
    base = prepared.baseline
    winner = replace(base, speculation=replace(base.speculation, depth=3))
    with assemble.writable(desk.folder / "spectune-runs") as ledger:
        campaign = assemble.open_campaign(ledger, prepared)
        for number, candidate in enumerate((base, winner), start=1):
            for event in trial(number, candidate, base):
                ledger.append(campaign, event)
        ledger.append(campaign, CampaignEnded(time.time(), Conclusion(winner.id, True, "it is faster")))


def trial(number: int, candidate: Candidate, base: Candidate) -> Iterator[TrialStarted | TrialEnded | Decided]:
    now = time.time()
    yield TrialStarted(now, number, 1, candidate, Purpose.EXPLORE, "a test")
    yield TrialEnded(now, number, TrialState.VALID, "")
    yield Decided(now, number, Verdict(Decision.KEEP, "", base.id))


@dataclass
class Terminal:
    """A command on a terminal of its own."""

    desk: Desk
    words: tuple[str, ...]
    seen: str = ""

    def __enter__(self) -> Terminal:
        self._ours, theirs = pty.openpty()
        # Its controlling terminal, on which Ctrl-C is typed; test runs in the background ignore SIGINT.
        argv = ["setsid", "--ctty", "env", "--default-signal=INT", sys.executable, "-m", "spectune", *self.words]
        self.process = subprocess.Popen(
            argv, cwd=self.desk.folder, env=self.desk.env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        return self

    def __exit__(self, *raised: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def until(self, text: str) -> None:
        """Reads until a text was shown."""
        deadline = time.monotonic() + 90
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            assert self._read(), self.seen

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Reads to the end, and returns the exit code."""
        while self._read():
            pass
        return self.process.wait(30)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], 90)
        try:
            data = os.read(self._ours, 4096) if ready else b""
        except OSError:  # the other side has gone
            data = b""
        self.seen += data.decode().replace("\r\n", "\n")
        return bool(data)


@pytest.mark.parametrize(("keys", "code"), [("n\n", 0), ("\n", 0), ("\x03", 130), ("\x04", 130)])
def test_asked_on_a_terminal_nothing_happens_without_a_yes(desk: Desk, keys: str, code: int) -> None:
    before, own = desk.box.files(NAME), desk.box.argv(NAME)
    pid = desk.box.run("systemctl", "show", "-p", "MainPID", "--value", NAME)
    with Terminal(desk, ("promote", *FORCED)) as terminal:
        terminal.until(QUESTION)
        assert "+++ 50-spectune.conf (spectune)" in terminal.seen
        assert "--speculative-num-steps 3" in terminal.seen
        terminal.type(keys)
        assert terminal.end() == code
        assert ("nothing was changed" in terminal.seen) == (code == 0)
    assert (desk.box.files(NAME), desk.box.argv(NAME)) == (before, own)
    assert desk.box.run("systemctl", "show", "-p", "MainPID", "--value", NAME) == pid


@pytest.mark.parametrize("edit_unit", [False, True])
def test_with_a_yes_it_is_promoted_and_the_ledger_knows(desk: Desk, edit_unit: bool) -> None:
    before, own = desk.box.files(NAME), desk.box.argv(NAME)
    written = f"/etc/systemd/system/{NAME}" + ("" if edit_unit else ".d/50-spectune.conf")
    way = ("--edit-unit",) if edit_unit else ()
    with Terminal(desk, ("promote", *way, *FORCED)) as terminal:
        terminal.until(QUESTION)
        terminal.type("y\n")
        assert terminal.end() == 0, terminal.seen
        assert "promoted mtp k=3" in terminal.seen
    now = desk.box.argv(NAME)
    assert [pair for pair in zip(own, now, strict=True) if pair[0] != pair[1]] == [("1", "3"), ("2", "4")]
    after = desk.box.files(NAME)
    if edit_unit:
        changed = (
            before[NAME].decode().replace("num-steps 1", "num-steps 3").replace("draft-tokens 2", "draft-tokens 4")
        )
        assert after == {NAME: changed.encode()}
    else:
        assert after[NAME] == before[NAME]
        assert f"{NAME}.d/50-spectune.conf" in after

    again = desk.run("promote", *way, *FORCED)
    assert "promoted already" in again.stdout, again.stderr
    other = desk.run("promote", "--drop-in" if edit_unit else "--edit-unit", *FORCED)
    if not edit_unit:
        assert "has a promoted drop-in of spectune, which would override" in other.stderr
    shown = desk.run("status", *AT).stdout
    assert f"in {written}" in shown
    assert "promotion 1: mtp k=3" in shown
    assert "warning" not in shown
    assert f"was promoted into {NAME} on box ({written}); forced: a simulated" in " ".join(
        desk.run("show").stdout.replace("\u2502", "").split()
    )

    undone = desk.run("rollback", *AT)
    while "promotion 1" not in undone.stdout:
        undone = desk.run("rollback", *AT)
        assert undone.returncode == 0, undone.stderr
    assert desk.box.files(NAME) == before
    assert desk.box.argv(NAME) == own
    assert "was rolled back" in desk.run("status", *AT).stdout
    assert f"mtp k=3 was rolled back from {NAME} on box" in " ".join(desk.run("show").stdout.split())


def test_undone_where_the_ledger_is_not_it_says_so(desk: Desk, tmp_path: Path) -> None:
    assert desk.run("promote", "--yes", *FORCED).returncode == 0
    undone = desk.run("rollback", *AT, "--dir", str(tmp_path / "none"))
    assert undone.returncode == 0
    assert "not written into the ledger of" in undone.stderr
    assert not (tmp_path / "none").exists()
    told = desk.run("status", *AT).stdout
    assert "the ledger knows a promotion in force that the host does not" in told
    # The number is given again, and counts for the new one alone.
    assert desk.run("promote", "--yes", *FORCED).returncode == 0
    assert "warning" not in desk.run("status", *AT).stdout
    assert desk.run("rollback", *AT).returncode == 0


def test_outside_of_the_window_it_waits_and_leaves_the_service_alone(desk: Desk) -> None:
    pid = desk.box.run("systemctl", "show", "-p", "MainPID", "--value", NAME)
    later = datetime.now() + timedelta(hours=3)
    between = f"{later:%H:%M}-{later + timedelta(hours=1):%H:%M}"
    for attempt in range(2):
        with Terminal(desk, ("run", "qwen.yaml", "--between", between)) as terminal:
            terminal.until("pausing, with the service as it was; going on at")
            assert f"{later:%Y-%m-%d %H:%M} {datetime.now().astimezone().tzname()}, in" in terminal.seen
            terminal.type("\x03")
            assert terminal.end() == 130, attempt
    assert desk.box.run("systemctl", "show", "-p", "MainPID", "--value", NAME) == pid
    assert "Not finished: 0 trials" in " ".join(desk.run("show").stdout.split())


def test_a_vendors_unit_is_not_edited(desk: Desk) -> None:
    won(desk)
    desk.box.run("mv", f"/etc/systemd/system/{NAME}", f"/usr/lib/systemd/system/{NAME}")
    desk.box.run("systemctl", "daemon-reload")
    try:
        refused = desk.run("promote", "--edit-unit", *FORCED)
        assert refused.returncode == 2
        assert "belongs to a package" in refused.stderr
        assert "--edit-unit" in refused.stderr
        refused = desk.run("init", "other.yaml", *AT, "--edit-unit")
        assert "belongs to a package" in refused.stderr
        assert not (desk.folder / "other.yaml").exists()
    finally:
        desk.box.run("mv", f"/usr/lib/systemd/system/{NAME}", f"/etc/systemd/system/{NAME}")
        desk.box.run("systemctl", "daemon-reload")


def test_a_busy_service_is_spared(desk: Desk) -> None:
    won(desk, drain={"busy_requests": 0, "wait_s": 0})
    spec = campaign_file.load(desk.folder / "qwen.yaml")
    with assemble.site(spec.service, None, print) as site:
        quiet = busy_now(site.texts.service, site.way.fetch)
        assert quiet is not None
        assert (quiet.requests, quiet.source) == (0, "/v1/loads")
        users = [threading.Thread(target=ask, args=(site.way.url,), daemon=True) for _ in range(2)]
        for user in users:
            user.start()
        deadline = time.monotonic() + 20
        while (seen := busy_now(site.texts.service, site.way.fetch)) is None or seen.requests < 2:
            assert time.monotonic() < deadline, seen
        refused = desk.run("promote", "--yes", *FORCED)
        assert refused.returncode == 3
        assert "is busy: 2 requests run and 0 wait (GET /v1/loads), and it is stopped with at most 0" in refused.stderr
        # It would wait for its requests if it were asked to end.
        desk.box.run("systemctl", "kill", "--signal=KILL", NAME)
        for user in users:
            user.join()


def ask(url: str) -> None:
    body = {"model": "x", "messages": [{"role": "user", "content": "?"}], "max_tokens": 100_000, "ignore_eos": True}
    with suppress(httpx.HTTPError):
        httpx.post(f"{url}/v1/chat/completions", json=body, timeout=200)
