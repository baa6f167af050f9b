"""The small shell program that every command runs under, here as over ssh, and how words reach it whole.

The wrapper's standard input is its lifeline: where it ends before spectune said so (connection lost, spectune killed,
time up), the process group of the command is ended. Its steps, with M a random mark of this one command:

1. it writes "M(" to stdout and stderr, which tells its output from that of login shells, and waits; before spectune
   answers "go" nothing is run, so a connection that breaks until then may be tried again;
2. it hands the input to the command; the input's end is passed on only after spectune's "end", so that input cut off
   by a broken connection never looks complete;
3. as long as it has input to hand over it can't see the lifeline's end: each second it writes "M~" to stdout, which
   fails when nobody is there any more;
4. it writes "M)" to stdout and "M)code." to stderr, so that a command's own exit code 255 differs from ssh's.

The host's clock guards the command too: a connection that vanished without a word is not noticed by sshd for hours.
Needs a POSIX shell and the timeout and dd of coreutils, as every systemd distribution has them. dd reads no byte
beyond those it was asked for, while head of some releases does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

BLOCK = 1 << 16
_UNQUOTED = re.compile(rb"[A-Za-z0-9_./:,@%+=-]+")
_GRACE_S = 1

_SCRIPT = (
    'm=$1 t=$2 q=$3 r=$4; shift 4; printf "%s(" "$m";'
    # What the shells themselves have to say about ended children is nobody's: fds 4 and 5 are the true ones.
    " exec 4>&2 5>&1 2>/dev/null;"
    f" die() {{ kill -TERM 0; sleep {_GRACE_S}; kill -KILL 0; }};"
    " feed() {"
    f' {{ [ "$q" = 0 ] || timeout --foreground -s KILL "$t" dd bs={BLOCK} count="$q" iflag=fullblock; }} &&'
    ' { [ "$r" = 0 ] || timeout --foreground -s KILL "$t" dd bs="$r" count=1 iflag=fullblock; };'
    " };"
    ' beat() { trap "" PIPE; while sleep 1 4>&- 5>&-; do printf "%s~" "$m" >&5 || die; done; };'
    " { trap '' TERM HUP;"
    ' printf "%s(" "$m" >&4; read -r x; [ "$x" = go ] || die;'
    # The command's side ends both of these processes before it reports, or they would hold the output open.
    " beat >/dev/null & b=$!; sh -c 'echo $PPID'; echo $b; feed 4>&- 5>&-; f=$?; kill -KILL $b;"
    # A command may close its input early: dd then ends by SIGPIPE, and the rest of the input is nobody's.
    ' case $f in 0) read -r x; [ "$x" = end ] || die;; 124|126|127|137) die;; esac;'
    ' exec >/dev/null 4>&- 5>&-; timeout --foreground -s KILL "$t" cat; die;'
    ' } | { read -r w; read -r b; (exec "$@" 2>&4 4>&- 5>&-); c=$?; kill -KILL "$w" "$b";'
    ' printf "%s)" "$m"; printf "%s)%s." "$m" "$c" >&4; }'
)


def wrapped(argv: Sequence[bytes], mark: str, limit_s: int, input_bytes: int) -> list[bytes]:
    """The command line that runs `argv` under the wrapper.

    Args:
        mark: no other command's; only letters and digits.
        limit_s: whole seconds after which the host ends the command by itself.
        input_bytes: length of the input that will follow "go".
    """
    blocks, rest = divmod(input_bytes, BLOCK)
    numbers = [str(number).encode() for number in (limit_s, blocks, rest)]
    return [b"/bin/sh", b"-c", _SCRIPT.encode(), b"sh", mark.encode(), *numbers, *argv]


def quote(word: bytes) -> bytes:
    """A word as every login shell reads it: sh, bash, zsh and fish, and csh where the word has no line break.

    Backslash, quote and exclamation mark stand outside of quotes, since shells differ about them inside.
    """
    if _UNQUOTED.fullmatch(word):
        return word
    return b"'" + re.sub(rb"[\\'!]", lambda match: b"'\\" + match[0] + b"'", word) + b"'"


def command_line(argv: Sequence[bytes]) -> bytes:
    """Words as one line for the login shell, which is replaced by the command."""
    return b"exec " + b" ".join(map(quote, argv))
