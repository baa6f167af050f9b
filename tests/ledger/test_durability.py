"""Kills, second writers and full disks, all of them real."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event

from spectune.domain.errors import LedgerError
from spectune.ledger import SqlLedger
from spectune.ledger.sqlite import sqlite_writer
from tests.ledger.samples import measured, opened, started

ROOT = Path(__file__).parents[2]

APPEND_FOREVER = """
import sys
from pathlib import Path
from spectune.ledger import SqlLedger
from tests.ledger.samples import measured, opened
with SqlLedger.open_path(Path(sys.argv[1])) as ledger:
    campaign = ledger.open(opened())
    print(campaign, flush=True)
    for trial in range(1, 10**6):
        ledger.append(campaign, measured(trial, 300))
        print(trial, flush=True)
"""

OPEN_FOREVER = """
import sys
from pathlib import Path
from spectune.ledger import SqlLedger
from tests.ledger.samples import opened
print("ready", flush=True)
for n in range(10**6):
    with SqlLedger.open_path(Path(sys.argv[1]) / f"{n % 5}.db") as ledger:
        print(n % 5, ledger.open(opened()), flush=True)
"""

HOLD = """
import subprocess, sys
from pathlib import Path
from spectune.ledger import SqlLedger
with SqlLedger.open_path(Path(sys.argv[1])):
    child = subprocess.Popen(["sleep", "60"])
    print(child.pid, flush=True)
    child.wait()
"""

FILL = """
import sys
from pathlib import Path
from spectune.domain.errors import LedgerError
from spectune.ledger import SqlLedger
from tests.ledger.samples import measured, opened
directory = Path(sys.argv[1])
ballast = directory / "ballast"
ballast.write_bytes(bytes(300_000))
with SqlLedger.open_path(directory / "ledger.db") as ledger:
    campaign = ledger.open(opened())
    written = 0
    try:
        for trial in range(1, 1000):
            ledger.append(campaign, measured(trial, 100))
            written = trial
    except LedgerError as error:
        print(error.message, "|", error.advice)
    before = [event.trial for event in list(ledger.events(campaign))[1:]]
    assert before == list(range(1, written + 1)), before
    ballast.unlink()
    ledger.append(campaign, measured(written + 1, 100))
with SqlLedger.read_only(directory / "ledger.db") as ledger:
    assert list(ledger.events(campaign))[1:] == [measured(trial, 100) for trial in range(1, written + 2)]
