"""spectune as a user runs it: a process of its own, on a real llama-server with tiny models."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from spectune import assemble
from spectune.cli.main import main
from spectune.domain.history import History

SPECTUNE = [sys.executable, "-m", "spectune"]


@dataclass
class Desk:
    """A directory with a campaign file in it, and what a user does there."""

    folder: Path
    file: Path = field(init=False)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file = self.folder / "campaign.yaml"

    @property
    def runs(self) -> Path:
        return self.folder / "spectune-runs"

    def write(self, document: Mapping[str, Any]) -> None:
        self.file.write_text(yaml.safe_dump(dict(document)), encoding="utf-8")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts a command and leaves it running."""
        process = subprocess.Popen(
            [*SPECTUNE, *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.started.append(process)
        return process

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        command = [*SPECTUNE, *words]
        return subprocess.run(command, check=False, cwd=self.folder, capture_output=True, text=True, timeout=200)

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end within this process: sooner, as nothing is imported anew."""
        out, err = io.StringIO(), io.StringIO()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        code: object = None
        try:
            with (
                pytest.MonkeyPatch.context() as patch,
                contextlib.chdir(self.folder),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
            ):
                patch.setattr(sys, "argv", ["spectune", *words])
                main()
        except SystemExit as end:
            code = end.code
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        assert isinstance(code, int)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def servers(self) -> list[psutil.Process]:
        """Servers of this desk's campaigns that are alive."""
        found = []
        for process in psutil.process_iter(["name", "cmdline"]):
            words = process.info["cmdline"] or []
            if str(self.folder) in " ".join(words) and "--port" in words and "guard.py" not in " ".join(words):
                found.append(process)
        return found

    def history(self) -> History:
        with assemble.readable(self.runs) as ledger:
            return assemble.find_campaign(ledger, None)[1]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


Campaign = Callable[..., dict[str, Any]]


@pytest.fixture
def campaign(desk: Desk, llama_server: Path, tiny_pair: tuple[Path, Path]) -> Campaign:
    """A small campaign on tiny models: seconds a trial, and drafts of a random model, which are never accepted."""
    target, draft = (link_into(desk.folder, path) for path in tiny_pair)

    def make(**changes: Any) -> dict[str, Any]:
        document: dict[str, Any] = {
            "name": "tiny",
            "service": {
                "binary": str(llama_server),
                "model": str(target),
                "args": {"threads": 1, "ctx-size": 2048, "parallel": 2},
            },
            # Tries every depth, however bad: these drafts never pay, and a search that foresees it would end at once.
            "search": {
                "speculation": [{"method": "draft", "depths": [1, 2], "draft_model": str(draft)}],
                "strategy": "grid",
            },
            "workload": {"concurrency": [1, 2], "temperatures": [0.0], "max_tokens": 12},
            "budget": {"minutes": 5, "trials": 12, "cell_seconds": 0.5, "confirm_pairs": 1},
        }
        for path, value in changes.items():
            *parents, last = path.split("__")
            place = document
            for parent in parents:
                place = place[parent]
            place[last.replace("_", "-") if parents[-1:] == ["args"] else last] = value
        desk.write(document)
        return document

    return make


def link_into(folder: Path, path: Path) -> Path:
    """The model under the desk's own path, so that its servers are told from those of other tests."""
    link = folder / path.name
    link.hardlink_to(path)
    return link
