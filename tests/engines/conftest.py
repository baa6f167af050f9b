"""A real llama-server and tiny models, where the environment names them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _from_environment(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set")
    return Path(value)


@pytest.fixture(scope="session")
def llama_server() -> Path:
    """The server program."""
    return _from_environment("SPECTUNE_LLAMA_SERVER")


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Target and draft with random weights and the tokenizer of SPECTUNE_MODEL."""
    from tests.support.tiny_gguf import make_tiny

    source = _from_environment("SPECTUNE_MODEL")
    folder = tmp_path_factory.mktemp("tiny")
    target, draft = folder / "target.gguf", folder / "draft.gguf"
    make_tiny(source, target, seed=1)
    make_tiny(source, draft, layers=1, seed=2)
    return target, draft