print("recovered")
"""


@contextmanager
def _program(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("attempt", range(2))
def test_kill_loses_nothing_that_was_acknowledged(tmp_path: Path, attempt: int) -> None:
    path = tmp_path / "ledger.db"
    with _program(APPEND_FOREVER, str(path)) as writer:
        assert writer.stdout
        campaign = writer.stdout.readline().strip()
        time.sleep(random.Random(attempt).uniform(0.05, 0.8))
        writer.send_signal(signal.SIGKILL)
        acknowledged = [int(line) for line in writer.stdout.read().split()]
    with SqlLedger.read_only(path) as ledger:
        events = list(ledger.events(campaign))
    # One more may have been on the disk when the kill came before its acknowledgement.
    assert len(events) - 1 in {len(acknowledged), len(acknowledged) + 1}
    assert events == [opened(), *(measured(trial, 300) for trial in range(1, len(events)))]
    with SqlLedger.open_path(path) as ledger:
        ledger.append(campaign, started(1))
        assert list(ledger.events(campaign)) == [*events, started(1)]


@pytest.mark.parametrize("attempt", range(2))
def test_kill_while_ledgers_are_made_opened_and_closed(tmp_path: Path, attempt: int) -> None:
    with _program(OPEN_FOREVER, str(tmp_path)) as writer:
        assert writer.stdout
        writer.stdout.readline()
        time.sleep(random.Random(attempt).uniform(0.0, 0.5))
        writer.send_signal(signal.SIGKILL)
        acknowledged = [line.split() for line in writer.stdout.read().splitlines()]
    for number in range(5):
        path = tmp_path / f"{number}.db"
        expected = {campaign for of, campaign in acknowledged if of == str(number)}
        if expected:
            with SqlLedger.read_only(path) as ledger:
                assert expected <= {row.id for row in ledger.campaigns()}
        with SqlLedger.open_path(path) as ledger:
            assert len(ledger.campaigns()) - len(expected) in {0, 1}


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with _program(HOLD, str(path)) as holder:
        assert holder.stdout
        child = int(holder.stdout.readline())
        try:
            words = rf"another spectune \(pid {holder.pid}\) is using this ledger"
            with pytest.raises(LedgerError, match=words), SqlLedger.open_path(path):
                pass
            with SqlLedger.read_only(path) as ledger:
                assert ledger.campaigns() == ()
            holder.kill()
            holder.wait()
            os.kill(child, 0)  # a server that the killed writer started is still there, and must not hold the lock
            with SqlLedger.open_path(path) as ledger:
                ledger.open(opened())
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_lock_ends_with_the_block(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for _ in range(2):
        with pytest.raises(RuntimeError, match="from within"), SqlLedger.open_path(path):
            raise RuntimeError("from within")


def _can_mount() -> bool:
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(
            ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
        ).returncode
    )


@pytest.mark.skipif(not _can_mount(), reason="needs to mount a small file system")
@pytest.mark.parametrize("kib", [600, 700])
def test_full_disk(tmp_path: Path, kib: int) -> None:
    command = 'mount -t tmpfs -o size="$1"k tmpfs "$2" && exec "$3" -c "$4" "$2"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, "sh", str(kib), str(tmp_path), sys.executable, FILL],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    message, _, rest = done.stdout.partition("\n")
    assert message.startswith("no space left for the ledger"), done.stdout + done.stderr
    assert "Free some space" in message
    assert rest == "recovered\n", done.stderr


@pytest.mark.skipif(not _can_mount(), reason="needs to mount a small file system")
def test_no_space_even_to_begin(tmp_path: Path) -> None:
    code = """
import subprocess, sys
from pathlib import Path
from spectune.domain.errors import LedgerError
from spectune.ledger import SqlLedger
from tests.ledger.samples import opened
path = Path(sys.argv[1]) / "ledger.db"
try:
    with SqlLedger.open_path(path):
        print("opened")
except LedgerError as error:
    print(error.message, "|", error.advice)
subprocess.run(["mount", "-o", "remount,size=4m", sys.argv[1]], check=True)
with SqlLedger.open_path(path) as ledger:
    print(len(ledger.campaigns()))
    campaign = ledger.open(opened())
    print(list(ledger.events(campaign)) == [opened()])
"""
    command = 'mount -t tmpfs -o size=16k tmpfs "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, "sh", str(tmp_path), sys.executable, code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    refused, *with_space = done.stdout.splitlines()
    assert refused.startswith("no space left for the ledger"), done.stdout + done.stderr
    assert "Free some space" in refused
    # What was left behind is no obstacle once there is space.
    assert with_space == ["0", "True"], done.stdout + done.stderr


def test_a_database_that_may_not_grow(tmp_path: Path) -> None:
    """Like a full disk, where none can be mounted: SQLite itself refuses more pages."""
    path = tmp_path / "ledger.db"
    with SqlLedger.open_path(path) as ledger:
        campaign = ledger.open(opened())
        with ledger._backend.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=60")
        with pytest.raises(LedgerError, match="no space left") as caught:
            _append_many(ledger, campaign)
        assert "Free some space" in caught.value.advice
        kept = list(ledger.events(campaign))[1:]
        assert kept
        assert kept == [measured(trial, 100) for trial in range(1, len(kept) + 1)]
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _append_many(ledger: SqlLedger, campaign: str) -> None:
    for trial in range(1, 100):
        ledger.append(campaign, measured(trial, 100))


def test_a_signal_waits_until_the_ledger_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As when Ctrl-C is pressed twice."""
    path = tmp_path / "ledger.sqlite"

    def work_and_close() -> None:
        with sqlite_writer(path) as backend:
            backend.start_log()
            with backend.engine.connect():
                event.listen(backend.engine, "close", lambda *_: signal.raise_signal(signal.SIGINT))

    with pytest.raises(KeyboardInterrupt):
        work_and_close()
    assert not path.with_name("ledger.sqlite-wal").exists()
    assert not caplog.records
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
