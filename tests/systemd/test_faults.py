"""Faults in the midst of a campaign: afterwards the service is in its old or in the promoted state, or one rollback
puts it there. With SPECTUNE_FAULT_TABLE naming docs/systemd.md, the table there is written anew."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.hosts import HostAddress
from spectune.hosts.ssh import Ssh
from tests.systemd.box import FAKE, PORT, Bench, fake_unit
from tests.systemd.faults import Disturbed, Old, campaign, killed, settled, told_by

pytestmark = [pytest.mark.systemd, pytest.mark.slow]

COMMANDS = 45
"""Of a campaign with one trial and a promotion."""
BEGIN, END = "<!-- faults -->", "<!-- /faults -->"

Row = tuple[str, str, str, str]


@pytest.fixture(scope="module")
def table() -> Iterator[Callable[..., None]]:
    """Takes rows: fault, moment, outcome, what the user is told."""
    rows: list[Row] = []
    yield lambda *row: rows.append(row)
    path = os.environ.get("SPECTUNE_FAULT_TABLE")
    if path:
        text = Path(path).read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        lines = ["| fault | moment | afterwards | what the user is told |", "| --- | --- | --- | --- |"]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        body = f"{len(rows)} cases.\n\n" + "\n".join(lines)
        Path(path).write_text(f"{head}{BEGIN}\n{body}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


@pytest.mark.parametrize("at", range(1, COMMANDS + 1))
def test_spectune_is_killed(bench: Bench, table: Callable[..., None], at: int) -> None:
    within_s = 0.03 if at % 2 else 0.0
    old = Old.of(bench)
    moment = killed(bench, at, within_s)
    how = "in the midst of" if within_s else "before"
    table("spectune killed (SIGKILL)", f"{how} command {at}: {moment}", settled(bench, old), "")


@pytest.mark.parametrize("at", sorted({*range(2, COMMANDS + 1, 2), *range(3, COMMANDS + 1, 6)}))
def test_the_connection_is_lost(bench: Bench, table: Callable[..., None], at: int) -> None:
    old = Old.of(bench)
    bench.between = disturbed = Disturbed(bench.ssh, at, partial(kill_sshd, bench), 0.02 if at % 2 else 0.0)
    told = told_by(partial(campaign, bench))
    how = "in the midst of" if at % 2 else "before"
    table("every sshd process killed", f"{how} command {at}: {disturbed.moment}", settled(bench, old), told)


@pytest.fixture
def enabled(bench: Bench) -> Iterator[Bench]:
    """A service that a booting host starts."""
    bench.box.unit(bench.name, fake_unit(more="\n[Install]\nWantedBy=multi-user.target\n"))
    bench.box.run("systemctl", "enable", bench.name)
    yield bench
    bench.box.run("systemctl", "disable", bench.name)


BOOTS = (*((at, True) for at in (4, 12, 13, 16, 19, 21, 23, 26, 35, 39, 43, 45)), *((at, False) for at in (14, 22, 41)))


@pytest.mark.parametrize(("at", "at_once"), BOOTS)
def test_the_host_is_rebooted(enabled: Bench, table: Callable[..., None], at: int, at_once: bool) -> None:
    bench = enabled
    old = Old.of(bench)

    booted = threading.Event()

    def reboot() -> None:
        bench.box.down(at_once)
        bench.box.up()
        booted.set()

    within_s = 0.02 if at % 2 else 0.0
    bench.between = disturbed = Disturbed(bench.ssh, at, reboot, within_s)
    told = told_by(partial(campaign, bench))
    assert booted.wait(60)
    fault = "the host loses power, and boots" if at_once else "the host is rebooted"
    how = "in the midst of" if within_s else "before"
    table(fault, f"{how} command {at}: {disturbed.moment}", settled(bench, old), told)


@pytest.mark.parametrize("at", [9, 14, 20, 24, 36])
def test_the_host_stays_down_until_spectune_has_given_up(enabled: Bench, table: Callable[..., None], at: int) -> None:
    bench = enabled
    old = Old.of(bench)
    bench.between = disturbed = Disturbed(bench.ssh, at, partial(bench.box.down, True))
    try:
        told = told_by(partial(campaign, bench))
    finally:
        bench.box.up()
    assert "box" in told
    row = "the host loses power, and boots later", f"before command {at}: {disturbed.moment}"
    table(*row, settled(bench, old), told)


def test_the_next_run_finishes_what_a_reboot_cut_off(enabled: Bench, table: Callable[..., None]) -> None:
    bench = enabled
    old = Old.of(bench)
    bench.between = disturbed = Disturbed(bench.ssh, 24, partial(bench.box.down, True))
    try:
        told = told_by(partial(campaign, bench))
    finally:
        bench.box.up()
    bench.between = None
    assert bench.records.plan() is not None
    with bench.guard("next").around():
        assert old.is_back(bench)
    assert any("left in the middle of a change" in text for text in bench.said)
    assert bench.records.plan() is None
    row = "the host loses power, and boots later", f"before command 24: {disturbed.moment}"
    table(*row, "old after the next run", told)


def kill_sshd(bench: Bench) -> None:
    """Ends the test host's own sshd processes, each by its number there."""
    for line in bench.box.run("ps", "-eo", "pid=,comm=").splitlines():
        pid, name = line.split()
        if name.startswith("sshd"):
            bench.box.run("kill", "-KILL", pid)


