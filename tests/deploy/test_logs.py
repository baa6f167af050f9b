from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectune.deploy.logs import LogFile, _file_name


def log_of(folder: Path, content: bytes, mark: str = "m") -> LogFile:
    log = LogFile(folder, mark)
    log.path.write_bytes(content)
    return log


@pytest.mark.parametrize(
    ("content", "limit", "text"),
    [
        (b"", 10, ""),
        (b"one\ntwo\n", 8, "one\ntwo\n"),
        (b"one\ntwo\nthree\nfour\n", 12, "one\n[spectune: about 7 bytes of this log left out]\nfour\n"),
        (b"x" * 20, 10, "xxxxx\n[spectune: about 10 bytes of this log left out]\nxxxxx"),
        (b"\xff\xfe\n", 10, "��\n"),
    ],
)
def test_reading_within_bounds(tmp_path: Path, content: bytes, limit: int, text: str) -> None:
    log = log_of(tmp_path, content)
    assert log.text(limit) == text
    log.close()
    log.close()


def test_the_tail_is_five_hundred_lines_at_most(tmp_path: Path) -> None:
    log = log_of(tmp_path, b"".join(b"line %d\n" % number for number in range(600)))
    assert log.tail().splitlines() == [f"line {number}" for number in range(100, 600)]
    log.close()


def test_a_removed_log_is_still_read(tmp_path: Path) -> None:
    log = log_of(tmp_path, b"kept\n")
    log.path.unlink()
    assert log.text() == "kept\n"
    log.close()


def test_a_log_is_new_and_private(tmp_path: Path) -> None:
    log_of(tmp_path, b"old\n").close()
    log = LogFile(tmp_path, "m")
    assert log.text() == ""
    assert log.path.stat().st_mode & 0o777 == 0o600
    log.close()


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1), st.text(min_size=1))
def test_marks_make_plain_and_distinct_file_names(mark: str, other: str) -> None:
    name = _file_name(mark)
    assert "/" not in name
    assert not name.startswith(".")
    assert len(name) < 150
    assert (name == _file_name(other)) == (mark == other)


@pytest.mark.parametrize("mark", ["demo-3.1", "a_b"])
def test_plain_marks_are_file_names(mark: str) -> None:
    assert _file_name(mark) == f"{mark}.log"
