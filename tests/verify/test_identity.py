"""Identity: whose server answers, since when, with which model."""

from __future__ import annotations

from spectune.domain.deployment import Exit, ListenerOwner
from spectune.verify import identity
from tests.verify.builders import EVIDENCE, asked, evidence


def test_the_listener_is_asked_for_by_its_url() -> None:
    assert "http://127.0.0.1:8080" in identity.listener(asked(), evidence()).asked


def test_a_command_line_proves_nothing_about_a_foreign_or_dead_process() -> None:
    assert evidence().ours
    assert not evidence(listener=ListenerOwner.FOREIGN).ours
    assert not evidence(exit=Exit(0, "")).ours
    assert EVIDENCE.exit is None
