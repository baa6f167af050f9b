"""What the documents say is true: commands exist, generated files are up to date, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectune.cli import campaign_file, metrics_page, template
from spectune.cli.main import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = sorted(
    {
        match.strip()
        for document in DOCUMENTS
        for block in re.findall(r"```\w*\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
        for match in re.findall(r"^(spectune [^#\n]*)", block, re.MULTILINE)
    }
)


def test_there_are_commands_in_the_documents() -> None:
    assert any(command.startswith("spectune run") for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_documents_exist_with_their_options(command: str) -> None:
    _, name, *words = command.split()
    help_text = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output
    assert "Usage" in help_text
    for word in words:
        if word.startswith("--"):
            assert word.split("=")[0] in help_text


@pytest.mark.parametrize("script", ["scripts/demo", "scripts/test"])
def test_the_two_commands_of_the_readme_are_programs(script: str) -> None:
    assert script in (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / script).stat().st_mode & 0o111


def test_ci_runs_the_readmes_test_command() -> None:
    assert "scripts/test" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_the_published_schema_is_up_to_date() -> None:
    assert (ROOT / "docs/campaign.schema.json").read_text(encoding="utf-8") == campaign_file.schema()


def test_the_page_of_metrics_is_up_to_date() -> None:
    assert (ROOT / "docs/metrics.md").read_text(encoding="utf-8") == metrics_page.page()


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_examples_are_valid(path: Path) -> None:
    spec = campaign_file.parse(path.read_text(encoding="utf-8"), path.name)
    assert campaign_file.parse(template.render(spec), path.name) == spec


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_named_in_the_text_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:src|tests|docs|scripts|bench|examples)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name
