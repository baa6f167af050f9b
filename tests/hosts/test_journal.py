"""The journal of one start, on a real systemd; the texts of entries, as journald may write them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.assemble.clock import SystemClock
from spectune.domain.errors import HostError, HostLost, SudoRefused
from spectune.domain.hosts import HostAddress
from spectune.hosts import journal
from spectune.hosts.journal import Entry, parse, select
from spectune.hosts.ssh import Ssh
from tests.hosts.sshd import make_key
from tests.support.testhost.host import Host, booted

UNIT = """\
[Service]
ExecStart=/bin/sh -c 'echo one; printf "bad \\\\377 byte\\\\n"; echo "a\\tb";\
 for i in $(seq 200); do echo line $i; done; echo err >&2; cat /etc/more; exec sleep 1000'
"""
SSHD = """\
HostKey /etc/ssh/test_host_key
AuthorizedKeysFile /etc/ssh/test_id.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
SetEnv HOME=/root XDG_RUNTIME_DIR=/run/user/0
LogLevel ERROR
"""
CLIENT = """\
Host box
  ProxyCommand nsenter -t {pid} -m -p -n -u -i -C /usr/sbin/sshd -i -f /etc/ssh/test_sshd_config
  IdentityFile {folder}/id
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Host]:
    with booted() as host:
        host.run("mkdir", "-p", "/run/sshd")
        host.put("/etc/more", "the last line\n")
        host.put("/etc/systemd/system/talks.service", UNIT)
        host.put("/etc/systemd/user/talks.service", UNIT)
        host.put("/etc/ssh/test_sshd_config", SSHD)
        host.run("systemctl", "daemon-reload")
        yield host


@pytest.fixture(scope="module")
def address(box: Host, tmp_path_factory: pytest.TempPathFactory) -> HostAddress:
    folder = tmp_path_factory.mktemp("box")
    for name in ("host_key", "id"):
        make_key(folder / name)
    box.put("/etc/ssh/test_host_key", (folder / "host_key").read_text(), 0o600)
    box.put("/etc/ssh/test_id.pub", (folder / "id.pub").read_text())
    (folder / "known_hosts").write_text(f"box {(folder / 'host_key.pub').read_text()}")
    (folder / "config").write_text(CLIENT.format(pid=box.pid, folder=folder))
    return HostAddress("box", user="root", config=str(folder / "config"))


@pytest.fixture(scope="module")
def over_ssh(address: HostAddress) -> Iterator[Ssh]:
    with Ssh(address, SystemClock()) as host:
        yield host


def start(host: Ssh, *user: str) -> str:
    host.run(["systemctl", *user, "restart", "talks.service"], timeout_s=60).checked("restart")
    told = journal.invocation(host, "talks.service", user=bool(user))
    deadline = time.monotonic() + 40
    while "the last line" not in journal.read(host, "talks.service", told):
        assert time.monotonic() < deadline
    return told


