"""Imports go one way: cli -> assemble -> (campaign, rooms) -> domain, and rooms do not know each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import spectune
from spectune import assemble

ROOT = Path(spectune.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Rooms of spectune that a module imports; "__init__" for the package itself."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names = [node.module] if node.module != "spectune" else [f"spectune.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "spectune":
                rooms.add(parts[1] if len(parts) > 1 and not parts[1].startswith("__") else "__init__")
    return rooms


def allowed(room: str) -> set[str]:
    match room:
        case "domain" | "__init__":
            return {"domain"}
        case "campaign":
            return {"domain", "attempt", "rooms"}
        case "attempt":
            return {"domain", "rooms"}
        case "assemble":
            return {name for name in map(room_of, MODULES) if name != "cli"}
        case "cli" | "__main__":
            return {"cli", "assemble", "domain", "__init__", "report"}
        case _:
            return {room, "domain", "__init__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    wrong = imported_rooms(path) - allowed(room_of(path))
    assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


def imported_engines(path: Path) -> set[str]:
    """Packages of spectune.engines that a module imports: engines, and "common", what they share."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[2] for name in names if name.startswith("spectune.engines.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_engines_share_common_and_nothing_else(path: Path) -> None:
    own = path.relative_to(ROOT).parts[1] if room_of(path) == "engines" else ""
    imported = imported_engines(path)
    if own == "common":
        assert imported <= {"common"}
    elif own:
        assert imported <= {own, "common"}
    else:
        assert "common" not in imported


def test_the_check_sees_imports() -> None:
    assert imported_engines(ROOT / "engines" / "busy.py") == {"common"}
    assert "domain" in imported_rooms(ROOT / "campaign.py")


@pytest.mark.parametrize("path", sorted((ROOT / "domain").glob("*.py")), ids=lambda path: path.name)
def test_domain_has_no_effects(path: Path) -> None:
    effects = {"os", "socket", "subprocess", "time", "random", "pathlib", "httpx", "threading", "asyncio"}
    imports = {
        alias.name.split(".")[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert not imports & effects


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_fit_in_the_head(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_what_assemble_offers_does_not_go_by_the_name_of_one_of_its_files() -> None:
    """A file that is imported would take the name's place."""
    files = {path.stem for path in (ROOT / "assemble").glob("*.py")}
    assert files.isdisjoint(assemble.__all__)
