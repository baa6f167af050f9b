"""Real parts that tests run against: llama-server, and tiny models that it serves within a second."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from spectune.domain.errors import SpectuneError
from spectune.provision import models
from tests.support import engine
from tests.support.tiny_gguf import make_tiny

# Machines that run the tests are shared: how long an example takes says nothing about the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture(scope="session")
def llama_server() -> Path:
    """The server program; scripts/test builds it ahead. Fails rather than skips, so that CI can't pass without it."""
    try:
        return engine.get()
    except SpectuneError as error:
        pytest.fail(f"{error.message}\n{error.advice}")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The built-in model."""
    return models.ensure_builtin(lambda text, fraction: None)


@pytest.fixture(scope="session")
def tiny_pair(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Target and draft with random weights and the tokenizer of the built-in model."""
    folder = tmp_path_factory.mktemp("tiny")
    target, draft = folder / "target.gguf", folder / "draft.gguf"
    make_tiny(smollm2, target, seed=1)
    make_tiny(smollm2, draft, layers=1, seed=2)
    return target, draft
