"""Services as found in the wild: tests/cases/units/NAME.service, and beside it NAME.toml with what is expected."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectune.domain.knobs import KnobValue
from spectune.units.flags import Spellings
from spectune.units.service import ServiceUnit

FOLDER = Path(__file__).parents[1] / "cases" / "units"


@dataclass(frozen=True, slots=True)
class Case:
    """Attributes:
    argv, after: the engine's command line before and after the changes; None where the service is refused.
    refused: a part of the refusal; "" where both ways of changing work.
    drop_in_refused: a part of the refusal of the drop-in alone.
    edits: the file that is changed in place.
    text: the whole file after the change in place, where the case says it.
    keeps: what must still be in the file.
    real: whether a real systemd can run it as it stands.
    """

    service: ServiceUnit
    changes: Mapping[str, KnobValue | None]
    spellings: Spellings
    engine: str
    argv: tuple[str, ...] | None
    after: tuple[str, ...] | None
    refused: str
    drop_in_refused: str
    edits: str
    text: str | None
    keeps: tuple[str, ...]
    real: bool


def read(name: str) -> Case:
    unit = (FOLDER / f"{name}.service").read_bytes().decode()
    facts = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    unknown = facts.keys() - _KEYS
    assert not unknown, f"{name}.toml: unknown keys {unknown}"
    service = ServiceUnit(
        facts.get("name", f"{name}.service"),
        unit,
        facts.get("drop_ins", {}),
        facts.get("files", {}),
        facts.get("specifiers", {}),
        user=facts.get("user", False),
    )
    changes: dict[str, KnobValue | None] = {**facts.get("set", {}), **dict.fromkeys(facts.get("remove", []))}
    return Case(
        service,
        changes,
        Spellings(facts.get("aliases", {}), facts.get("switches", ()), facts.get("off", {})),
        facts.get("engine", ""),
        _argv(facts, "argv"),
        _argv(facts, "after"),
        facts.get("refused", ""),
        facts.get("drop_in_refused", ""),
        facts.get("edits", service.name),
        facts.get("text"),
        tuple(facts.get("keeps", ())),
        facts.get("real", True),
    )


def _argv(facts: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    return tuple(shlex.split(facts[key])) if key in facts else None


_KEYS = frozenset(
    {"name", "user", "engine", "argv", "after", "set", "remove", "aliases", "switches", "off", "specifiers", "refused"}
    | {"drop_in_refused", "edits", "text", "keeps", "real", "files", "drop_ins"}
)
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.service")))
CASES = {name: read(name) for name in NAMES}
