"""What every Host must do. A suite for an implementation subclasses HostContract and gives it a `host`, one whose login
is the user who runs the tests, on a file system that the tests see."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from spectune.domain.errors import AccessDenied, CommandFailed, CommandTimedOut, DiskFull, HostError
from spectune.domain.hosts import Host
from spectune.hosts import shell_host

BYTES = bytes(range(256)) * 8192
ODD_NAMES = [
    "plain.service",
    "with space",
    "name@1.service",
    "-rf",
    "-",
    "quote'and\"quote",
    "$HOME `id` $(id)",
    "back\\slash \\n",
    "new\nline",
    "trailing newline\n",
    "bang! *?[a]{b,c}~#;&|<>",
    "ünï-日本",
    "bad utf-8 \udcff\udc80",
    "n" * 255,
]


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def running(word: str) -> list[int]:
    """Processes with `word` among their arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            if word in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def gone(word: str, seconds: float = 30.0) -> bool:
    """Whether processes with `word` among their arguments end soon."""
    deadline = time.monotonic() + seconds
    while running(word):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class HostContract:
    @pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 128, 200, 255])
    def test_exit_codes(self, host: Host, code: int) -> None:
        ran = host.run(sh(f"echo out; echo err >&2; exit {code}"), timeout_s=20)
        assert (ran.code, ran.out, ran.err) == (code, b"out\n", b"err\n")
        assert 0 < ran.seconds < 20

    @pytest.mark.parametrize(("name", "number"), [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("HUP", 1)])
    def test_signals(self, host: Host, name: str, number: int) -> None:
        assert host.run(sh(f"kill -{name} $$"), timeout_s=20).code == 128 + number

    def test_no_such_program(self, host: Host) -> None:
        ran = host.run(["spectune-no-such-program"], timeout_s=20)
        assert ran.code == 127
        assert b"spectune-no-such-program" in ran.err
        assert host.run(["/etc/passwd"], timeout_s=20).code == 126

    @pytest.mark.parametrize("name", ["echo", "kill", "exit"])
    def test_words_of_the_shell_are_programs_or_nothing(self, host: Host, name: str) -> None:
        """A builtin of the shell in between must not answer."""
        assert host.run([name, "--version"], timeout_s=20).code == (127 if name == "exit" else 0)

    @pytest.mark.parametrize("word", ["", *ODD_NAMES[:-1], "a" * 100_000])
    def test_arguments_arrive_as_they_are(self, host: Host, word: str) -> None:
        assert host.run(["printf", "%s|", "x", word, "y"], timeout_s=20).out == b"x|" + os.fsencode(word) + b"|y|"

    @pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, len(BYTES) * 4])
    def test_bytes_both_ways(self, host: Host, size: int) -> None:
        data = (BYTES * 4)[:size]
        ran = host.run(["cat"], input=data, timeout_s=60)
        assert ran.code == 0
        assert hashlib.sha256(ran.out).digest() == hashlib.sha256(data).digest()

    def test_much_on_stdout_and_stderr_at_once(self, host: Host) -> None:
        ran = host.run(sh("cat /dev/zero | head -c 3000000 >&2 & cat /dev/zero | head -c 3000000; wait"), timeout_s=60)
        assert (len(ran.out), len(ran.err)) == (3_000_000, 3_000_000)

    def test_input_that_nobody_reads(self, host: Host) -> None:
        assert host.run(["true"], input=BYTES, timeout_s=20).code == 0
        ran = host.run(sh("head -c 3; exec <&-; sleep 0.3; echo ."), input=b"abc" + BYTES, timeout_s=20)
        assert (ran.code, ran.out) == (0, b"abc.\n")

    @pytest.mark.parametrize("size", [1000, 1_000_000])
    def test_input_that_nobody_reads_does_not_delay_the_time_limit(
        self, host: Host, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The host's own clock ends what still waits with input, a little after spectune's.
        monkeypatch.setattr(shell_host, "_MARGIN_S", 1)
        word = f"51.{size}"
        with pytest.raises(CommandTimedOut):
            host.run(["sleep", word], input=bytes(size), timeout_s=0.3)
        assert gone(word)

    def test_slow_readers_of_input_are_not_disturbed(self, host: Host) -> None:
        ran = host.run(sh("sleep 1.3; cat; echo err >&2"), input=BYTES, timeout_s=30)
        assert (ran.code, ran.out, ran.err) == (0, BYTES, b"err\n")

    def test_a_program_left_in_the_background_is_not_waited_for(self, host: Host) -> None:
        began = time.monotonic()
        ran = host.run(sh("sleep 31.4151 & echo started"), timeout_s=20)
        assert (ran.code, ran.out) == (0, b"started\n")
        assert time.monotonic() - began < 15
        for pid in running("31.4151"):
            psutil.Process(pid).kill()

    @pytest.mark.parametrize("ignores", ["", "trap '' TERM; "])
    def test_the_time_limit_ends_the_command_and_its_children(self, host: Host, ignores: str, tmp_path: Path) -> None:
        word = f"41.{tmp_path.stat().st_ino}"
        began = time.monotonic()
        with pytest.raises(CommandTimedOut, match=r"/bin/sh .*0\.5 s; it was ended"):
            host.run(sh(f"{ignores}sleep {word} & sleep {word}; sleep {word}"), timeout_s=0.5)
        assert time.monotonic() - began < 15
        assert gone(word)
        assert host.run(["true"], timeout_s=20).code == 0

    def test_a_nul_byte_is_refused(self, host: Host) -> None:
        with pytest.raises(HostError, match="NUL"):
            host.run(["echo", "a\0b"], timeout_s=5)
        with pytest.raises(HostError, match="words"):
            host.run([], timeout_s=5)

    def test_too_long_a_command_is_refused(self, host: Host) -> None:
        with pytest.raises(HostError, match=r"(?i)argument list too long"):
            host.run(["echo", "a" * 3_000_000], timeout_s=5)

    def test_many_at_once(self, host: Host) -> None:
        codes: list[int] = []
        threads = [
            threading.Thread(target=lambda n=n: codes.append(host.run(sh(f"exit {n}"), timeout_s=60).code))
            for n in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(codes) == list(range(20))

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_files_with_odd_names(self, host: Host, tmp_path: Path, name: str) -> None:
        path = os.fsencode(tmp_path) + b"/" + os.fsencode(name)
        assert host.get(os.fsdecode(path)) is None
        for data in (b"one", b"", BYTES):
            host.put(os.fsdecode(path), data)
            assert host.get(os.fsdecode(path)) == data
        assert os.listdir(os.fsencode(tmp_path)) == [os.fsencode(name)]

    def test_mode_and_owner(self, host: Host, tmp_path: Path) -> None:
        path = tmp_path / "file"
        host.put(str(path), b"new")
        assert path.stat().st_mode & 0o7777 == 0o644
        path.chmod(0o751)
        host.put(str(path), b"kept")
        assert path.stat().st_mode & 0o7777 == 0o751
        host.put(str(path), b"told", 0o600)
        assert (path.stat().st_mode & 0o7777, path.read_bytes()) == (0o600, b"told")

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
    def test_the_owner_is_kept_unless_told(self, host: Host, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        os.chown(path, 12345, 23456)
        host.put(str(path), b"new")
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)
        host.put(str(path), b"new", owner="nobody:root")
        assert (path.owner(), path.group()) == ("nobody", "root")
        with pytest.raises(HostError, match="invalid user"):
            host.put(str(path), b"newer", owner="spectune-nobody")
        assert path.read_bytes() == b"new"

    def test_a_link_is_followed(self, host: Host, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "real/file\n").write_bytes(b"old")
        (tmp_path / "link").symlink_to("real/file\n")
        host.put(str(tmp_path / "link"), b"new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real/file\n").read_bytes() == b"new"
        assert os.listdir(tmp_path / "real") == ["file\n"]

    def test_readers_see_the_old_or_the_new_file(self, host: Host, tmp_path: Path) -> None:
        path = tmp_path / "file"
        old, new = b"a" * 300_000, b"b" * 200_000
        path.write_bytes(old)
        seen: set[bytes] = set()
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                seen.add(path.read_bytes())

        reader = threading.Thread(target=read)
        reader.start()
        for data in (new, old) * 4:
            host.put(str(path), data)
        done.set()
        reader.join()
        assert seen <= {old, new}
        assert len(seen) == 2

    def test_what_is_no_file(self, host: Host, tmp_path: Path) -> None:
        with pytest.raises(HostError, match="Is a directory"):
            host.get(str(tmp_path))
        with pytest.raises(HostError, match="Is a directory"):
            host.put(str(tmp_path), b"")
        with pytest.raises(HostError, match=r"No such file|nonexistent"):
            host.put(str(tmp_path / "missing/file"), b"")
        (tmp_path / "file").touch()
        assert host.get(str(tmp_path / "file/below")) is None
        for path in ("", "/", "/tmp/", "/tmp/..", "/tmp/a\0b"):
            with pytest.raises(HostError, match="not the path of a file"):
                host.put(path, b"")

    def test_denied(self, host: Host) -> None:
        with pytest.raises(AccessDenied, match="can't write '/sys/kernel/spectune'"):
            host.put("/sys/kernel/spectune", b"x")
        if os.geteuid() != 0:
            with pytest.raises(AccessDenied, match="can't read '/etc/shadow'"):
                host.get("/etc/shadow")

    def test_a_full_disk_keeps_the_old_file(self, host: Host, small_disk: Path) -> None:
        path = small_disk / "unit.service"
        host.put(str(path), b"old" * 1000)
        with pytest.raises(DiskFull, match="disk is full"):
            host.put(str(path), BYTES)
        assert path.read_bytes() == b"old" * 1000
        assert os.listdir(small_disk) == ["unit.service"]

    def test_follow(self, host: Host, tmp_path: Path) -> None:
        log = tmp_path / "log"
        log.write_bytes(b"first\nbad \xff utf-8\n\n")
        with host.follow(["tail", "-n", "+1", "-f", str(log)]) as lines:
            assert [next(lines) for _ in range(3)] == ["first", "bad \N{REPLACEMENT CHARACTER} utf-8", ""]
            with log.open("ab") as more:
                more.write(b"half")
                more.flush()
                time.sleep(0.1)
                more.write(b" and half\n")
            assert next(lines) == "half and half"
        assert gone(str(log))

    def test_a_followed_command_that_ends(self, host: Host) -> None:
        with host.follow(["printf", "one\ntwo"]) as lines:
            assert list(lines) == ["one", "two"]
        with host.follow(sh("echo one; echo why >&2; exit 3")) as lines:
            assert next(lines) == "one"
            with pytest.raises(CommandFailed, match="code 3: why"):
                next(lines)

    def test_following_stops_from_another_thread(self, host: Host) -> None:
        with host.follow(["sleep", "27.18281"]) as lines:
            timer = threading.Timer(0.2, lines.stop)
            timer.start()
            assert list(lines) == []
            timer.join()
        assert gone("27.18281")

    def test_an_error_inside_the_block_ends_the_command(self, host: Host) -> None:
        with pytest.raises(ZeroDivisionError), host.follow(["sleep", "27.18282"]):
            raise ZeroDivisionError
        assert gone("27.18282")

    def test_checked(self, host: Host) -> None:
        assert host.run(["echo", "x"], timeout_s=20).checked("echo").text == "x\n"
        with pytest.raises(CommandFailed, match="the thing failed with code 9: last"):
            host.run(sh("echo first >&2; echo last >&2; exit 9"), timeout_s=20).checked("the thing")

    @pytest.fixture
    def small_disk(self, tmp_path: Path) -> Iterator[Path]:
        if os.geteuid() != 0:
            pytest.skip("only root mounts a small disk")
        folder = tmp_path / "small disk"
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
        yield folder
        subprocess.run(["umount", "-l", folder], check=True)
