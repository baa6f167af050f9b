"""One look at a unit, its processes and a port of its host: a single command, so that looking often is cheap."""

from __future__ import annotations

from dataclasses import dataclass

from spectune.domain.deployment import ListenerOwner
from spectune.domain.service_state import UnitState
from spectune.systemd.show import PROPERTIES, parse, whole

_MARK = "--spectune--"
_SCRIPT = r"""
LC_ALL=C; export LC_ALL
unit=$1 hex=$2 group=$3 invocation=$4; shift 4
said=$("$@" show --timestamp=unix -p PROPERTIES -- "$unit") ||
  said=$("$@" show -p PROPERTIES -- "$unit") || exit
printf '%s\nMARK\n' "$said"
now=$(printf '%s\n' "$said" | sed -n 's/^ControlGroup=//p')
pids=$(for path in "$now" "$group"; do
  case $path in ''|/) continue;; esac
  for root in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
    [ ! -d "$root$path" ] || find "$root$path" -name cgroup.procs -exec cat {} + 2>/dev/null
  done
done | sort -u)
printf '%s\nMARK\n' "$pids"
listen=$(grep -hi "^ *[0-9]*: [0-9a-f]*:$hex [0-9a-f]*:[0-9a-f]* 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null)
printf '%s\nMARK\n' "$listen"
for pid in $pids; do
  grep -h '^VmRSS' "/proc/$pid/status" 2>/dev/null
  [ -z "$listen" ] || ls -l "/proc/$pid/fd" 2>/dev/null | grep -o 'socket:\[[0-9]*\]'
done
printf 'MARK\n'
[ -z "$invocation" ] ||
  journalctl -q --no-pager -n 1 -o cat --show-cursor \
    "_SYSTEMD_INVOCATION_ID=$invocation" + "_SYSTEMD_USER_UNIT=$unit" 2>/dev/null | tail -n 1
exit 0
"""
SCRIPT = _SCRIPT.replace("PROPERTIES", ",".join(PROPERTIES)).replace("MARK", _MARK)

HOLDER = r"""
for fd in /proc/[0-9]*/fd; do
  pid=${fd#/proc/}; pid=${pid%/fd}
  if ls -l "$fd" 2>/dev/null | grep -qF "socket:[$1]"; then
    printf '%s (pid %s)' "$(cat "/proc/$pid/comm")" "$pid"; exit 0
  fi
done
"""
"""Prints who holds the socket with a given inode."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has shown.

    Attributes:
        pids: processes in the unit's control group.
        listening: inodes of the sockets that listen on the port.
        owned: inodes of sockets of the unit's processes.
        rss_bytes: memory of the processes, shared pages counted once for each.
        cursor: place of the start's latest journal entry; changes as its log grows.
    """

    state: UnitState
    pids: tuple[int, ...] = ()
    listening: frozenset[str] = frozenset()
    owned: frozenset[str] = frozenset()
    rss_bytes: int = 0
    cursor: str = ""

    @property
    def listener(self) -> ListenerOwner:
        """Whose sockets listen on the port; one foreign listener among ours makes it FOREIGN."""
        if not self.listening:
            return ListenerOwner.NONE
        return ListenerOwner.OURS if self.listening <= self.owned else ListenerOwner.FOREIGN

    @property
    def clear(self) -> bool:
        """Nothing of the unit runs."""
        return not self.pids and self.state.active in {"inactive", "failed"}


def argv(systemctl: tuple[str, ...], unit: str, port: int, group: str, invocation: str) -> list[str]:
    """The command of a look.

    Args:
        systemctl: how the unit's manager is asked.
        group: a control group that the unit had earlier; its processes count as well.
        invocation: the start whose log is watched; "" for none.
    """
    return ["/bin/sh", "-c", SCRIPT, "sh", unit, f"{port:04X}", group, invocation, *systemctl]


def read(text: str) -> Look:
    """What the command printed. Never raises: missing parts are empty."""
    parts = [part.strip("\n") for part in text.split(f"{_MARK}\n")] + [""] * 5
    shown, pids, listening, sockets, cursor = parts[:5]
    lines = sockets.split("\n")
    return Look(
        parse(shown),
        tuple(pid for word in pids.split() if (pid := whole(word))),
        frozenset(fields[9] for line in listening.split("\n") if len(fields := line.split()) > 9),
        frozenset(line[len("socket:[") : -1] for line in lines if line.startswith("socket:[")),
        sum(whole(fields[1]) * 1024 for line in lines if line.startswith("VmRSS") and len(fields := line.split()) > 1),
        cursor.strip(),
    )