@dataclass(frozen=True)
class Case:
    """Something that goes wrong.

    Attributes:
        options, more: of the service as it is.
        trial: options of the trial's server.
        meanwhile: happens while the trial runs.
        says: part of what the user is told; "" where nothing is to be told.
        mend: what the user does before the rollback, where one is needed.
        by_others: files of the unit that somebody else has changed, and which stay so.
    """

    options: tuple[str, ...] = ()
    more: str = ""
    trial: tuple[str, ...] = ()
    meanwhile: Callable[[Bench], object] = lambda bench: None
    says: str = ""
    mend: Callable[[Bench], object] = lambda bench: None
    by_others: bool = False


def systemctl(*words: str) -> Callable[[Bench], object]:
    return lambda bench: bench.box.run("systemctl", *words, bench.name)


def put(path: str, text: str) -> Callable[[Bench], object]:
    return lambda bench: bench.box.host.put(path.format(unit=f"/etc/systemd/system/{bench.name}"), text)


def shell(text: str) -> Callable[[Bench], object]:
    return lambda bench: bench.box.run("sh", "-c", text.format(unit=f"/etc/systemd/system/{bench.name}"))


def ask_once(bench: Bench) -> None:
    bench.way.fetch("/health", 2.0)
    while bench.box.active(bench.name) == "active":
        pass


def interrupt(bench: Bench) -> None:
    raise KeyboardInterrupt


