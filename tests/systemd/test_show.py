"""Texts of systemd, as recorded on a real one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.deployment import ListenerOwner
from spectune.domain.service_state import UnitState
from spectune.systemd import probe
from spectune.systemd.show import parse, seconds
from spectune.systemd.words import exit_code, output_of

SHOWN = """\
Restart=no
MainPID=0
Result=exit-code
NRestarts=2
ExecMainCode=1
ExecMainStatus=7
ExecStart={ path=/opt/sg/bin/python ; argv[]=/opt/sg/bin/python -m sglang.launch_server --x {"a": 1} ; \
ignore_errors=no ; start_time=[@1796000000] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }
ControlGroup=/system.slice/llm.service
Environment=A=1 "B=two words"
Id=llm.service
Description=The = model
LoadState=loaded
ActiveState=failed
SubState=failed
FragmentPath=/etc/systemd/system/llm.service
DropInPaths=/etc/systemd/system/llm.service.d/10-a.conf /etc/systemd/system/llm.service.d/50-spectune.conf
UnitFileState=enabled
NeedDaemonReload=yes
ActiveEnterTimestamp=@1796000001
TimeoutStopUSec=1min 30s
InvocationID=70a77b0faa1a4155b260e27f857f31ad
"""


def test_everything_shown_is_read() -> None:
    assert parse(SHOWN) == UnitState(
        name="llm.service",
        load="loaded",
        active="failed",
        sub="failed",
        result="exit-code",
        enabled="enabled",
        main_pid=0,
        exit_code=7,
        invocation="70a77b0faa1a4155b260e27f857f31ad",
        restarts=2,
        control_group="/system.slice/llm.service",
        fragment="/etc/systemd/system/llm.service",
        drop_ins=(
            "/etc/systemd/system/llm.service.d/10-a.conf",
            "/etc/systemd/system/llm.service.d/50-spectune.conf",
        ),
        exec_start=('/opt/sg/bin/python -m sglang.launch_server --x {"a": 1}',),
        needs_reload=True,
        active_since=None,
        stop_timeout_s=90.0,
        description="The = model",
        environment={"A": "1", "B": "two words"},
    )


@pytest.mark.parametrize(
    ("span", "found"),
    [
        ("1min 30s", 90.0),
        ("infinity", None),
        ("500ms", 0.5),
        ("2h 1min 0.5s", 7260.5),
        ("", None),
        ("100us", pytest.approx(1e-4)),
    ],
)
def test_time_spans(span: str, found: float | None) -> None:
    assert seconds(span) == found


@given(st.text())
def test_a_state_is_read_below_any_text(text: str) -> None:
    assert parse(f"{text}\n{SHOWN}") == parse(SHOWN)


MARK = "--spectune--\n"
PIECES = ["\n", "Id=a.service\n", "MainPID=", "ExecMainStatus=", "socket:[", "VmRSS:\t", "7", " kB\n", "²", "9" * 5000]
PART = st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join)


@given(st.lists(PART, min_size=1, max_size=6).map(MARK.join))
def test_any_look_is_read(text: str) -> None:
    look = probe.read(text)
    assert all(pid > 0 for pid in look.pids)
    assert look.rss_bytes % 1024 == 0
    assert look.state == parse(text.partition(MARK)[0].strip("\n"))


SOCKET = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 {} 1 0 0 100 0\n"


@pytest.mark.parametrize(
    ("listening", "sockets", "owner"),
    [
        ("", "", ListenerOwner.NONE),
        (SOCKET.format(4711), "VmRSS:   1024 kB\nsocket:[4711]\nsocket:[9]\n", ListenerOwner.OURS),
        (SOCKET.format(4711), "socket:[9]\n", ListenerOwner.FOREIGN),
        (SOCKET.format(4711) + SOCKET.format(4712), "socket:[4711]\n", ListenerOwner.FOREIGN),
    ],
)
def test_who_listens(listening: str, sockets: str, owner: ListenerOwner) -> None:
    look = probe.read(
        f"Id=llm.service\nActiveState=active\n{MARK}12\n34\n{MARK}{listening}{MARK}{sockets}{MARK}-- c: s=1"
    )
    assert look.listener is owner
    assert look.pids == (12, 34)
    assert look.cursor == "-- c: s=1"
    assert look.rss_bytes == (1 << 20 if "VmRSS" in sockets else 0)


LOG = """\
Starting llm.service - Answers...
Started llm.service - Answers.
Started serving at port 8080.
first line
llm.service: Main process exited, code=killed, status=11/SEGV
llm.service: Failed with result 'signal'.
"""


def test_the_service_s_own_lines() -> None:
    state = UnitState("llm.service", "loaded", "active", "running", description="Answers")
    assert output_of(LOG, state) == "Started serving at port 8080.\nfirst line\n"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (UnitState("llm.service", "loaded", "failed", "failed", exit_code=7, invocation="a"), 7),
        (UnitState("llm.service", "loaded", "active", "running", exit_code=None, invocation="b"), -11),
    ],
)
def test_how_a_start_ended_even_when_systemd_has_forgotten(state: UnitState, code: int) -> None:
    assert exit_code(state, LOG, "a") == code
    assert exit_code(state, "no such line", "c") is None
