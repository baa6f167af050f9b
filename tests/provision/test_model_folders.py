from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectune.domain.errors import InputError
from spectune.provision import model_folders


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "qwen"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": ["X"]}))
    (folder / "model.safetensors").write_bytes(b"0" * 2_000_000)
    return folder


def test_a_folder_is_made_absolute(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    assert model_folders.resolve("qwen", "model") == str(model)
    assert model_folders.config(str(model)) == {"architectures": ["X"]}
    assert model_folders.size(str(model)) == 2_000_000


def test_a_hubs_name_stays_as_it_is() -> None:
    assert model_folders.resolve("Qwen/Qwen3.5-122B-A10B", "model") == "Qwen/Qwen3.5-122B-A10B"
    assert model_folders.files("Qwen/Qwen3.5-122B-A10B") == ()
    assert model_folders.config("Qwen/Qwen3.5-122B-A10B") == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [("./qwem", "did you mean"), ("qwen/config.json", "is a file"), ("empty", "no config.json"), ("/x/y", "no folder")],
)
def test_what_is_no_model_is_refused(model: Path, name: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    (model.parent / "empty").mkdir()
    with pytest.raises(InputError, match=words):
        model_folders.resolve(name, "model")


def test_the_digest_tells_configurations_and_sizes_apart(model: Path) -> None:
    first = model_folders.digest(str(model))
    assert first == model_folders.digest(str(model))
    (model / "config.json").write_text("{}")
    second = model_folders.digest(str(model))
    (model / "model.safetensors").write_bytes(b"0" * 2_000_001)
    assert len({first, second, model_folders.digest(str(model)), model_folders.digest("Qwen/Q")}) == 4