FULL = "mkdir -p {0} && mount -t tmpfs -o size=16k tmpfs {0} && head -c 20000 /dev/zero >{0}/full; true"
CASES = {
    "the service ignores SIGTERM": Case(("--ignore-term",), "TimeoutStopSec=1\n"),
    "the trial's server ignores SIGTERM": Case((), "TimeoutStopSec=1\n", ("--ignore-term",)),
    "the trial's server crashes at once": Case(trial=("--exit-code", "3"), says="exited with code 3"),
    "the trial's server dies of SIGSEGV": Case(trial=("--kill-self",), says="killed by SIGSEGV"),
    "the trial's server crashes after a while": Case(trial=("--die-after", "3"), meanwhile=ask_once),
    "systemd restarts a server that crashes": Case(
        (), "Restart=always\nRestartSec=100ms\n", ("--exit-code", "3"), says="exited with code 3"
    ),
    "systemd restarts it until its limit": Case(
        (), "Restart=always\nRestartSec=0\n[Unit]\nStartLimitBurst=2\n", ("--exit-code", "3"), says="code 3"
    ),
    "a unit that may be started once a minute": Case((), "[Unit]\nStartLimitBurst=1\nStartLimitIntervalSec=60\n"),
    "processes outlive the stop (KillMode=process)": Case(("--escape",), "KillMode=process\n", ("--escape",)),
    "processes outlive the stop (KillMode=none)": Case((), "KillMode=none\nSendSIGKILL=no\nTimeoutStopSec=1\n"),
    "the trial's server listens and never answers": Case(trial=("--mute",), says="does not answer"),
    "the trial's server loads for ever": Case(trial=("--load-s", "60"), says="answers 503"),
    "somebody stops the service": Case(meanwhile=systemctl("stop")),
    "somebody restarts the service": Case(meanwhile=systemctl("restart")),
    "somebody kills the main process": Case(meanwhile=systemctl("kill", "--signal=KILL")),
    "systemd is reloaded and re-executed": Case(meanwhile=shell("systemctl daemon-reload; systemctl daemon-reexec")),
    "somebody edits the unit file": Case(
        meanwhile=put("{unit}", fake_unit("--spam", "7")), by_others=True, says="changed by somebody else"
    ),
    "somebody adds a drop-in": Case(
        meanwhile=put("{unit}.d/20-mine.conf", "[Service]\nNice=1\n"), by_others=True, says="changed by somebody else"
    ),
    "somebody deletes spectune's drop-in": Case(meanwhile=shell("rm {unit}.d/50-spectune.conf")),
    "somebody empties spectune's drop-in": Case(meanwhile=put("{unit}.d/50-spectune.conf", "")),
    "somebody writes nonsense into it": Case(meanwhile=put("{unit}.d/50-spectune.conf", "[Service]\nExecStart=\n")),
    "somebody takes the lock away": Case(meanwhile=shell("rm -rf /var/lib/spectune/llm.service/lock")),
    "somebody deletes the plan": Case(meanwhile=shell("rm /var/lib/spectune/llm.service/plan.json")),
    "the journal is rotated and emptied": Case(
        meanwhile=shell("journalctl --rotate && journalctl --vacuum-files=1 --vacuum-time=1s")
    ),
    "journald is restarted": Case(meanwhile=shell("systemctl restart systemd-journald")),
    "Ctrl-C": Case(meanwhile=interrupt, says="interrupted"),
    "disk full where the plan is kept": Case(
        meanwhile=shell(FULL.format("/var/lib/spectune/llm.service")),
        says="could not be put back",
        mend=shell("umount /var/lib/spectune/llm.service"),
    ),
    "the service's program is gone": Case(
        meanwhile=shell(f"mv {FAKE} {FAKE}.gone"),
        says="could not be put back",
        mend=shell(f"mv {FAKE}.gone {FAKE}"),
    ),
    "another program takes the port": Case(
        meanwhile=shell(
            f"systemctl stop llm.service; systemd-run --unit=thief {{py}} -m http.server {PORT} --bind 127.0.0.1;"
            " sleep 1".replace("{py}", "/usr/bin/python3")
        ),
        says="is taken by",
        mend=shell("systemctl stop thief"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_something_goes_wrong(bench: Bench, table: Callable[..., None], name: str) -> None:
    case = CASES[name]
    bench.box.unit(bench.name, fake_unit(*case.options, more=case.more))
    old = Old.of(bench)
    try:
        told = told_by(partial(one_trial, bench, case))
        if case.by_others:
            assert not [path for path in bench.box.files(bench.name) if "50-spectune" in path]
            assert bench.records.plan() is None
            outcome = "old, with what the other has changed"
        else:
            case.mend(bench)
            outcome = settled(bench, old)
    finally:
        case.mend(bench)
    said = "; ".join(dict.fromkeys([told, *bench.said]))
    assert case.says in said, said
    table(name, "during a trial", outcome, told or next((text for text in bench.said if "changed by" in text), ""))


def one_trial(bench: Bench, case: Case) -> None:
    launch = bench.launch(*case.trial, ready_timeout_s=2.0)
    with bench.guard(timeout_s=4.0).around(), bench.deployer().deploy(launch, "demo-1.1.1") as running:
        running.observe(["/health"])
        case.meanwhile(bench)
        running.observe(["/health"])


@pytest.mark.parametrize("folder", ["/var/lib/spectune/llm.service", "/etc/systemd/system/llm.service.d"])
def test_the_disk_is_full_from_the_start(bench: Bench, table: Callable[..., None], folder: str) -> None:
    old = Old.of(bench)
    bench.box.run("sh", "-c", FULL.format(folder))
    try:
        told = told_by(partial(campaign, bench))
        assert "disk is full" in told
        assert bench.box.argv(bench.name) == old.argv
    finally:
        bench.box.run("sh", "-c", f"umount {folder}; rmdir {folder}; systemctl daemon-reload")
    table("disk full from the start", folder, settled(bench, old), told)


@pytest.mark.parametrize("days", [-400, 1, 400])
def test_the_clock_jumps(bench: Bench, table: Callable[..., None], days: int) -> None:
    class Jumping(SystemClock):
        shift = 0.0

        def now(self) -> float:
            return super().now() + self.shift

    clock = Jumping()
    bench.clock = clock
    old = Old.of(bench)

    def jump(bench: Bench) -> None:
        clock.shift = days * 86400.0

    told = told_by(partial(one_trial, bench, Case(meanwhile=jump)))
    assert told == ""
    table("the clock jumps", f"by {days} days", settled(bench, old), told)


def test_sudo_is_refused(bench: Bench, table: Callable[..., None]) -> None:
    old = Old.of(bench)
    bench.box.run("useradd", "--create-home", "--password", "*", "deploy")
    config = str(bench.box.config)
    with Ssh(HostAddress("box", user="deploy", config=config), SystemClock()) as ssh:
        bench.between = ssh
        told = told_by(partial(campaign, bench))
    assert "sudo" in told
    table("sudo refused", "at the start", settled(bench, old), told)


def test_a_damaged_plan_is_named(bench: Bench, table: Callable[..., None]) -> None:
    old = Old.of(bench)
    assert killed(bench, 20, 0.0)
    bench.box.run("sh", "-c", "echo broken >/var/lib/spectune/llm.service/plan.json")
    told = told_by(lambda: print(bench.guard().rollback()))
    assert "plan.json" in told
    bench.box.run("sh", "-c", f"rm -r /etc/systemd/system/{bench.name}.d /var/lib/spectune/{bench.name}/plan.json")
    bench.box.run("systemctl", "daemon-reload")
    bench.box.run("systemctl", "restart", bench.name)
    assert old.is_back(bench)
    table("the plan on the host is damaged", "after a kill", "old, by hand as the message says", told)
