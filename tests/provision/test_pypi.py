"""pip is real; the index is a directory with one small wheel in it."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.domain.errors import HostError
from spectune.provision import pypi
from spectune.provision.command import Runner
from spectune.provision.pypi import Pin, download, install_tools

FILE = "tinything-1.0-py3-none-any.whl"


def wheel(index: Path, content: str = "model") -> Pin:
    index.mkdir(exist_ok=True)
    path = index / FILE
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tinything/data.txt", content)
        tool = zipfile.ZipInfo("tinything-1.0.data/scripts/tinytool")
        tool.external_attr = 0o100755 << 16
        archive.writestr(tool, "#!/bin/sh\necho 1.0\n")
        archive.writestr("tinything-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n")
        archive.writestr(
            "tinything-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tinything-1.0.dist-info/RECORD", "")
    return Pin("tinything", "1.0", FILE, hashlib.sha256(path.read_bytes()).hexdigest(), source=False)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    lock = os.open("/dev/null", os.O_RDONLY)
    offline = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": str(tmp_path / "index")}
    yield Runner(tmp_path / "log", {**os.environ, **offline}, lock)
    os.close(lock)


def test_fetches_once(tmp_path: Path, runner: Runner) -> None:
    pin = wheel(tmp_path / "index")
    path = download(pin, tmp_path / "into", runner)
    assert path == tmp_path / "into" / FILE
    before = runner.log.read_text()
    assert download(pin, tmp_path / "into", runner) == path
    assert runner.log.read_text() == before


def test_a_damaged_file_is_fetched_again(tmp_path: Path, runner: Runner) -> None:
    pin = wheel(tmp_path / "index")
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / FILE).write_bytes(b"half")
    assert pypi.digest(download(pin, tmp_path / "into", runner)) == pin.sha256


def test_another_file_than_the_pinned_one(tmp_path: Path, runner: Runner) -> None:
    pin = replace(wheel(tmp_path / "index"), sha256="0" * 64)
    with pytest.raises(
        HostError, match=r"cannot fetch tinything 1\.0: the package index serves another file"
    ) as caught:
        download(pin, tmp_path / "into", runner)
    assert str(runner.log) in caught.value.advice
    assert not (tmp_path / "into" / FILE).exists()


def test_not_on_the_index(tmp_path: Path, runner: Runner) -> None:
    pin = replace(wheel(tmp_path / "index"), version="2.0")
    with pytest.raises(HostError, match=r"cannot fetch tinything 2\.0: the package index doesn't have that version"):
        download(pin, tmp_path / "into", runner)


def test_no_network(tmp_path: Path, runner: Runner) -> None:
    pin = wheel(tmp_path / "index")
    closed = {
        "PIP_NO_INDEX": "0",
        "PIP_FIND_LINKS": "",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "1",
    }
    with pytest.raises(HostError, match="the package index can't be reached"):
        download(pin, tmp_path / "into", Runner(runner.log, {**runner.env, **closed}, runner.lock))


def test_programs_of_a_package(tmp_path: Path, runner: Runner) -> None:
    wheel(tmp_path / "index")
    install_tools(("tinything>=1",), tmp_path / "tools", runner)
    assert runner.run([str(tmp_path / "tools" / "bin" / "tinytool")]).tail == "1.0\n"


def test_programs_that_are_not_there(tmp_path: Path, runner: Runner) -> None:
    (tmp_path / "index").mkdir()
    with pytest.raises(HostError, match="cannot fetch nosuch"):
        install_tools(("nosuch",), tmp_path / "tools", runner)


def test_this_pythons_pip_comes_first(tmp_path: Path, runner: Runner) -> None:
    assert pypi.pip(runner, tmp_path) == [sys.executable, "-m", "pip"]


@pytest.mark.slow
def test_without_pip_one_is_made(tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    made = pypi.pip(runner, tmp_path)
    assert runner.run([*made, "--version"]).code == 0
    assert made[0].startswith(str(tmp_path))


def test_without_pip_or_venv_one_on_path_does(tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("sys.executable", "/bin/false")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "pip").chmod(0o755)
    bare = Runner(runner.log, {"PATH": str(tmp_path / "bin")}, runner.lock)
    assert pypi.pip(bare, tmp_path) == [str(tmp_path / "bin" / "pip")]
    with pytest.raises(HostError, match="there is no pip"):
        pypi.pip(Runner(runner.log, {"PATH": ""}, runner.lock), tmp_path)
