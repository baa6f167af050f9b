"""Every ledger among the evidence can be read, and its report rebuilt, by the spectune of today."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectune.cli.main import app

EVIDENCE = Path(__file__).parents[1] / "docs/evidence"


@pytest.mark.parametrize("packed", sorted(EVIDENCE.rglob("*.sqlite.xz")), ids=lambda path: path.name.split(".")[0])
def test_its_report_can_be_rebuilt(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(lzma.decompress(packed.read_bytes()))
    done = CliRunner().invoke(app, ["report", "--dir", str(tmp_path), "--format", "md"])
    assert done.exit_code == 0, done.output
    assert "| " in done.stdout
