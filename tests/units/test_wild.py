"""Every recorded service: what is found, what a change does, what is refused."""

from __future__ import annotations

import pytest

from spectune.domain.errors import InputError
from spectune.units.edit import DROP_IN, drop_in, edit
from spectune.units.find import find
from spectune.units.unit import Unit
from tests.units.cases import CASES, Case

ALL = [pytest.param(case, id=name) for name, case in CASES.items()]
FOUND = [pytest.param(case, id=name) for name, case in CASES.items() if case.argv is not None]
CHANGED = [pytest.param(case, id=name) for name, case in CASES.items() if not case.refused]
REFUSED = [pytest.param(case, id=name) for name, case in CASES.items() if case.refused]


def test_there_are_enough() -> None:
    assert len(CASES) >= 40
    assert all((case.after is None) == bool(case.refused) for case in CASES.values())


@pytest.mark.parametrize("case", ALL)
def test_every_byte_is_kept(case: Case) -> None:
    assert str(Unit.parse(case.service.text)) == case.service.text


@pytest.mark.parametrize("case", FOUND)
def test_the_command_line_is_found(case: Case) -> None:
    found = find(case.service)
    assert (found.engine, found.argv) == (case.engine, case.argv)


@pytest.mark.parametrize("case", CHANGED)
def test_the_file_is_changed(case: Case) -> None:
    edited = edit(case.service, case.changes, case.spellings)
    assert (edited.file, edited.before, edited.after) == (case.edits, case.argv, case.after)
    assert find(case.service.with_file(edited.file, edited.text)).argv == case.after
    if case.text is not None:
        assert edited.text == case.text
    for kept in case.keeps:
        assert kept in edited.text


@pytest.mark.parametrize("case", CHANGED)
def test_the_change_is_only_where_the_command_is(case: Case) -> None:
    edited = edit(case.service, case.changes, case.spellings)
    assert edited.diff
    old, new = Unit.parse(edited.old), Unit.parse(edited.text)
    assert [(item.section, item.key) for item in old.assignments] == [(i.section, i.key) for i in new.assignments]
    differing = [
        before.key
        for before, after in zip(old.assignments, new.assignments, strict=True)
        if before.value.text != after.value.text
    ]
    assert differing == ["ExecStart"]
    comments = [line for line in edited.old.splitlines() if line.lstrip().startswith(("#", ";"))]
    assert comments == [line for line in edited.text.splitlines() if line.lstrip().startswith(("#", ";"))]


@pytest.mark.parametrize("case", CHANGED)
def test_the_drop_in_gives_the_same_command(case: Case) -> None:
    if case.drop_in_refused:
        with pytest.raises(InputError) as refusal:
            drop_in(case.service, case.changes, case.spellings)
        assert case.drop_in_refused in refusal.value.message
        assert refusal.value.advice
        return
    dropped = drop_in(case.service, case.changes, case.spellings)
    assert (dropped.file, dropped.after) == (DROP_IN, case.after)
    changed = case.service.with_file(DROP_IN, dropped.text)
    assert find(changed).argv == case.after
    lines = case.service.effective("ExecStart")
    assert len(changed.effective("ExecStart")) == len(lines)
    assert drop_in(changed, case.changes, case.spellings).text == dropped.text


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("way", [edit, drop_in], ids=["edit", "drop-in"])
def test_it_is_refused(case: Case, way: type) -> None:
    with pytest.raises(InputError) as refusal:
        way(case.service, case.changes, case.spellings)
    assert case.refused in refusal.value.message
    assert refusal.value.advice
