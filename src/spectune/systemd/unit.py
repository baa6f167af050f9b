"""One unit on one host: asked, stopped, started, and its files read and written."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

from spectune.domain.errors import CommandFailed, CommandTimedOut, DiskFull, HostError, InputError, PortTaken
from spectune.domain.hosts import Host, Ran
from spectune.domain.ports import Clock
from spectune.domain.service_state import FileState, UnitState
from spectune.systemd import probe
from spectune.systemd.probe import Look

DROP_IN = "50-spectune.conf"
STATE_ROOT = "/var/lib/spectune"
_ASK_S = 30.0
_RELOAD_S = 120.0
_KILLED_S = 15.0
_PORT_LIMIT_S = 5.0
_GPU_LIMIT_S = 60.0
_POLL_S = 0.05
_NO_MANAGER = re.compile(r"Failed to connect to .*bus|not been booted with systemd", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]+\.service")
# A writing that was cut off leaves a file beside the one that it was to become.
_REMOVE = '[ -d "$2" ] || exit 0; rm -f -- "$1" "$2"/.spectune-* && sync -- "$2"'
_REMOVE_FOLDER = '[ -d "$1" ] || exit 0; rm -f -- "$1"/.spectune-* && { rmdir -- "$1" 2>/dev/null || true; }'
_STAT = 'LC_ALL=C stat -L -c "%a %u:%g" -- "$1"'
_START = 'unit=$1; shift; "$@" reset-failed "$unit" 2>/dev/null; exec "$@" start --no-block "$unit"'
_ON_GPU = (
    "command -v nvidia-smi >/dev/null || exit 0;"
    " nvidia-smi --query-compute-apps=pid --format=csv,noheader,nounits 2>/dev/null || true"
)


class ManagedUnit:
    """Args:
    host: where it is.
    name: as systemctl knows it; ".service" may be left out.
    user: it belongs to the login's own service manager.
    """

    def __init__(self, host: Host, name: str, clock: Clock, where: str, user: bool = False) -> None:
        self.host = host
        self.name = name if name.endswith(".service") else f"{name}.service"
        self.user = user
        self.where = where
        self.clock = clock
        self._home = ""
        if not _NAME.fullmatch(self.name):
            raise InputError(f"{name!r} is not the name of a service unit", "Write it as systemctl does: llm.service")

    @property
    def label(self) -> str:
        """As campaign files name it."""
        return f"user:{self.name}" if self.user else self.name

    @property
    def sudo(self) -> bool:
        return not self.user

    @property
    def systemctl(self) -> tuple[str, ...]:
        return ("systemctl", "--user") if self.user else ("systemctl",)

    @property
    def drop_in(self) -> str:
        """Path of spectune's own drop-in."""
        folder = f"{self._in_home('.config')}/systemd/user" if self.user else "/etc/systemd/system"
        return f"{folder}/{self.name}.d/{DROP_IN}"

    @property
    def state_folder(self) -> str:
        """Where plans, locks and promotions of this unit are kept on the host."""
        root = f"{self._in_home('.local/state')}/spectune" if self.user else STATE_ROOT
        return f"{root}/{self.name}"

    @property
    def files_folder(self) -> str:
        """Where files that command lines name are put; readable by the service, whoever it runs as."""
        return f"{self.state_folder.rpartition('/')[0]}/files"

    def show(self) -> UnitState:
        """What systemd says. Raises CommandFailed where it does not answer."""
        return self.look().state

    def found(self) -> UnitState:
        """The same for a unit that can be worked on.

        Raises:
            InputError: there is no such unit, or its files can't be overridden.
        """
        state = self.show()
        if state.load == "not-found":
            raise InputError(
                f"there is no unit {self.name} on {self.where}",
                f"List them there with: {' '.join(self.systemctl)} list-unit-files --type=service",
            )
        if state.load != "loaded":
            raise InputError(
                f"systemd on {self.where} can't use {self.name}: {state.load}",
                f"See there: {' '.join(self.systemctl)} status {self.name}",
            )
        if state.name != self.name:
            raise InputError(f"{self.name} is another name of {state.name}", f"Write {state.name}.")
        if not state.fragment or state.fragment.startswith("/run/systemd/transient/"):
            raise InputError(f"{self.name} has no unit file of its own", "Name the unit that starts the engine.")
        return state

    def look(self, port: int = 0, group: str = "", invocation: str = "") -> Look:
        """One look at unit, processes and port. See probe.argv."""
        command = probe.argv(self.systemctl, self.name, port, group, invocation)
        ran = self.host.run(command, timeout_s=_ASK_S, sudo=self.sudo)
        try:
            return probe.read(ran.checked(f"systemctl show {self.name} on {self.where}").text)
        except CommandFailed as error:
            if not _NO_MANAGER.search(ran.err.decode(errors="replace") + ran.text):
                raise
            whose = "the login has no service manager" if self.user else "systemd does not run there"
            advice = "Log in there as the service's user, or allow it to linger: loginctl enable-linger USER."
            raise CommandFailed(
                f"{error.message}: {whose}",
                advice
                if self.user
                else "Name the host that runs the service with --remote; in a container, run spectune on its host. "
                "Without systemd, leave the unit out: spectune init then tunes servers of its own.",
            ) from error

    def holder(self, inode: str) -> str:
        """Who holds a socket, for people."""
        ran = self.host.run(["/bin/sh", "-c", probe.HOLDER, "sh", inode], timeout_s=_ASK_S, sudo=self.sudo)
        return ran.text.strip() or "an unknown program"

    def reload(self) -> None:
        """daemon-reload."""
        self._systemctl("daemon-reload", timeout_s=_RELOAD_S)

    def verify(self) -> tuple[str, ...]:
        """What systemd-analyze says about this unit's files.

        Raises:
            HostError: it finds errors in them.
        """
        words = ["systemd-analyze", *(["--user"] if self.user else []), "verify", "--recursive-errors=no", self.name]
        ran = self._run(words, _RELOAD_S)
        if b"recursive-errors" in ran.err:
            ran = self._run([word for word in words if "recursive" not in word], _RELOAD_S)
        lines = ran.err.decode(errors="replace").splitlines()
        said = tuple(line.strip() for line in lines if self.name in line or DROP_IN in line)
        # Its exit code counts warnings about the unit's own files too, which are not spectune's to judge.
        ours = [line for line in said if line.startswith(f"{self.name}:") or DROP_IN in line]
        if ran.code not in {0, 127} and ours:
            raise HostError(
                f"systemd-analyze verify refuses {self.name} with the changed flags: {ours[0]}",
                "Nothing of it was started.",
            )
        return said

    def start(self) -> None:
        """Asks systemd to start it, and does not wait. Earlier failures do not count against it.

        Raises:
            HostError: systemd refuses.
        """
        words = ["/bin/sh", "-c", _START, "sh", self.name, *self.systemctl]
        try:
            self.command(words, f"systemctl start {self.name}")
        except CommandFailed as error:
            advice = f"See on {self.where}: {' '.join(self.systemctl)} status {self.name}"
            raise HostError(f"systemd refuses to start {self.name}: {error.message}", advice) from error

    def stop(self, port: int, while_waiting: Callable[[str], None] = lambda text: None) -> Look:
        """Stops it, and returns once its processes are gone, the port is free and the GPU has forgotten them.

        Raises:
            PortTaken: another program has the port now.
            HostError: it can't be stopped, or processes are left.

        Returns:
            The last look.
        """
        look = self.look(port)
        group, pids = look.state.control_group, look.pids
        if look.clear and not look.listening:
            return look
        if look.state.active not in {"inactive", "failed"} or look.state.sub == "auto-restart":
            while_waiting(f"stopping {self.name}")
            self._stop(look.state.stop_timeout_s)
        look = self._await_gone(port, group)
        if look.pids:
            # KillMode=process, mixed or none leave processes behind.
            self._kill(look.pids)
            look = self._await_gone(port, group, _KILLED_S)
        if look.pids:
            names = ", ".join(map(str, look.pids))
            raise HostError(f"processes of {self.name} on {self.where} can't be ended: {names}", "End them by hand.")
        self._await_port(port, look)
        if pids:
            self._await_gpu(pids)
        return look

    def read(self, path: str) -> FileState:
        """A file with its mode and owner; of a link, what it leads to."""
        data = self.host.get(path, sudo=self.sudo)
        if data is None:
            return FileState(path, None)
        told = self._run(["/bin/sh", "-c", _STAT, "sh", path], _ASK_S).checked(f"stat {path}").text.split()
        return FileState(path, data, int(told[0], 8), told[1])

    def write(self, path: str, data: bytes, mode: int = 0o644, owner: str | None = None) -> None:
        """Writes a file, its folder included, durably."""
        folder = posixpath.dirname(path)
        self.command(["mkdir", "-p", "--", folder], f"mkdir {folder}")
        self.host.put(path, data, mode, owner, sudo=self.sudo)

    def write_missing(self, files: Mapping[str, str]) -> None:
        """Writes files, path -> text, that are not there yet."""
        for path, text in files.items():
            if self.host.get(path, sudo=self.sudo) is None:
                self.write(path, text.encode())

    def remove(self, path: str) -> None:
        """Removes a file where there is one."""
        self.command(["/bin/sh", "-c", _REMOVE, "sh", path, posixpath.dirname(path)], f"removing {path}")

    def remove_folder(self, path: str) -> None:
        """Removes the folder of a file where it is empty."""
        folder = posixpath.dirname(path)
        self.command(["/bin/sh", "-c", _REMOVE_FOLDER, "sh", folder], f"removing {folder}")

    def put_back(self, file: FileState, folder_made: bool) -> None:
        """Makes a file be what it was, byte for byte."""
        if file.data is None:
            self.remove(file.path)
            if folder_made:
                self.remove_folder(file.path)
        else:
            self.write(file.path, file.data, file.mode, file.owner or None)

    def command(self, words: Sequence[str], what: str, data: bytes = b"") -> Ran:
        """Runs a command with the rights that changing this unit takes.

        Raises:
            DiskFull, CommandFailed: it failed.
        """
        return checked(self.host.run(words, input=data, timeout_s=_ASK_S, sudo=self.sudo), f"{what} on {self.where}")

    def port_taken(self, port: int, inode: str) -> PortTaken:
        """The error that names who listens there."""
        return PortTaken(
            f"port {port} of {self.where} is taken by {self.holder(inode)}, which is not of {self.name}",
            "Stop that program, or choose another port.",
        )

    def _stop(self, timeout_s: float | None) -> None:
        limit = (timeout_s or _RELOAD_S) + _KILLED_S
        try:
            self._systemctl("stop", self.name, timeout_s=limit)
        except CommandTimedOut:
            self._run([*self.systemctl, "kill", "--signal=KILL", self.name], _ASK_S)
            self._systemctl("stop", self.name, timeout_s=_KILLED_S)

    def _kill(self, pids: Sequence[int]) -> None:
        self._run(["/bin/sh", "-c", 'kill -KILL "$@" 2>/dev/null; true', "sh", *map(str, pids)], _ASK_S)

    def _await_gone(self, port: int, group: str, limit_s: float = 1.0) -> Look:
        deadline = self.clock.monotonic() + limit_s
        while True:
            look = self.look(port, group)
            if look.clear or self.clock.monotonic() > deadline:
                return look
            self.clock.sleep(_POLL_S)

    def _await_port(self, port: int, look: Look) -> None:
        """The kernel takes back sockets of ended processes a moment later."""
        deadline = self.clock.monotonic() + _PORT_LIMIT_S
        while look.listening:
            if self.clock.monotonic() > deadline:
                raise self.port_taken(port, min(look.listening))
            self.clock.sleep(_POLL_S)
            look = self.look(port)

    def _await_gpu(self, pids: Sequence[int]) -> None:
        deadline = self.clock.monotonic() + _GPU_LIMIT_S
        while True:
            told = self._run(["/bin/sh", "-c", _ON_GPU], _ASK_S).text.split()
            if not {str(pid) for pid in pids} & set(told):
                return
            if self.clock.monotonic() > deadline:
                raise HostError(
                    f"the GPU of {self.where} still holds memory of {self.name} {_GPU_LIMIT_S:.0f} s after its end",
                    "See nvidia-smi there; a GPU reset or a reboot may be needed.",
                )
            self.clock.sleep(_POLL_S)

    def _systemctl(self, *words: str, timeout_s: float = _ASK_S) -> Ran:
        what = f"systemctl {words[0]} {self.name if self.name in words else ''}".strip()
        return self._run([*self.systemctl, *words], timeout_s).checked(f"{what} on {self.where}")

    def _run(self, words: Sequence[str], timeout_s: float) -> Ran:
        return self.host.run(words, timeout_s=timeout_s, sudo=self.sudo)

    def _in_home(self, folder: str) -> str:
        if not self._home:
            ran = self.host.run(["/bin/sh", "-c", 'printf %s "$HOME"'], timeout_s=_ASK_S)
            self._home = ran.checked(f"finding the home folder on {self.where}").text
        return f"{self._home}/{folder}"


def checked(ran: Ran, what: str) -> Ran:
    """Like Ran.checked, and a full disk is named."""
    if ran.code != 0 and b"No space left on device" in ran.err:
        raise DiskFull(f"{what} failed: its disk is full", "Free some space there, then run the same command again.")
    return ran.checked(what)


def description(state: UnitState) -> str:
    """What a unit does at this moment, for people."""
    restarts = f", restarted by systemd {state.restarts} times" if state.restarts else ""
    result = "" if state.result == "success" else f", {state.result}"
    return f"{state.active} ({state.sub}{result}{restarts})"
