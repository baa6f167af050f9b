"""Runs a command on a host until it is killed. Arguments: ssh configuration, or "" for this machine; the command."""

from __future__ import annotations

import sys

from spectune.assemble.clock import SystemClock
from spectune.domain.hosts import Host, HostAddress
from spectune.hosts.local import Local
from spectune.hosts.ssh import Ssh
from tests.hosts.sshd import ALIAS

if __name__ == "__main__":
    config, *argv = sys.argv[1:]
    host: Host = Ssh(HostAddress(ALIAS, config=config), SystemClock()) if config else Local(SystemClock())
    host.run(argv, input=b"x" * 1_000_000, timeout_s=60)
