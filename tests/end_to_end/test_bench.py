"""`spectune bench` as a load tester on a real llama-server that somebody else started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Desk
from tests.support.started import llama

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


@pytest.fixture
def url(llama_server: Path, tiny_pair: tuple[Path, Path], tmp_path: Path) -> Iterator[str]:
    """A server on the tiny target that drafts from what it has seen."""
    command = [str(llama_server), "-m", str(tiny_pair[0]), "-c", "4096", "-np", "2", "-t", "1", "--metrics"]
    with llama([*command, "--spec-type", "ngram-simple"], tmp_path / "server.log") as found:
        yield found


def test_a_run_is_saved_and_does_not_differ_from_itself(desk: Desk, url: str) -> None:
    done = desk.run(
        "bench", url, "--concurrency", "2", "--rates", "8", "--arrival", "constant", "--seconds", "2",
        "--max-tokens", "16", "--slo", "ttft<30", "--save", "run.json", "--records",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # Cells of the table are folded where others get wide; lines of progress are not.
    assert "per user" in done.stdout
    assert "8 req/s constant, model's own sampling" in done.stderr
    saved = json.loads((desk.folder / "run.json").read_text())
    assert saved["engine"] == "llama.cpp"
    assert saved["engine_version"]
    assert len(saved["records"]["r8constant Tdefault"]) >= 8

    compared = desk.call("bench", "compare", "run.json", "run.json", "--json")
    assert compared.returncode == 0, compared.stderr
    differences = [d for level in json.loads(compared.stdout)["levels"] for d in level["differences"]]
    assert {"per_user_tok_s", "ttft_s", "goodput_requests_s"} <= {d["metric"] for d in differences}
    # On a machine that is busy, two seconds can be too few requests for some of them.
    assert {d["word"] for d in differences} - {"not comparable"} == {"no difference shown"}
    assert all(d["ratio"]["value"] == 1 for d in differences if d["ratio"])


# tests/cli/test_bench.py has it with a small server in place of an engine.
@pytest.mark.slow
def test_what_flatters_is_set_beside_the_workload(desk: Desk, url: str) -> None:
    done = desk.run(
        "bench", url, "--concurrency", "1", "--seconds", "1", "--max-tokens", "32", "--compare-workloads", "--json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (level,) = found["levels"]
    assert level["flattering"]["value"] > 10
    assert level["asked"]["value"] > 10
    assert level["ratio"]["value"] == pytest.approx(level["flattering"]["value"] / level["asked"]["value"])
    assert found["meaning"]
