"""The campaign file: YAML in, a checked specification out, and one clear error for whatever is wrong."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from spectune.domain.errors import InputError
from spectune.domain.spec import CampaignSpec, CandidateSpec, SpeculationSpace
from spectune.domain.workload import source_with_paths

_ADAPTER: TypeAdapter[CampaignSpec] = TypeAdapter(CampaignSpec)

_Path = tuple[str | int, ...]
_LISTS: Mapping[str | int, str] = {
    "temperatures": "[0, 0.7] (numbers)",
    "concurrency": "[1, 4, 16] (requests in flight)",
    "rates": "[2, 8] (requests per second)",
    "depths": "[1, 3, 5] (tokens)",
    "domains": "[code_edit, chat] (names)",
}
"""What lists look like, by their key."""
_WORDS = {"None": "nothing", "True": "true", "False": "false"}
"""As Python writes it -> as a file's writer knows it."""
_Drafting = TypeVar("_Drafting", SpeculationSpace, CandidateSpec)


def load(path: Path) -> CampaignSpec:
    """Reads a campaign file. Paths in it are taken relative to the file.

    Raises:
        InputError: with the file, the line, the key, what was expected and the nearest valid spelling.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", "Write one with: spectune init") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text", "A campaign file is YAML; write one with: spectune init"
        ) from error
    return _with_paths(parse(text, str(path)), path.resolve().parent)


def parse(text: str, name: str) -> CampaignSpec:
    """Checks the text of a campaign file; `name` is used in errors. A key without a value, as is left where all below
    it was commented out, is the same as none.

    Raises:
        InputError: see load.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{name}: not valid YAML: {_first_line(error)}") from error
    except ValueError as error:  # A date that there is not, a number of thousands of digits.
        raise InputError(f"{name}: a value can't be read: {error}", "In quotes it is text.") from error
    if not isinstance(data, dict) or node is None:
        raise InputError(f"{name}: expected keys such as 'name' and 'service', found {_kind(data)}")
    lines: dict[_Path, int] = {}
    _index(node, (), lines, name)
    try:
        return _ADAPTER.validate_python(_filled(data, CampaignSpec))
    except ValidationError as error:
        raise InputError(_explain(error, lines, name), "spectune schema prints every key with its meaning.") from error


def schema() -> str:
    """The JSON Schema of campaign files, for editors."""
    document = _ADAPTER.json_schema()
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = "spectune campaign file"
    return json.dumps(document, indent=2) + "\n"


def _with_paths(spec: CampaignSpec, folder: Path) -> CampaignSpec:
    """Paths relative to the campaign file made absolute. Links are kept: the python of a virtual environment is one."""

    def absolute(value: str) -> str:
        return os.path.abspath(folder / Path(value).expanduser())

    def model(value: str) -> str:
        on_a_hub = spec.service.engine != "llama.cpp" and value.count("/") == 1 and value[0] not in "./~"
        return value if value == "builtin" or (on_a_hub and not Path(absolute(value)).exists()) else absolute(value)

    def drafting(space: _Drafting) -> _Drafting:
        return dataclasses.replace(space, draft_model=space.draft_model and model(space.draft_model))

    service = spec.service
    binary = absolute(service.binary) if "/" in service.binary else service.binary
    service = dataclasses.replace(service, model=model(service.model), binary=binary)
    search = dataclasses.replace(
        spec.search,
        speculation=tuple(map(drafting, spec.search.speculation)),
        candidates=tuple(map(drafting, spec.search.candidates)),
    )
    workload = dataclasses.replace(spec.workload, source=source_with_paths(spec.workload.source, absolute))
    return dataclasses.replace(spec, service=service, search=search, workload=workload)


def _index(node: yaml.Node, path: _Path, lines: dict[_Path, int], name: str) -> None:
    """Remembers the line of every key and item, and refuses a key given twice, of which YAML keeps only the last."""
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _index(item, (*path, index), lines, name)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            child = (*path, str(key.value))
            if child in lines:
                line = key.start_mark.line + 1
                raise InputError(
                    f"{name}, line {line}: '{_dotted(child)}' is given twice (first on line {lines[child]})"
                )
            _index(value, child, lines, name)
            lines[child] = key.start_mark.line + 1


