from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from spectune.domain.errors import HostError
from spectune.provision.cache import Cache, told, write_atomically

HOLD = """
import sys, time
from pathlib import Path
from spectune.provision.cache import Cache
with Cache(Path(sys.argv[1])).lock("thing", lambda text: None):
    print("held", flush=True)
    time.sleep(60)
"""
HOLD_WITH_CHILD = """
import os, subprocess, sys
from pathlib import Path
from spectune.provision.cache import Cache
with Cache(Path(sys.argv[1])).lock("thing", lambda text: None) as lock:
    child = subprocess.Popen(["sleep", "60"], pass_fds=(lock,), stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    child.wait()
"""


def never(text: str) -> None:
    raise AssertionError(f"waited: {text}")


def free(lock: Path) -> bool:
    """Whether somebody else could take it now."""
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.parametrize(
    ("env", "root"),
    [
        ({"SPECTUNE_CACHE": "/a/b", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/spectune"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/spectune"),
        ({"SPECTUNE_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/spectune"),
    ],
)
def test_place(env: dict[str, str], root: str) -> None:
    assert Cache.of_user(env).root == Path(root)


def test_relative_cache_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Cache.of_user({"SPECTUNE_CACHE": "c"}).root == tmp_path / "c"


def test_install_shows_nothing_before_the_end(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with cache.install("engines", "a") as staging:
        (staging / "file").write_text("x")
        assert staging.parent == tmp_path / "engines"
        assert not cache.path("engines", "a").exists()
    assert cache.path("engines", "a", "file").read_text() == "x"
    assert [entry.name for entry in (tmp_path / "engines").iterdir()] == ["a"]


def test_failed_install_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with Cache(tmp_path).install("a") as staging:
            (staging / "file").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_install_replaces_and_removes_leftovers_of_its_own_entry_only(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for name in (".a.dead.tmp", ".b.alive.tmp", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").write_text("old")
    with cache.install("a") as staging:
        (staging / "new").write_text("new")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".b.alive.tmp", "a"]
    assert [entry.name for entry in (tmp_path / "a").iterdir()] == ["new"]


def test_lock_is_free_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for _ in range(2):
        with cache.lock("thing", never):
            assert not free(tmp_path / "locks" / "thing.lock")
        assert free(tmp_path / "locks" / "thing.lock")


def test_second_waits_says_so_and_goes_on_when_the_first_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        said: list[str] = []

        def waiting(text: str) -> None:
            said.append(text)
            threading.Timer(0.2, first.kill).start()

        with Cache(tmp_path).lock("thing", waiting):
            assert first.wait(20) == -signal.SIGKILL
    assert len(said) == 1
    assert f"process {first.pid}" in said[0]
    assert "thing" in said[0]


def test_lock_outlives_a_killed_holder_while_its_child_works(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD_WITH_CHILD, str(tmp_path)], stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        child = int(first.stdout.readline())
        first.kill()
        first.wait()
        said: list[str] = []

        def waiting(text: str) -> None:
            said.append(text)
            threading.Timer(0.2, os.kill, (child, signal.SIGKILL)).start()

        with Cache(tmp_path).lock("thing", waiting):
            pass
    assert len(said) == 1


def test_write_atomically_leaves_no_trace_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "message", "advice"),
    [
        (errno.ENOSPC, "disk is full: /c/x", "another disk"),
        (errno.EDQUOT, "disk is full: /c/x", "another disk"),
        (errno.EROFS, "cannot write /c/x", "SPECTUNE_CACHE"),
        (errno.EACCES, "cannot write /c/x", "SPECTUNE_CACHE"),
        (errno.ENOLCK, "trouble with /c/x", "SPECTUNE_CACHE"),
    ],
)
def test_trouble_becomes_one_clear_error(number: int, message: str, advice: str) -> None:
    with pytest.raises(HostError, match=message) as caught, told(Path("/c/x")):
        raise OSError(number, os.strerror(number))
    assert advice in caught.value.advice


def test_a_really_full_disk() -> None:
    with pytest.raises(HostError, match="disk is full"), told(Path("/dev/full")):
        Path("/dev/full").write_text("x")


def test_a_cache_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="cannot write"), Cache(tmp_path / "file").lock("thing", never):
        pass
