"""Identity: whose server answers, since when, with which model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.deployment import Exit, ListenerOwner, Page
from spectune.domain.finding import Status
from spectune.verify import identity
from spectune.verify.observed import Observed
from tests.verify.builders import EVIDENCE, MODEL, SERVICE, asked, evidence, seen

OK, VIOLATED, UNKNOWN = Status.OK, Status.VIOLATED, Status.UNKNOWN
SILENT = {"/slots": Page(0, "")}


@pytest.mark.parametrize(
    ("owner", "status"),
    [
        (ListenerOwner.OURS, OK),
        (ListenerOwner.FOREIGN, VIOLATED),
        (ListenerOwner.NONE, VIOLATED),
        (ListenerOwner.UNKNOWN, UNKNOWN),
    ],
)
def test_listener(owner: ListenerOwner, status: Status) -> None:
    found = identity.listener(asked(), evidence(listener=owner))
    assert found.status is status
    assert "http://127.0.0.1:8080" in found.asked


@pytest.mark.parametrize(
    ("observed", "status", "words"),
    [
        (evidence(), OK, "runs"),
        (evidence(listener=ListenerOwner.UNKNOWN), OK, "runs"),
        (evidence(exit=Exit(-9, "loading\nout of memory\n")), VIOLATED, "code -9: out of memory"),
        (evidence(exit=Exit(1, "")), VIOLATED, "code 1"),
        (evidence(listener=ListenerOwner.UNKNOWN, pages=SILENT), UNKNOWN, "nothing answers"),
        (evidence(listener=ListenerOwner.NONE, pages={}), UNKNOWN, "nothing answers"),
    ],
)
def test_alive(observed: Observed, status: Status, words: str) -> None:
    found = identity.alive(asked(), observed)
    assert found.status is status
    assert words in found.seen


@pytest.mark.parametrize(
    ("at", "status"),
    [
        (1000.0, OK),
        (1030.0, OK),
        (998.5, OK),
        (997.0, VIOLATED),
        (0.0, VIOLATED),
        (None, UNKNOWN),
        (float("nan"), UNKNOWN),
    ],
)
def test_started(at: float | None, status: Status) -> None:
    assert identity.started(asked(), evidence(started_unix=at)).status is status


@pytest.mark.parametrize(
    ("model_id", "model", "status"),
    [
        ("small", MODEL, OK),
        ("small", "/models/./small.gguf", OK),
        ("small", "small.gguf", OK),
        ("small", "/old/small.gguf", VIOLATED),
        ("large", MODEL, VIOLATED),
        ("large", None, VIOLATED),
        (None, MODEL, UNKNOWN),
        ("small", None, UNKNOWN),
    ],
)
def test_model(model_id: str | None, model: str | None, status: Status) -> None:
    assert identity.model(asked(), seen(model_id=model_id, model=model)).status is status


def test_the_id_alone_counts_where_no_path_is_asked() -> None:
    wanted = replace(asked(), service=replace(SERVICE, model=""))
    assert identity.model(wanted, seen(model=None)).status is OK
    assert identity.model(wanted, seen(model="/other")).status is OK


def test_a_command_line_proves_nothing_about_a_foreign_or_dead_process() -> None:
    assert evidence().ours
    assert not evidence(listener=ListenerOwner.FOREIGN).ours
    assert not evidence(exit=Exit(0, "")).ours
    assert EVIDENCE.exit is None