def _filled(data: Mapping[str, object], kind: type) -> dict[str, object]:
    """Without the keys that hold nothing, except where nothing is a value."""
    hints = typing.get_type_hints(kind)
    left = {key: value for key, value in data.items() if value is not None or _may_be_none(hints.get(key))}
    return {
        key: _filled(value, hints[key])
        if isinstance(value, dict) and dataclasses.is_dataclass(hints.get(key))
        else value
        for key, value in left.items()
    }


def _may_be_none(hint: object) -> bool:
    """Whether None is of this type; an unknown key's, too, so that it is told."""
    return hint is None or type(None) in typing.get_args(hint)


def _explain(error: ValidationError, lines: Mapping[_Path, int], name: str) -> str:
    """All problems, in the order of the file."""
    problems: dict[_Path, str] = {}
    for item in error.errors(include_url=False):
        path = _known_part(tuple(item["loc"]), lines)
        problems.setdefault(path, _problem(path, item))
    roots = [path for path in problems if not any(other[: len(path)] == path for other in problems if other != path)]
    ordered = sorted(roots, key=lambda path: lines.get(path, 0))
    return "\n".join(f"{name}, line {_line(path, lines)}: {problems[path]}" for path in ordered)


def _problem(path: _Path, item: Any) -> str:
    dotted = _dotted(path)
    if item["type"] == "unexpected_keyword_argument":
        known = _fields_at(path[:-1])
        close = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'?" if close else f"known here: {', '.join(known)}"
        return f"unknown key '{dotted}'; {hint}"
    if item["type"] in {"missing", "missing_argument"}:
        return f"'{dotted}' is missing"
    if item["type"] in {"enum", "literal_error"}:
        words = re.findall(r"'([^']+)'", str(item["ctx"]["expected"]))
        close = difflib.get_close_matches(str(item["input"]), words, n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        return f"'{dotted}' should be one of {', '.join(words)}, found {_shown(item['input'])}{hint}"
    if item["type"] in {"tuple_type", "list_type"}:
        return f"'{dotted}' should be a list, such as {_LISTS.get(path[-1], '[...]')}, found {_shown(item['input'])}"
    if item["type"] in {"dict_type", "dataclass_type"}:
        names = ", ".join(_fields_at(path)) or "names of your own"
        return f"'{dotted}' should hold keys with values (known here: {names}), found {_shown(item['input'])}"
    if item["type"] in {"string_type", "invalid_key"}:
        return f"'{dotted}' should be text, found {_shown(item['input'])}; quotes make it text"
    if item["type"] == "int_parsing_size":
        return f"'{dotted}' should have fewer digits, found {_shown(item['input'])}"
    message = re.sub(r"^(Input|Value|String|Tuple|Dictionary|Mapping) ", "", str(item["msg"])).split(
        " after validation"
    )[0]
    return f"'{dotted}' {message}, found {_shown(item['input'])}"


def _known_part(loc: _Path, lines: Mapping[_Path, int]) -> _Path:
    """The location without pydantic's own additions (names of union branches), which are no part of the file."""
    path: _Path = ()
    for part in loc:
        if (*path, part) in lines:
            path = (*path, part)
        elif (*path, str(part)) in lines:
            path = (*path, str(part))
    last = loc[-1] if loc else ""
    missing = isinstance(last, str) and path == loc[:-1] and last in _fields_at(path)
    return (*path, last) if missing else path


def _line(path: _Path, lines: Mapping[_Path, int]) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _fields_at(path: _Path) -> list[str]:
    """Keys of the dataclass that a path of the file leads to; none where it leads to a free mapping."""
    kind: Any = CampaignSpec
    for part in path:
        if dataclasses.is_dataclass(kind):
            kind = typing.get_type_hints(kind).get(str(part))
        elif isinstance(part, int):
            kind = next((arg for arg in typing.get_args(kind) if dataclasses.is_dataclass(arg)), None)
        while typing.get_origin(kind) in {typing.Union, types.UnionType}:
            kind = next((arg for arg in typing.get_args(kind) if arg is not type(None)), None)
    return [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []


def _dotted(path: _Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the file"


def _shown(value: object) -> str:
    text = _WORDS.get(repr(value), repr(value))
    return text if len(text) <= 60 else text[:57] + "..."


def _kind(data: object) -> str:
    return "nothing" if data is None else f"a {type(data).__name__}"


def _first_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}: {problem}" if mark else problem
