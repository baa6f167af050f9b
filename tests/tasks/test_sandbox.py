"""What code in the sandbox can't do. Everything here is really run."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectune.tasks import sandbox as room
from spectune.tasks.sandbox import Sandbox, sandbox

pytestmark = pytest.mark.skipif(sandbox() is None, reason="the sandbox needs Linux, util-linux and root")
FINE = "assert True"


@pytest.fixture
def place() -> Sandbox:
    found = sandbox()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("code", "tests", "passes"),
    [
        ("def double(n): return 2 * n", "assert double(4) == 8", True),
        ("def double(n): return n", "assert double(4) == 8", False),
        ("def double(n): return 2 *", FINE, False),
        ("raise SystemExit(0)", FINE, False),
        ("import os; os._exit(0)", FINE, False),
        ("print('all tests passed')\nraise SystemExit", FINE, False),
        ("print('noise ' * 100000)", FINE, True),
    ],
)
def test_only_code_that_reaches_the_end_of_its_tests_passes(
    place: Sandbox, code: str, tests: str, passes: bool
) -> None:
    assert place.passes(code, tests) == passes


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_nothing_can_be_reached(place: Sandbox, port: int) -> None:
    assert not place.passes(f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)", FINE)


def test_nothing_stays_and_nothing_of_others_is_seen(place: Sandbox, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    mine = tmp_path / "mine"
    mine.write_text("secret")
    assert place.passes(f"import os; assert not os.path.exists({str(mine)!r})", FINE)
    name = f"spectune-left-{os.getpid()}"
    assert place.passes(f"open('/tmp/{name}', 'w').write('x')", f"assert open('/tmp/{name}').read() == 'x'")
    assert not Path("/tmp", name).exists()
    assert place.passes(f"import os; assert not os.path.isdir('/proc/{os.getpid()}') or {os.getpid()} < 20", FINE)


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/shadow').read()",
        "import os; os.setuid(0)",
        "import subprocess; subprocess.run(['mount', '-t', 'tmpfs', 'none', '/tmp'], check=True)",
        "open('/proc/1/environ').read()",
        "whole = bytearray(3 << 30)",
        "open('/tmp/big', 'w').write('x' * (64 << 20))",
    ],
)
def test_rights_and_room_are_limited(place: Sandbox, code: str) -> None:
    assert not place.passes(code, FINE)


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "while True: pass",
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    ],
    ids=["sleeps", "works", "multiplies"],
)
def test_what_does_not_end_is_ended(place: Sandbox, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "WALL_S", 1.5)
    began = time.monotonic()
    assert not place.passes(code + "\n# ended by spectune", FINE)
    assert time.monotonic() - began < 30


def test_without_root_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert sandbox.__wrapped__() is None


def test_without_its_tools_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    assert sandbox.__wrapped__() is None
