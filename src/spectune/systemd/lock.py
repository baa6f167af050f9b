"""A lock on the host that keeps two changes of one unit apart.

Its owner keeps a process on the host that ends with the connection or with spectune, so that anybody can tell a lock
whose owner is gone. The lock is a folder that appears with its content in one step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

from spectune.domain.errors import HostError
from spectune.systemd.unit import ManagedUnit, checked

_KEEP = 'echo "$$ $(cut -d" " -f22 /proc/$$/stat) $(cat /proc/sys/kernel/random/boot_id)"; exec sleep 2147483647'
_BUSY = 9
# A killed owner's process on the host ends a moment after it.
_WAIT_S = 6.0
_POLL_S = 0.5
# A process is the same one only where its start time is the same too.
_TAKE = r"""
lock=$1/lock new=$1/.lock-$2
alive() {
  set -- $(sed -n 2p "$lock/owner" 2>/dev/null)
  [ "$3" = "$(cat /proc/sys/kernel/random/boot_id)" ] && [ "$(cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null)" = "$2" ]
}
umask 077
rm -rf -- "$new" && mkdir -- "$new" && cat >"$new/owner" || exit 1
if mv -T -- "$new" "$lock" 2>/dev/null; then exit 0; fi
if alive; then rm -rf -- "$new"; head -n 1 "$lock/owner"; exit 9; fi
mv -T -- "$lock" "$1/.stale-$2" 2>/dev/null && rm -rf -- "$1/.stale-$2"
mv -T -- "$new" "$lock" || { rm -rf -- "$new"; exit 9; }
"""
_GIVE = '[ "$(sed -n 3p "$1/lock/owner" 2>/dev/null)" != "$2" ] || rm -rf -- "$1/lock"'
_OTHERS, _GONE = 3, 4
_MINE = '[ -d "$1/lock" ] || exit 4; [ "$(sed -n 3p "$1/lock/owner" 2>/dev/null)" = "$2" ] || exit 3'


class Lock:
    """A held lock."""

    def __init__(self, unit: ManagedUnit, token: str) -> None:
        self._unit = unit
        self._token = token

    def check(self, may_be_gone: bool = False) -> None:
        """Makes sure that it is still ours: after a lost connection somebody else may have taken it, done their work
        and given it back.

        Args:
            may_be_gone: that nobody has it is no error.

        Raises:
            HostError: it is not.
        """
        words = ["/bin/sh", "-c", _MINE, "sh", self._unit.state_folder, self._token]
        code = self._unit.host.run(words, timeout_s=30.0, sudo=self._unit.sudo).code
        if code == 0 or (code == _GONE and may_be_gone):
            return
        now = "was taken over by another spectune" if code == _OTHERS else "is gone"
        raise HostError(
            f"the lock of this spectune on {self._unit.name} of {self._unit.where} {now}",
            f"See what it runs: spectune status --unit {self._unit.name}",
        )


@contextmanager
def held(unit: ManagedUnit, owner: str, token: str) -> Iterator[Lock]:
    """Takes the lock of a unit until the block is left. The unit's folder must exist.

    Args:
        owner: one line that says who it is, for people.
        token: nobody else's; letters and digits.

    Raises:
        HostError: somebody else has it, and is alive.
    """
    with unit.host.follow(["/bin/sh", "-c", _KEEP]) as lines:
        keeper = next(lines, "")
        words = " ".join(owner.split())
        content = f"{words}\n{keeper}\n{token}\n".encode()
        command = ["/bin/sh", "-c", _TAKE, "sh", unit.state_folder, token]
        deadline = unit.clock.monotonic() + _WAIT_S
        while True:
            ran = unit.host.run(command, input=content, timeout_s=30.0, sudo=unit.sudo)
            if ran.code != _BUSY or unit.clock.monotonic() > deadline:
                break
            unit.clock.sleep(_POLL_S)
        if ran.code == _BUSY:
            raise HostError(
                f"{unit.name} on {unit.where} is being changed by {ran.text.strip() or 'another spectune'}",
                "Wait for it to end, or end it: it puts the service back first.",
            )
        checked(ran, f"locking {unit.name} on {unit.where}")
        try:
            yield Lock(unit, token)
        finally:
            give = ["/bin/sh", "-c", _GIVE, "sh", unit.state_folder, token]
            # Where the host can't be reached the lock stays, and its keeper's end tells that it is stale.
            with contextlib.suppress(HostError):
                unit.host.run(give, timeout_s=30.0, sudo=unit.sudo)


def owner_line(who: str, what: str, at: str) -> str:
    """Who holds a lock or wrote a plan, for people."""
    return f"{who} ({what}, since {at})"
