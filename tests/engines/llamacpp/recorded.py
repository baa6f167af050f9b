"""Recorded outputs of a real llama-server."""

from __future__ import annotations

from pathlib import Path

from spectune.domain.deployment import Evidence, ListenerOwner, Page

CASES = Path(__file__).parents[2] / "cases" / "llamacpp" / "b11434"
HELP = (CASES / "help.txt").read_text("utf-8")
_PAGES = {
    "/v1/models": "models.json",
    "/props": "props.json",
    "/slots": "slots.json",
    "/metrics": "metrics.txt",
}


def started(name: str, pages: bool = True) -> Evidence:
    """What was observed of a server that got ready and answered some requests."""
    folder = CASES / "started" / name
    found = {path: folder / file for path, file in _PAGES.items() if pages and (folder / file).exists()}
    return Evidence(
        (folder / "server.log").read_text("utf-8"),
        {path: Page(200, file.read_text("utf-8")) for path, file in found.items()},
        ListenerOwner.OURS,
    )


def failed(name: str) -> str:
    """The log of a server that ended by itself, with code 1."""
    return (CASES / "failed" / f"{name}.log").read_text("utf-8")


FAILED = tuple(sorted(path.stem for path in (CASES / "failed").iterdir()))
STARTED = tuple(sorted(path.name for path in (CASES / "started").iterdir()))
