"""Runs code that a model wrote: without network, without rights, without a place to write, and not for long.

The code runs as nobody in namespaces of its own (network, processes, mounts, IPC), with empty file systems in place of
the directories that everybody may write to, with every capability dropped, and under limits of CPU time, memory, files
and processes. All of this needs Linux, util-linux and root; where any of it is missing nothing is run at all.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

CPU_S, WALL_S = 5, 15.0
MEMORY_BYTES, FILE_BYTES = 1 << 30, 1 << 20
PROCESSES, FILES = 16, 64
NOBODY = 65534
_TOOLS = ("unshare", "setpriv", "prlimit", "mount", "sh")
_EMPTY = ("/tmp", "/var/tmp", "/dev/shm", "/run")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A way to run untrusted Python on this machine.

    Attributes:
        python: an interpreter that nobody may run.
    """

    python: str

    def passes(self, code: str, tests: str) -> bool:
        """Whether code stands the tests that are run after it. Only tests that came to their end count: leaving early
        does not, since the word that is said at the end is not known to the code."""
        word = secrets.token_hex(16)
        program = f"{code}\n\n{tests}\n\nprint({word!r})\n"
        status, output = self._run(program)
        return status == 0 and output.rstrip().endswith(word)

    def _run(self, program: str) -> tuple[int | None, str]:
        """Exit status (None: too slow) and the end of what was said."""
        process = subprocess.Popen(
            _command(self.python), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
            env={"PATH": "/usr/bin:/bin"}, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(program.encode("utf-8", "replace"), timeout=WALL_S)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            # The first process of the namespace ends with unshare, and everything in it with that.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        return process.returncode, output[-200:].decode("utf-8", "replace")


def _command(python: str) -> list[str]:
    mounts = " && ".join(
        f"mount -t tmpfs -o size=8m,mode=1777 none {place}" for place in _EMPTY if os.path.isdir(place)
    )
    limits = (
        f"prlimit --cpu={CPU_S} --as={MEMORY_BYTES} --fsize={FILE_BYTES} --nproc={PROCESSES} --nofile={FILES} --core=0"
    )
    rights = (
        f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all"
    )
    # Output is cut here, so that no flood of it fills the memory of the one who waits.
    inside = f'{mounts} && cd /tmp && {rights} {limits} "$0" -I -S - | {{ tail -c 4096; }}'
    return [
        "unshare", "--net", "--pid", "--mount", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc",
        "sh", "-c", inside, python,
    ]  # fmt: skip


@cache
def sandbox() -> Sandbox | None:
    """The sandbox of this machine, tried out; None where there is none."""
    if sys.platform != "linux" or os.geteuid() != 0 or any(shutil.which(tool) is None for tool in _TOOLS):
        return None
    for python in dict.fromkeys((os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3")):
        found = Sandbox(python)
        if os.path.exists(python) and _holds(found):
            return found
    return None


_CONFINED = """
import os, socket
assert os.getuid() == 65534 and os.getpid() < 20
for place in ("/", "/home", os.path.expanduser("~root")):
    try:
        open(os.path.join(place, "spectune-sandbox"), "w")
    except OSError:
        continue
    raise SystemExit(3)
try:
    socket.create_connection(("127.0.0.1", 9), 1)
except ConnectionRefusedError:
    raise SystemExit(4)
except OSError:
    pass
"""


def _holds(tried: Sandbox) -> bool:
    """Whether it runs sound code, stops wrong code, and keeps code from the network and the disk."""
    try:
        return tried.passes(_CONFINED, "assert 1 + 1 == 2") and not tried.passes("", "assert 1 + 1 == 3")
    except OSError:
        return False
