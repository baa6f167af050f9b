"""Paths that are no ledger, can't be one, or are damaged: one clear error each, and nothing lost."""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from spectune.domain.errors import LedgerError, LedgerTooNew
from spectune.ledger import SqlLedger
from tests.ledger.samples import measured, opened, started, trial_events

Way = Callable[[Path], AbstractContextManager[SqlLedger]]
BOTH = pytest.mark.parametrize("way", [SqlLedger.open_path, SqlLedger.read_only], ids=["write", "read"])


def _refusal(way: Way, path: Path) -> LedgerError:
    with pytest.raises(LedgerError) as caught, way(path):
        pass
    assert str(path) in caught.value.message
    assert caught.value.advice
    return caught.value


def test_parents_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "ledger.db"
    with SqlLedger.open_path(path) as ledger:
        ledger.open(opened())
    assert path.exists()


@pytest.mark.parametrize("name", ["a b?c=d&e#f%41.db", "ünï\N{SNOWMAN}.db", "-x.db", "file:y.db", ":memory:"])
def test_names_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    with SqlLedger.open_path(tmp_path / name) as ledger:
        campaign = ledger.open(opened())
    with SqlLedger.read_only(tmp_path / name) as ledger:
        assert list(ledger.events(campaign)) == [opened()]
    assert (tmp_path / name).stat().st_size > 0


def test_a_link_leads_to_the_same_lock(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    with (
        SqlLedger.open_path(tmp_path / "link.db"),
        pytest.raises(LedgerError, match="another spectune"),
        SqlLedger.open_path(tmp_path / "real.db"),
    ):
        pass


@BOTH
def test_a_directory(way: Way, tmp_path: Path) -> None:
    assert "is a directory" in _refusal(way, tmp_path).message


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "sub" / "ledger.db"
    assert "is not a directory" in _refusal(SqlLedger.open_path, path).message


def test_nothing_to_read(tmp_path: Path) -> None:
    assert "there is no ledger" in _refusal(SqlLedger.read_only, tmp_path / "none.db").message
    assert not list(tmp_path.iterdir())


def test_an_empty_file_becomes_a_ledger_but_holds_none_to_read(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    assert "is empty" in _refusal(SqlLedger.read_only, path).message
    with SqlLedger.open_path(path) as ledger:
        assert ledger.campaigns() == ()


@BOTH
def test_a_text_file(way: Way, tmp_path: Path) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_text("name: demo\n" * 500)
    assert "not a ledger" in _refusal(way, path).message
    assert path.read_text() == "name: demo\n" * 500


@BOTH
def test_a_database_of_another_program(way: Way, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE events (x)")
    assert "not a ledger of spectune" in _refusal(way, path).message
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("events",)]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that every user may enter and write to."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        with SqlLedger.open_path(Path(directory) / "first.db") as ledger:  # loads all modules while they can be read
            ledger.open(opened())
        yield Path(directory)


@contextmanager
def _without_privileges() -> Iterator[None]:
    """For root, whom no mode stops, acts as nobody."""
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(65534)
    try:
        yield
    finally:
        if privileged:
            os.seteuid(0)


@pytest.mark.parametrize("sub", ["", "new/"])
def test_a_directory_without_permission(sub: str, shared: Path) -> None:
    shared.chmod(0o555)
    with _without_privileges():
        assert "no permission" in _refusal(SqlLedger.open_path, shared / f"{sub}ledger.db").message
    shared.chmod(0o777)


@pytest.mark.parametrize(("way", "mode"), [(SqlLedger.open_path, 0o444), (SqlLedger.read_only, 0o000)])
def test_a_file_without_permission(way: Way, mode: int, shared: Path) -> None:
    path = shared / "ledger.db"
    with SqlLedger.open_path(path) as ledger:
        campaign = ledger.open(opened())
    before = path.read_bytes()
    path.chmod(mode)
    with _without_privileges():
        assert "no permission" in _refusal(way, path).message
        if mode:  # what can't be written can still be read
            with SqlLedger.read_only(path) as ledger:
                assert list(ledger.events(campaign)) == [opened()]
    assert path.read_bytes() == before


def test_reading_where_nothing_may_be_written(shared: Path) -> None:
    path = shared / "ledger.db"
    with SqlLedger.open_path(path) as ledger:
        campaign = ledger.open(opened())
    path.chmod(0o444)
    shared.chmod(0o555)
    with _without_privileges(), SqlLedger.read_only(path) as ledger:
        assert list(ledger.events(campaign)) == [opened()]
    shared.chmod(0o777)


def _use(path: Path, campaign: str) -> None:
    for way in (SqlLedger.read_only, SqlLedger.open_path):
        with way(path) as ledger:
            ledger.campaigns()
            ledger.latest("demo")
            for _ in ledger.events(campaign):
                pass
            if way is SqlLedger.open_path:
                ledger.append(campaign, started(2))


def _filled(path: Path) -> str:
    with SqlLedger.open_path(path) as ledger:
        campaign = ledger.open(opened())
        for event in trial_events(1, count=400):
            ledger.append(campaign, event)
        ledger.append(campaign, measured(1))
    return campaign


def test_a_damaged_file_is_an_error_of_ours_wherever_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    campaign = _filled(path)
    whole = path.read_bytes()
    drawn = random.Random(7)
    outcomes = Counter(_outcome(path, campaign, _broken(whole, drawn)) for _ in range(100))
    assert outcomes["refused"] > 50


def _broken(whole: bytes, drawn: random.Random) -> bytes:
    """Cut short, overwritten with noise, or with a page of zeros in it."""
    broken = bytearray(whole)
    match drawn.randrange(3):
        case 0:
            del broken[drawn.randrange(len(broken)) :]
        case 1:
            start, length = drawn.randrange(len(broken)), drawn.choice([1, 40, 4096])
            broken[start : start + length] = drawn.randbytes(length)
        case 2:
            start = 4096 * drawn.randrange(len(broken) // 4096)
            broken[start : start + 4096] = bytes(4096)
    return bytes(broken)


def _outcome(path: Path, campaign: str, broken: bytes) -> str:
    path.write_bytes(broken)
    try:
        _use(path, campaign)
    except (LedgerError, LedgerTooNew):
        return "refused"
    return "usable"
