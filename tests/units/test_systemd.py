"""The recorded services under a real systemd: what it really starts is what was read, before and after each change."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping

import pytest

from spectune.domain.errors import InputError
from spectune.units.edit import drop_in, edit
from spectune.units.execline import split_commands
from spectune.units.find import find
from spectune.units.service import ServiceUnit
from tests.support.testhost.host import CannotBoot, Host, booted
from tests.units.cases import CASES

pytestmark = pytest.mark.systemd

RECORDER = """#!/bin/sh
case $1 in rm | stop) exit ;; esac
unit=$(sed -n 's,^0::.*/,,p' /proc/self/cgroup)
printf '%s\\0' "$0" "$@" >"/srv/argv/$unit.$$"
mv "/srv/argv/$unit.$$" "/srv/argv/$unit"
"""
PASSING_ON = {"/usr/bin/docker", "/usr/bin/podman", "/usr/local/bin/uv", "/usr/local/bin/uvx", "/usr/bin/numactl"} | {
    "/opt/conda/bin/conda",
    "/root/.local/bin/poetry",
}
"""Programs that start the engine elsewhere: they are recorded in its place, with its arguments at the end."""
ENGINES = {"/opt/vllm/bin/vllm", "/opt/vllm/bin/python", "/opt/sglang/bin/python", "/opt/sglang/bin/python3.11"} | {
    "/opt/sglang/bin/sglang",
    "/opt/llama/llama-server",
    "/root/venv/bin/sglang",
    "/usr/local/bin/vllm",
    "/usr/local/bin/python3",
}
RUNNABLE = {name: case for name, case in CASES.items() if case.argv is not None and case.real}
CHANGED = {name: case for name, case in RUNNABLE.items() if case.after is not None}


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    try:
        with booted() as host:
            _furnish(host)
            yield host
    except CannotBoot as error:
        pytest.skip(f"no systemd can be booted here: {error}")


def _furnish(host: Host) -> None:
    for path in PASSING_ON | ENGINES:
        host.put(path, RECORDER, 0o755)
    for user in ("vllm", "llm"):
        assert host.run("useradd", "--system", user).returncode in {0, 9}
    host.put("/srv/argv/.keep", "")
    (host.root / "srv/argv").chmod(0o777)
    for folder in ("srv/vllm", "srv/app"):
        (host.root / folder).mkdir()
    host.put("/srv/llm/venv/bin/activate", "")
    host.put("/etc/systemd/system/docker.service", "[Service]\nExecStart=/bin/sleep infinity\n")


def _started(host: Host, services: Mapping[str, ServiceUnit]) -> dict[str, tuple[str, ...]]:
    """The command line that each service really starts."""
    folder = host.root / "srv/argv"
    for old in folder.iterdir():
        old.unlink()
    for service in services.values():
        template = service.name.partition("@")[0] + "@.service" if "@" in service.name else service.name
        host.put(f"/etc/systemd/system/{template}", service.text)
        for name in ("50-spectune.conf", "10-model.conf", "override.conf"):
            (host.root / f"etc/systemd/system/{service.name}.d/{name}").unlink(missing_ok=True)
        for name, text in service.drop_ins.items():
            host.put(f"/etc/systemd/system/{service.name}.d/{name}", text)
    assert host.run("systemctl", "daemon-reload").returncode == 0
    seen: dict[str, tuple[str, ...]] = {}
    # Some services use files of the same name with other contents.
    waiting = dict(services)
    while waiting:
        batch: dict[str, ServiceUnit] = {}
        files: dict[str, str] = {}
        for name, service in waiting.items():
            if all(files.get(path, text) == text for path, text in service.files.items()):
                batch[name] = service
                files |= service.files
        for path, text in files.items():
            host.put(path, text, 0o755)
        names = [service.name for service in batch.values()]
        host.run("systemctl", "reset-failed")
        host.run("systemctl", "start", "--no-block", *names)
        end = time.monotonic() + 30
        while time.monotonic() < end and not all((folder / name).exists() for name in names):
            time.sleep(0.05)
        host.run("systemctl", "stop", *names)
        for name, service in batch.items():
            record = folder / service.name
            seen[name] = tuple(record.read_text().split("\0")[:-1]) if record.exists() else ()
            del waiting[name]
    return seen


def _same(seen: tuple[str, ...], argv: tuple[str, ...], program: tuple[str, ...]) -> bool:
    arguments = argv[1:] if program else argv
    if not seen or seen[0] in PASSING_ON:
        return seen[-len(arguments) :] == arguments
    return seen[1:] == arguments and seen[0].endswith(argv[0])


@pytest.mark.timeout(240)
@pytest.mark.parametrize("way", ["as it is", "edited", "drop-in"])
def test_systemd_starts_what_was_read(host: Host, way: str) -> None:
    services: dict[str, ServiceUnit] = {}
    for name, case in (RUNNABLE if way == "as it is" else CHANGED).items():
        if way == "as it is":
            services[name] = case.service
        elif way == "edited" or not case.drop_in_refused:
            edited = (edit if way == "edited" else drop_in)(case.service, case.changes, case.spellings)
            services[name] = case.service.with_file(edited.file, edited.text)
    seen = _started(host, services)
    wrong = {}
    for name, service in services.items():
        found = find(service)
        if not _same(seen[name], found.argv, found.program):
            wrong[name] = (found.argv, seen[name])
    assert not wrong
    assert len(seen) >= 40


def test_systemd_loads_every_changed_file(host: Host) -> None:
    for case in CHANGED.values():
        if not case.drop_in_refused:
            dropped = drop_in(case.service, case.changes, case.spellings)
            host.put(f"/etc/systemd/system/{case.service.name}.d/{dropped.file}", dropped.text)
    host.run("systemctl", "daemon-reload")
    names = [case.service.name for case in CHANGED.values()]
    states = host.run("systemctl", "show", "-p", "LoadState", "--value", *names).stdout.split()
    assert states == ["loaded"] * len(names)


NASTY = (
    *('{"a": "it\'s 100%"}', "$HOME ${PATH} $$ `x`", "", " a\tb\nc ", "\\ \\n \\x41", "#a", ";", "é😀*?[a]", "'\"'"),
    *("%%n %i", "~"),
)
SHELLS = (
    "{}",
    "/bin/sh -c 'exec {}'",
    "/bin/sh -c \"exec /bin/bash -c 'exec {}'\"",
    "/bin/bash -c 'exec \"$$@\"' sh {}",
    ":{}",
)


def test_systemd_gives_the_engine_the_value_that_was_asked(host: Host) -> None:
    services: dict[str, ServiceUnit] = {}
    for index, value in enumerate(NASTY):
        for number, shell in enumerate(SHELLS):
            name = f"nasty-{index}-{number}"
            command = shell.format("/opt/llama/llama-server -m /m --aa 1")
            service = ServiceUnit(f"{name}.service", f"[Service]\nExecStart={command}\n")
            edited = edit(service, {"aa": value, "bb": value})
            services[name] = service.with_file(edited.file, edited.text)
    seen = _started(host, services)
    expected = {
        name: ("/opt/llama/llama-server", "-m", "/m", "--aa", value, "--bb", value)
        for index, value in enumerate(NASTY)
        for name in (f"nasty-{index}-{number}" for number in range(len(SHELLS)))
    }
    assert seen == expected


ODD = (
    *("a", "b c", "'", '"', "\\", "\\\n", "\n", "\\s", "\\x41", "\\d", "\\'", "#", " # x\\\n"),
    *(";", " ; /bin/y", "\\;", "%n", "%%", "$A", " "),
)


def test_systemd_reads_odd_lines_the_same_way(host: Host) -> None:
    draw = random.Random(5)
    lines = (f"/bin/x {''.join(draw.choices(ODD, k=12))}" for _ in range(120))
    texts = {
        f"odd{number}.service": f"[Service]\nType=oneshot\nExecStart={line}\nRestart=no\n"
        for number, line in enumerate(lines)
    }
    for name, text in texts.items():
        host.put(f"/etc/systemd/system/{name}", text)
    assert host.run("systemctl", "daemon-reload").returncode == 0
    refused = 0
    for name, text in texts.items():
        path = f"/org/freedesktop/systemd1/unit/{name.replace('.', '_2e')}"
        asked = ("org.freedesktop.systemd1", path, "org.freedesktop.systemd1.Service", "ExecStart")
        seen = json.loads(host.run("busctl", "--json=short", "get-property", *asked).stdout)["data"]
        service = ServiceUnit(name, text)
        try:
            commands = [
                command
                for entry in service.effective("ExecStart")
                for command in split_commands(entry.assignment.value, service.all_specifiers())
            ]
        except InputError:
            refused += 1
            continue
        read = [[word.text for word in command.line.words] for command in commands]
        if not all(command[0] in {"/bin/x", "/bin/y"} for command in read):
            refused += 1  # systemd stops at a program that it does not take
            continue
        assert [command[1] for command in seen] == read, text
    assert refused < 90
