"""The build hook: it compiles, or says why not, and leaves nothing half done."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from hatch_build import compiled


def test_a_library_is_made(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int two(void) { return 2; }")
    assert compiled(tmp_path / "a.c", tmp_path / "a.so") == ""
    assert ctypes.CDLL(str(tmp_path / "a.so")).two() == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.c", "a.so"]


@pytest.mark.parametrize(("compiler", "why"), [(None, "error"), ("no-such-compiler", "no-such-compiler")])
def test_what_goes_wrong_is_told_and_no_older_library_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiler: str | None, why: str
) -> None:
    (tmp_path / "a.c").write_text("this is no C")
    (tmp_path / "a.so").write_text("of an older version")
    if compiler:
        monkeypatch.setenv("CC", compiler)
    assert why in compiled(tmp_path / "a.c", tmp_path / "a.so")
    assert [path.name for path in tmp_path.iterdir()] == ["a.c"]


def test_without_a_compiler_that_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no C compiler" in compiled(tmp_path / "a.c", tmp_path / "a.so")
