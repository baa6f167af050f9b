"""Files of a host, written and read by small shell programs."""

from __future__ import annotations

import posixpath

from spectune.domain.errors import AccessDenied, DiskFull, HostError
from spectune.domain.hosts import Ran

_PUT = """
export LC_ALL=C; umask 077; set -C
p=$1 dir=$2 temp=$3 mode=$4 owner=$5 n=$6
if [ -L "$p" ]; then
  p=$(readlink -f -- "$p" && echo .) || exit 1; p=${p%??}
  dir=${p%/*}/; temp=$dir${temp##*/}
fi
[ ! -d "$p" ] || { echo "$p: Is a directory" >&2; exit 1; }
if [ -e "$p" ]; then
  old=$(stat -c %u:%g -- "$p") || exit 1
  [ -n "$owner" ] || owner=$old
  [ -n "$mode" ] || mode=$(stat -c %a -- "$p") || exit 1
fi
trap '' PIPE
trap 'rm -f -- "$temp"' EXIT
trap 'exit 143' TERM INT HUP
cat >"$temp" || exit 1
size=$(wc -c <"$temp")
[ "$size" -eq "$n" ] || { echo "only $size of $n bytes arrived" >&2; exit 1; }
now=$(stat -c %u:%g -- "$temp") || exit 1
[ -z "$owner" ] || [ "$owner" = "$now" ] || chown -- "$owner" "$temp" || exit 1
chmod -- "${mode:-644}" "$temp" && sync -- "$temp" && mv -fT -- "$temp" "$p" && sync -- "$dir"
"""

_GET = 'LC_ALL=C; export LC_ALL; [ ! -d "$1" ] || { echo "$1: Is a directory" >&2; exit 1; }; exec cat <"$1"'


def put_argv(path: str, size: int, mode: int | None, owner: str | None, token: str) -> list[str]:
    """The command that writes its input to a file.

    Args:
        token: makes the name of the temporary file, which lies in the file's folder and is gone afterwards.
    """
    path = _plain(path)
    folder = path[: path.rfind("/") + 1]
    octal = "" if mode is None else f"{mode:o}"
    temporary = f"{folder}.spectune-{token}"
    return ["/bin/sh", "-c", _PUT, "sh", path, folder, temporary, octal, owner or "", str(size)]


def get_argv(path: str) -> list[str]:
    """The command that writes a file to its output."""
    return ["/bin/sh", "-c", _GET, "sh", _plain(path)]


def is_absent(ran: Ran) -> bool:
    """Whether a reading failed since there is no such file."""
    said = ran.err.strip()
    # dash says it shorter than bash does.
    return ran.code != 0 and said.endswith((b"No such file or directory", b"No such file", b"Not a directory"))


def trouble(verb: str, path: str, host: str, ran: Ran) -> HostError:
    """Why a file could not be written or read."""
    lines = [line for line in ran.err.decode(errors="replace").splitlines() if line.strip()]
    said = lines[-1] if lines else f"exit code {ran.code}"
    what = f"can't {verb} {path!a} on {host}"
    if any("No space left" in line or "quota exceeded" in line for line in lines):
        return DiskFull(f"{what}: its disk is full", "Free some space there, then run the same command again.")
    if any("ermission denied" in line or "not permitted" in line or "Read-only file" in line for line in lines):
        return AccessDenied(f"{what}: {said}", "Use a login that may, or one that may use sudo.")
    return HostError(f"{what}: {said}", "")


def _plain(path: str) -> str:
    """A path that no program takes for an option or for its standard input."""
    if not path or "\0" in path or posixpath.basename(path) in {"", ".", ".."}:
        raise HostError(f"{path!a} is not the path of a file", "")
    return path if path.startswith("/") else f"./{path}"
