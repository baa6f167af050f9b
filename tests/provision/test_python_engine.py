from __future__ import annotations

import sys
from pathlib import Path

import pytest

from spectune.domain.errors import HostError, InputError
from spectune.provision import python_engine


def test_auto_prefers_the_console_program(tmp_path: Path) -> None:
    for name in ("sglang", "python3"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert python_engine.find("auto", "sglang", {"PATH": str(tmp_path)}) == tmp_path / "sglang"
    (tmp_path / "sglang").unlink()
    assert python_engine.find("auto", "sglang", {"PATH": str(tmp_path)}) == tmp_path / "python3"
    with pytest.raises(InputError, match="neither sglang nor python3"):
        python_engine.find("auto", "sglang", {"PATH": "/nonexistent"})


def test_a_virtual_environments_link_is_kept(tmp_path: Path) -> None:
    link = tmp_path / "bin" / "python"
    link.parent.mkdir()
    link.symlink_to(sys.executable)
    assert python_engine.find(str(link), "sglang") == link
    with pytest.raises(InputError, match=r"did you mean .*/bin/python"):
        python_engine.find(str(link) + "2", "sglang")
    with pytest.raises(InputError, match="is a directory"):
        python_engine.find(str(tmp_path), "sglang")
    with pytest.raises(InputError, match="no program nosuch"):
        python_engine.find("nosuch", "sglang")


def test_version_and_help_are_asked() -> None:
    found = python_engine.ask(Path(sys.executable), ("-m", "pytest"), ("no-such-engine", "pytest"))
    assert found.version == pytest.__version__
    assert "--maxfail" in found.help


def test_a_console_programs_python_is_asked(tmp_path: Path) -> None:
    script = tmp_path / "engine"
    script.write_text(f"#!{sys.executable}\nprint('usage: engine [--model-path X]')\n")
    script.chmod(0o755)
    found = python_engine.ask(script, (), ("pytest",))
    assert (found.version, found.help) == (pytest.__version__, "usage: engine [--model-path X]\n")
    script.write_text("#!/bin/sh\nexit 3\n")
    assert python_engine.ask(script, (), ("pytest",)).version == ""


def test_a_missing_package_is_named() -> None:
    with pytest.raises(InputError, match="no-such-engine is not installed in"):
        python_engine.ask(Path(sys.executable), (), ("no-such-engine",))


def test_what_does_not_run_is_the_hosts_failure(tmp_path: Path) -> None:
    broken = tmp_path / "engine"
    broken.write_text("")
    with pytest.raises(HostError, match="cannot start"):
        python_engine.ask(broken, (), ("pytest",))
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 9\n")
    slow.chmod(0o755)
    with pytest.raises(HostError, match="did not answer within"):
        python_engine.ask(slow, (), ("pytest",), timeout_s=0.2)
