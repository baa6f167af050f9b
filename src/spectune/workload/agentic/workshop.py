"""The code base of one session: a skeleton with its choices made, and its files as text."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml
from jinja2 import Environment, FunctionLoader, StrictUndefined

_TYPES: Mapping[str, Mapping[str, str]] = {
    "python": {"text": "str", "int": "int", "float": "float", "flag": "bool"},
    "typescript": {"text": "string", "int": "number", "float": "number", "flag": "boolean"},
    "go": {"text": "string", "int": "int", "float": "float64", "flag": "bool"},
}
_SQL = {"text": "TEXT", "int": "INTEGER", "float": "REAL", "flag": "INTEGER"}
_LAYOUT: Mapping[str, Mapping[str, str]] = {
    "python": {
        "model": "src/{project}/model.py",
        "store": "src/{project}/store.py",
        "service": "src/{project}/service.py",
        "test": "tests/test_service.py",
    },
    "typescript": {
        "model": "src/model.ts",
        "store": "src/store.ts",
        "service": "src/service.ts",
        "test": "test/service.test.ts",
    },
    "go": {"model": "model.go", "store": "store.go", "service": "service.go", "test": "service_test.go"},
}
_OTHERS: Mapping[str, Sequence[str]] = {
    "python": ("pyproject.toml", "README.md", "src/{project}/__init__.py", "src/{project}/api.py", "tests/conftest.py",
               "docs/operations.md", ".github/workflows/test.yml"),
    "typescript": ("package.json", "tsconfig.json", "README.md", "src/routes.ts", "src/main.ts",
                   "test/memory_store.ts", "migrations/001_start.sql"),
    "go": ("go.mod", "go.sum", "README.md", "handlers.go", "main_test.go", "cmd/server/main.go",
           "migrations/0001_start.sql", "Makefile"),
}  # fmt: skip
_COMMANDS = {"python": "pytest -q", "typescript": "npx vitest run", "go": "go test ./..."}


@dataclass(frozen=True, slots=True)
class Workshop:
    """A code base.

    Attributes:
        skeleton: id of the skeleton that it was made from.
        language: of its files.
        story: what kind of work is done on it.
        project: its name.
        task: what the user asks for.
        files: part ("model", "store", "service", "test") -> path.
        texts: path -> content, for those parts.
        others: paths that are listed but never read.
        rule: name of the function that the task is about, as the language spells it.
        before, after: the line to change and what it becomes.
        test_command: runs its tests.
        entity: what it is about.
    """

    skeleton: str
    language: str
    story: str
    project: str
    task: str
    files: Mapping[str, str]
    texts: Mapping[str, str]
    others: tuple[str, ...]
    rule: str
    before: str
    after: str
    test_command: str
    entity: str


@cache
def skeletons() -> tuple[Mapping[str, Any], ...]:
    """All skeletons, as written."""
    loaded: list[dict[str, Any]] = yaml.safe_load(_resource("skeletons.yaml"))
    return tuple(loaded)


def make(skeleton: Mapping[str, Any], rng: random.Random) -> Workshop:
    """A code base from a skeleton, its names and numbers drawn."""
    language = skeleton["language"]
    project = rng.choice(skeleton["projects"])
    entity, entities = rng.choice(skeleton["entities"])
    step = rng.choice((2, 3, 5, 7, 10))
    context: dict[str, Any] = {
        "project": project,
        "about": skeleton["about"],
        "entity": entity,
        "entities": entities,
        "Entity": pascal(entity),
        "ENTITY": entity.upper(),
        "fields": [_field(spec, language, rng) for spec in skeleton["fields"]],
        "states": skeleton["states"],
        "amount": skeleton["amount"],
        "amount_type": _amount_type(skeleton, language),
        "rule_name": skeleton["rule_name"],
        "threshold": rng.choice((200, 250, 400, 500, 750, 1000, 1200, 2500, 5000)),
        "limit": rng.choice((20, 25, 32, 40, 50, 64, 80, 100)),
        "timeout": rng.choice((2, 3, 5, 8, 10, 15)),
        "step": step,
        "sample_id": f"{entity[0]}{rng.randint(100, 9999)}",
    }
    for name in ("rule", "expected", "before", "after"):
        context[name] = _spelled(_environment().from_string(skeleton[name]).render(context).rstrip(), language)
    files = {part: path.format(project=project) for part, path in _LAYOUT[language].items()}
    return Workshop(
        skeleton=skeleton["id"],
        language=language,
        story=skeleton["story"],
        project=project,
        task=rng.choice(skeleton["tasks"]),
        files=files,
        texts={path: _render(language, part, context) for part, path in files.items()},
        others=tuple(path.format(project=project) for path in _OTHERS[language]),
        rule=_SPELLINGS[language](skeleton["rule_name"]),
        before=context["before"],
        after=context["after"],
        test_command=_COMMANDS[language],
        entity=entity,
    )


def pascal(name: str) -> str:
    """spare_part -> SparePart."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def camel(name: str) -> str:
    """spare_part -> sparePart."""
    whole = pascal(name)
    return whole[:1].lower() + whole[1:]


def _snake(name: str) -> str:
    return name


_SPELLINGS: Mapping[str, Callable[[str], str]] = {"python": _snake, "typescript": camel, "go": pascal}
"""How each language spells the name of a function."""


def _field(spec: Sequence[Any], language: str, rng: random.Random) -> dict[str, Any]:
    name, kind, sample, about = spec
    if kind == "text":
        literal = f'"{sample}"'
    elif kind == "flag":
        literal = str(sample) if language == "python" else str(sample).lower()
    elif kind == "int":
        literal = str(sample + rng.randint(0, 9))
    else:
        literal = str(round(sample * rng.choice((0.5, 0.8, 1.0, 1.5, 2.0)), 3))
    return {
        "name": name,
        "type": _TYPES[language][kind],
        "sql": _SQL[kind],
        "numeric": kind in {"int", "float"},
        "literal": literal,
        "about": about,
    }


def _amount_type(skeleton: Mapping[str, Any], language: str) -> str:
    kind = next(kind for name, kind, *_ in skeleton["fields"] if name == skeleton["amount"])
    return _TYPES[language][kind]


def _render(language: str, part: str, context: Mapping[str, Any]) -> str:
    return _environment().get_template(f"{language}/{part}.j2").render(context).rstrip() + "\n"


def _spelled(code: str, language: str) -> str:
    """Go is indented by tabs, which YAML does not allow."""
    return code.replace("    ", "\t") if language == "go" else code


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FunctionLoader(lambda name: _resource("templates", *name.split("/"))),
        variable_start_string="[[",
        variable_end_string="]]",
        block_start_string="[%",
        block_end_string="%]",
        comment_start_string="[#",
        comment_end_string="#]",
        line_statement_prefix="%%",
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters.update(pascal=pascal, camel=camel)
    return made


def _resource(*names: str) -> str:
    return resources.files("spectune.workload.agentic").joinpath(*names).read_text(encoding="utf-8")
