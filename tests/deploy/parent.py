"""A spectune in small: deploys what its arguments say, prints the server's pid once it is ready, and waits.

Arguments: log folder, url, mark, grace, ready timeout, "helper" to fork a process that outlives it (else ""), then the
server's command line. Exits with 130 on Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from spectune.assemble.clock import SystemClock
from spectune.cli import interrupts
from spectune.deploy.process import LocalProcesses
from spectune.domain.deployment import Launch


def run(arguments: list[str]) -> int:
    """Returns the exit code."""
    folder, url, mark, grace_s, timeout_s, helper, *argv = arguments
    launch = Launch(tuple(argv), {}, url, "/health", (), None, "m", float(timeout_s))
    interrupts.listen()
    try:
        say("starting")
        with LocalProcesses(Path(folder), SystemClock(), float(grace_s)).deploy(launch, mark) as running:
            say(str(running.pid))
            if helper and os.fork() == 0:
                # Inherits every descriptor of spectune, and outlives it.
                time.sleep(60)
                os._exit(0)
            time.sleep(60)
    except KeyboardInterrupt:
        return 130
    return 0


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