@pytest.mark.systemd
class TestOnSystemd:
    def test_exactly_one_start(self, over_ssh: Ssh) -> None:
        assert journal.invocation(over_ssh, "never-heard-of.service") == ""
        first = start(over_ssh)
        second = start(over_ssh)
        assert first != second
        for one in (first, second):
            text = journal.read(over_ssh, "talks.service", one)
            lines = text.split("\n")
            for line in (
                "one",
                "bad \N{REPLACEMENT CHARACTER} byte",
                "a\tb",
                "line 1",
                "line 200",
                "err",
                "the last line",
            ):
                assert lines.count(line) == 1, line
            assert any(line.startswith("Started") for line in lines)
        assert "Stopped talks.service" in journal.read(over_ssh, "talks.service", first)

    def test_a_user_unit(self, box: Host, over_ssh: Ssh) -> None:
        box.run("systemctl", "start", "user@0.service")
        told = start(over_ssh, "--user")
        text = journal.read(over_ssh, "talks.service", told)
        assert "\nline 200\n" in text
        assert "Started talks.service" in text

    def test_over_a_rotation(self, over_ssh: Ssh) -> None:
        told = start(over_ssh)
        with journal.follow(over_ssh, "talks.service", told) as entries:
            seen: list[Entry] = []
            for entry in entries:
                seen.append(entry)
                if entry.text == "the last line":
                    break
            over_ssh.run(["journalctl", "--rotate"], timeout_s=60).checked("rotate")
            over_ssh.run(["systemctl", "stop", "talks.service"], timeout_s=60).checked("stop")
            for entry in entries:
                seen.append(entry)
                if entry.text.startswith("Stopped"):
                    break
        text = journal.read(over_ssh, "talks.service", told)
        assert sorted(text.splitlines()) == sorted(entry.text for entry in seen)
        assert text.count("line 77\n") == 1
        assert all(abs(entry.unix - time.time()) < 3600 for entry in seen)
        middle = next(entry for entry in seen if entry.text == "line 77")
        with journal.follow(over_ssh, "talks.service", told, after=middle.cursor) as entries:
            assert next(iter(entries)).text == "line 78"

    def test_the_last_lines_of_a_start_that_died(self, box: Host, over_ssh: Ssh) -> None:
        box.put(
            "/etc/systemd/system/dies.service", "[Service]\nExecStart=/bin/sh -c 'seq 3000; echo last words; exit 7'\n"
        )
        over_ssh.run(["systemctl", "daemon-reload"], timeout_s=60).checked("reload")
        for _ in range(5):
            over_ssh.run(["systemctl", "start", "dies.service"], timeout_s=60).checked("start")
            while over_ssh.run(["systemctl", "is-failed", "dies.service"], timeout_s=60).code != 0:
                pass
            text = journal.read(over_ssh, "dies.service", journal.invocation(over_ssh, "dies.service"))
            assert text.count("last words\n") == 1
            assert "status=7" in text
            time.sleep(0.5)  # one that follows at once may be taken for this one, where journald is slow

    def test_sudo(self, box: Host, address: HostAddress, clock: SystemClock) -> None:
        """Password-less, with a password asked for once, wrong, and not at all."""
        assert box.run("useradd", "-m", "-s", "/bin/bash", "deploy").returncode == 0
        assert box.run("sh", "-c", "echo deploy:open-sesame | chpasswd").returncode == 0
        box.put("/etc/sudoers.d/deploy", "deploy ALL=(ALL) ALL\n", 0o440)
        asked: list[str] = []

        def answer(word: str) -> Ssh:
            def ask(prompt: str) -> str:
                asked.append(prompt)
                return word

            return Ssh(HostAddress("box", user="deploy", config=address.config), clock, ask)

        with answer("open-sesame") as host:
            assert host.run(["id", "-un"], timeout_s=20).text == "deploy\n"
            ran = host.run(["cat"], input=b"x" * 200_000, timeout_s=20, sudo=True)
            assert (ran.code, len(ran.out), ran.err) == (0, 200_000, b"")
            assert host.run(["id", "-un"], timeout_s=20, sudo=True).text == "root\n"
            host.put("/etc/only-root", b"secret", 0o600, sudo=True)
            assert host.get("/etc/only-root", sudo=True) == b"secret"
            with pytest.raises(HostError, match="Permission denied"):
                host.get("/etc/only-root")
            assert asked == ["sudo password on box: "]
            assert "open-sesame" not in repr(host._sudo._prefix)
            with host.follow(["sh", "-c", "id -un; exec sleep 61.803"], sudo=True) as lines:
                assert next(lines) == "root"
            deadline = time.monotonic() + 40
            while box.run("pgrep", "-f", "^sleep 61.803").returncode == 0:
                assert time.monotonic() < deadline
        with answer("wrong") as host, pytest.raises(SudoRefused, match="password is wrong"):
            host.run(["id"], timeout_s=20, sudo=True)
        with Ssh(HostAddress("box", user="deploy", config=address.config), clock) as host:
            with pytest.raises(SudoRefused, match="nobody can be asked") as caught:
                host.run(["id"], timeout_s=20, sudo=True)
            assert "visudo -f /etc/sudoers.d/spectune" in caught.value.advice
            assert caught.value.advice.endswith("deploy ALL=(root) NOPASSWD: ALL")
            box.put("/etc/sudoers.d/deploy", "deploy ALL=(ALL) NOPASSWD: ALL\n", 0o440)
            assert host.run(["id", "-un"], timeout_s=20, sudo=True).text == "root\n"
            box.put("/etc/sudoers.d/deploy", "", 0o440)
            with pytest.raises(SudoRefused, match="sudo on box"):
                host.run(["id", "-un"], timeout_s=20, sudo=True)

    def test_the_host_goes_down(self, address: HostAddress, clock: SystemClock, box: Host) -> None:
        with Ssh(address, clock) as host, host.follow(["sleep", "1000"]) as lines:
            os.kill(box.pid, signal.SIGKILL)
            with pytest.raises(HostLost):
                next(lines)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("plain", "plain"),
        ("two\nlines", "two\nlines"),
        ([104, 105, 255], "hi\N{REPLACEMENT CHARACTER}"),
        ([], ""),
        (["one", "two"], "one\ntwo"),
        ([[104, 105], "two"], "hi\ntwo"),
        (None, "[spectune: an entry of the journal could not be read]"),
        ([300], "[spectune: an entry of the journal could not be read]"),
        (7, "[spectune: an entry of the journal could not be read]"),
    ],
)
def test_messages(message: object, text: str) -> None:
    line = json.dumps({"MESSAGE": message, "__REALTIME_TIMESTAMP": "1700000000500000", "__CURSOR": "s=1"})
    assert parse(line) == Entry(text, 1700000000.5, "s=1")


