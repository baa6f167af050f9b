"""`spectune export` on a ledger that a real server filled, and what it says when there is nothing to give."""

from __future__ import annotations

import csv
import io
import json
import lzma
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectune.cli.main import app
from spectune.domain.errors import InputError

EVIDENCE = Path(__file__).parents[2] / "docs/evidence/h200"


def unpacked(name: str, into: Path) -> Path:
    (into / "ledger.sqlite").write_bytes(lzma.decompress((EVIDENCE / f"{name}.sqlite.xz").read_bytes()))
    return into


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("smollm2-draft", tmp_path_factory.mktemp("draft"))


def test_the_surface_of_a_real_campaign(drafted: Path) -> None:
    done = CliRunner().invoke(app, ["export", "--dir", str(drafted)])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {(row["method"], row["depth"]) for row in rows} >= {("none", "0"), ("draft", "3")}
    assert len({row["cell"] for row in rows}) == 10
    assert all(float(row["per_user_tok_s [tok/s]"]) > 0 for row in rows)


def test_the_acceptance_of_a_real_campaign(drafted: Path, tmp_path: Path) -> None:
    out = tmp_path / "acceptance.json"
    done = CliRunner().invoke(
        app, ["export", "h200-smollm2-draft", "--dir", str(drafted), "--what", "acceptance", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(out)
    found = json.loads(out.read_text(encoding="utf-8"))
    first = found["candidates"][0]
    assert first["arguments"] == ["--nextn", "3", "--nextn-accepted", "1.076"]
    assert 0 < first["nextn_accepted"] < first["nextn"]


def test_made_up_acceptance_is_not_given_and_it_says_so(tmp_path: Path) -> None:
    """The large model ran with dummy weights."""
    done = CliRunner().invoke(
        app, ["export", "--dir", str(unpacked("qwen35moe-8-layers", tmp_path)), "--what", "acceptance"]
    )
    assert json.loads(done.stdout)["candidates"] == []
    assert "nothing to export" in done.stderr


@pytest.mark.parametrize("words", [["nobody"], ["--dir", "/nowhere"], ["--out", "/dev/null/x.csv"]])
def test_what_is_wrong_is_one_clear_error(drafted: Path, words: list[str]) -> None:
    place = [] if "--dir" in words else ["--dir", str(drafted)]
    assert isinstance(CliRunner().invoke(app, ["export", *words, *place]).exception, InputError)
