"""One ssh connection that many commands share: a master of the OpenSSH client in the background.

Only the master reads the user's configuration and meets host keys, agents and jump hosts. Commands go through its
socket; where that fails they fail too, instead of quietly opening connections of their own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from spectune.domain.errors import HostError, HostUnreachable
from spectune.domain.hosts import HostAddress
from spectune.hosts import ssh_words

CONNECT_S = 10
_CONNECT_LIMIT_S = 60
_CONTROL_LIMIT_S = 10
# A killed spectune leaves a connection behind for so long.
_PERSIST_S = 120
# The socket's path may have 107 bytes, of which ssh wants 17 for the name that it begins with.
_PATH_LIMIT = 85
_ALWAYS = ("-T", "-a", "-x", "-e", "none", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR")


class Connection:
    """Opens itself when a command needs it, and again when it was lost. Usable from several threads.

    Args:
        address: where to.
        alive_s: seconds between signs of life; a silent connection is given up after three without an answer.
    """

    def __init__(self, address: HostAddress, alive_s: int = 5) -> None:
        self._address = address
        self._alive_s = alive_s
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._connected = False

    @property
    def name(self) -> str:
        return self._address.name

    def client(self, line: bytes) -> list[bytes]:
        """The command line that has a login shell of the host read `line`, over the connection; connects if needed.

        Raises:
            HostUnreachable: no connection can be made; a branch of it tells why.
            HostError: ssh is not installed, or its configuration is wrong.
        """
        socket = self._ensure()
        return [*map(os.fsencode, self._over(socket)), b"--", os.fsencode(self.name), line]

    def control(self, *words: str) -> str:
        """Asks the master for something, such as a forward.

        Returns:
            What ssh complained about; empty where it did what was asked.
        """
        if self._folder is None:
            return "not connected"
        argv = [*self._over(self._folder / "s"), *words, "--", self.name]
        try:
            done = subprocess.run(argv, capture_output=True, check=False, timeout=_CONTROL_LIMIT_S, text=True)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"

    def is_alive(self) -> bool:
        """Whether there is a master; where there is none, the next command opens a new connection. One that vanished
        without a word is noticed only after a while."""
        with self._lock:
            if self._connected and self.control("-O", "check") == "":
                return True
            self._drop()
            return False

    def close(self) -> None:
        """Ends the connection and removes its files. A later command connects again."""
        with self._lock:
            self._drop()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _drop(self) -> None:
        if self._folder is None:
            return
        if self._connected:
            self.control("-O", "exit")
        self._connected = False
        with contextlib.suppress(OSError):
            (self._folder / "s").unlink()

    def _ensure(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = _private_folder()
            socket = self._folder / "s"
            if not self._connected or not socket.exists():
                self._drop()
                self._connect(socket)
                self._connected = True
            return socket

    def _connect(self, socket: Path) -> None:
        # The master goes on in the background and may keep what it writes to open: a file, since a pipe would not end.
        with tempfile.TemporaryFile() as said:
            try:
                code = subprocess.Popen(
                    self._master(socket),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    start_new_session=True,
                    env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
                ).wait(_CONNECT_LIMIT_S)
            except FileNotFoundError as error:
                raise HostError("there is no ssh on this machine", "Install the OpenSSH client.") from error
            except OSError as error:
                raise HostError(f"can't start ssh: {error.strerror}", "") from error
            except subprocess.TimeoutExpired as error:
                advice = f"Run `ssh {self.name} true` by hand: it must neither hang nor ask for anything."
                raise HostUnreachable(f"{self.name} let nobody in within {_CONNECT_LIMIT_S} s", advice) from error
            said.seek(0)
            text = said.read().decode(errors="replace")
        if code != 0:
            raise ssh_words.connecting(self.name, text)
        if not socket.exists():
            raise HostError(
                f"ssh to {self.name} shares no connection: {text.strip()}", "Is the OpenSSH client too old?"
            )

    def _master(self, socket: Path) -> Sequence[str]:
        address = self._address
        # Options of the command line win over the user's files; what they say there about sharing connections,
        # forwards and commands is for people's own logins.
        options = {
            "ControlMaster": "yes",
            "ControlPersist": f"{_PERSIST_S}",
            "ConnectTimeout": f"{CONNECT_S}",
            "ConnectionAttempts": "1",
            "ServerAliveInterval": f"{self._alive_s}",
            "ServerAliveCountMax": "3",
            "ClearAllForwardings": "yes",
            "PermitLocalCommand": "no",
            "RemoteCommand": "none",
            "RequestTTY": "no",
        }
        argv = ["ssh", *_ALWAYS, "-f", "-N", "-S", str(socket)]
        argv += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        argv += ["-F", address.config] if address.config else []
        argv += ["-l", address.user] if address.user else []
        argv += ["-p", str(address.port)] if address.port else []
        return [*argv, "--", address.name]

    def _over(self, socket: Path) -> Sequence[str]:
        # Without the socket ssh would connect by itself: the proxy that is none prevents it.
        return ["ssh", *_ALWAYS, "-F", "none", "-S", str(socket), "-o", "ControlMaster=no", "-o", "ProxyCommand=false"]


def _private_folder() -> Path:
    for parent in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        if parent and len(os.fsencode(parent)) < _PATH_LIMIT - len("/spectune-12345678/s"):
            with contextlib.suppress(OSError):
                return Path(tempfile.mkdtemp(prefix="spectune-", dir=parent))
    raise HostError("there is no folder for the ssh connection's socket", "Is /tmp full or not writable?")