def test_last_words_that_journald_could_not_place() -> None:
    """By their stream, or by the entry nearest in time."""
    old, new = "a" * 32, "b" * 32
    entries = [
        Entry("old", 100.0, "", old, "s1"),
        Entry("old, of a dead process", 100.9, "", "", "s1"),
        Entry("new, before systemd says so", 110.0, "", "", "s2"),
        Entry("Started", 110.001, "", new, ""),
        Entry("Exited", 110.1, "", new, ""),
        Entry("new, last words", 110.2, "", "", "s2"),
        Entry("newer", 120.0, "", "c" * 32, "s3"),
        Entry("newer, of a dead process", 110.0, "", "", "s3"),
    ]
    assert [entry.text for entry in select(entries, old)] == ["old", "old, of a dead process"]
    assert [entry.text for entry in select(entries, new)] == [
        "new, before systemd says so",
        "Started",
        "Exited",
        "new, last words",
    ]
    assert select([Entry("nobody's")], new) == []


def test_entries_without_fields() -> None:
    assert parse("{}") == Entry("", 0.0, "")


@pytest.mark.parametrize("line", ["", "{", '{"MESSAGE": "cut', "[]", "-- Boot --", "[" * 100_000, "1" * 5000])
def test_broken_lines(line: str) -> None:
    assert parse(line).text == "[spectune: an entry of the journal could not be read]"


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


FIELDS = ("MESSAGE", "__CURSOR", "__REALTIME_TIMESTAMP", "INVOCATION_ID")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON | st.text("0123456789", max_size=20))))
def test_of_any_entry_only_what_it_says_is_read(fields: dict[str, object]) -> None:
    entry = parse(json.dumps(fields))
    told = {name: value for name, value in fields.items() if isinstance(value, str)}
    assert (entry.cursor, entry.invocation) == (told.get("__CURSOR", ""), told.get("INVOCATION_ID", ""))
    if "MESSAGE" in told:
        assert entry.text == told["MESSAGE"]
    if entry.unix:
        assert entry.unix == int(str(fields["__REALTIME_TIMESTAMP"])) / 1e6


@given(st.text().filter(lambda text: not text.startswith("{")) | JSON.map(json.dumps))
def test_any_other_line_says_that_it_could_not_be_read(line: str) -> None:
    assert parse(line) == Entry("[spectune: an entry of the journal could not be read]")


@pytest.mark.parametrize("wrong", ["", "abc", "-f", "x" * 32, "0" * 31])
def test_what_is_no_invocation(wrong: str, shared_ssh: Ssh) -> None:
    with pytest.raises(HostError, match="not the id of a unit's start"):
        journal.read(shared_ssh, "a.service", wrong)
