"""What becomes of a campaign whose winner can't be promoted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spectune.cli import run, work
from spectune.cli.exits import ExitCode
from spectune.domain.errors import EngineFailure, FailureKind, InputError, SpectuneError
from spectune.domain.verdict import Conclusion
from tests.report import sample

WINNER = Conclusion("d3", True, "faster")


def _refused(monkeypatch: pytest.MonkeyPatch, error: SpectuneError) -> work.Work:
    def promote(*_: object) -> None:
        raise error

    monkeypatch.setattr(work, "_promote", promote)
    monkeypatch.setattr(work.Work, "history", property(lambda _: sample.decided()))
    one = work.Work(sample.decided().opened.spec, Path(), cast(Any, None), "", new=True)
    one.campaign_id = "c1"
    assert one._ended(cast(Any, SimpleNamespace()), cast(Any, None), WINNER) is WINNER
    return one


@pytest.mark.parametrize(
    "error", [InputError("not promoted", "Say why."), EngineFailure(FailureKind.PORT_TAKEN, "it did not come up")]
)
def test_the_answer_is_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], error: SpectuneError
) -> None:
    one = _refused(monkeypatch, error)
    monkeypatch.setattr(run, "Work", lambda *_: one)
    monkeypatch.setattr(one, "to_the_end", lambda: WINNER)
    if isinstance(error, InputError):
        assert run._campaign(one.history.opened.spec, tmp_path, False, False, "") is ExitCode.UNDECIDED
        assert "not promoted" in capsys.readouterr().err
    else:
        with pytest.raises(EngineFailure):
            run._campaign(one.history.opened.spec, tmp_path, False, False, "")
    assert (tmp_path / "c1.html").exists()
