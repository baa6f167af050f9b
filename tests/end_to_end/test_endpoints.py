"""`spectune bench` and `verify` on a real llama-server that somebody else started."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Desk
from tests.support.started import llama

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

Serve = Callable[..., str]


@pytest.fixture
def serve(llama_server: Path, tiny_pair: tuple[Path, Path], tmp_path: Path) -> Iterator[Serve]:
    """Starts a server on the tiny target and returns its URL."""
    with ExitStack() as started:

        def start(*flags: str) -> str:
            command = [str(llama_server), "-m", str(tiny_pair[0]), "-c", "2048", "-np", "2", "-t", "1", "--metrics"]
            return started.enter_context(llama([*command, *flags], tmp_path / "server.log"))

        yield start


def test_bench_measures_each_level(desk: Desk, serve: Serve) -> None:
    done = desk.run(
        "bench", serve(), "--concurrency", "1,2", "--seconds", "1", "--max-tokens", "16", "--temperature", "0", "--json"
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    assert [cell["cell"]["level"]["value"] for cell in cells] == [1, 2]
    for cell in cells:
        assert cell["requests"]["ok"] >= 4
        assert cell["metrics"]["per_user_tok_s"]["value"] > 10
        counted = cell["counters_after"]["output_tokens"] - cell["counters_before"]["output_tokens"]
        assert counted > 0
    # The server's own counter agrees with the client's: no doubt of that name.
    assert not any(doubt["name"] == "tokens-differ-from-server" for cell in cells for doubt in cell["doubts"])


def test_verify_passes_a_server_that_does_what_it_says(desk: Desk, serve: Serve, tmp_path: Path) -> None:
    url = serve()
    done = desk.run("verify", url, "--json")
    assert "not checked without a log: adjustments-allowed, output-valid, new-warnings" in done.stderr
    findings = {finding["check"]: finding for finding in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert findings["speculation-live"]["status"] == "ok"
    assert findings["generation"]["status"] == "ok"
    assert not any(finding["status"] == "violated" for finding in findings.values())
    with_log = desk.run("verify", url, "--log", str(tmp_path / "server.log"))
    assert with_log.returncode == 0, with_log.stdout
    assert all(
        f"ok        {name} " in with_log.stdout for name in ("adjustments-allowed", "output-valid", "new-warnings")
    )


def test_verify_catches_a_draft_model_that_was_silently_dropped(
    desk: Desk, serve: Serve, tiny_pair: tuple[Path, Path]
) -> None:
    # Without --spec-type the draft model is loaded, then ignored, and /health is green.
    url = serve("-md", str(tiny_pair[1]))
    done = desk.run("verify", url, "--method", "draft", "--depth", "3")
    assert done.returncode == 3, done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("violated")]
    assert any("speculation-live" in line for line in lines), done.stdout
    assert any("drafting-happened" in line for line in lines), done.stdout
