"""Reads why fetching or building failed from what pip, cmake, ninja and compilers write (in English: LC_ALL=C)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

JOBS_VARIABLE: Final = "SPECTUNE_BUILD_JOBS"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a command failed.

    Attributes:
        what: in words.
        advice: what the user can do.
        memory: whether it would help to do less at a time.
    """

    what: str
    advice: str
    memory: bool = False


# In order: a full disk also breaks the compiler, a dead network also leaves "no matching distribution".
_CAUSES: Final[tuple[tuple[str, Cause], ...]] = (
    (
        r"No space left on device|Disk quota exceeded|error writing to .*: (No space|Disk quota)",
        Cause(
            "the disk is full",
            "free about 0.5 GB (a build needs that much in the cache, and some in $TMPDIR), "
            "or set SPECTUNE_CACHE to a directory on another disk",
        ),
    ),
    (
        (
            r"Killed signal terminated program|fatal error: Killed|internal compiler error: Killed"
            r"|virtual memory exhausted|[Oo]ut of memory allocating|[Cc]annot allocate memory"
            r"|std::bad_alloc|ld terminated with signal 9"
        ),
        Cause(
            "the compiler was killed or ran out of memory",
            f"set {JOBS_VARIABLE}=1, or free memory; about 1.5 GB is needed for each compile job",
            memory=True,
        ),
    ),
    (
        r"THESE PACKAGES DO NOT MATCH THE HASHES",
        Cause(
            "the package index serves another file than the one this version of spectune was made with",
            "check the index that pip is configured to use (`pip config list`); nothing of that file was used",
        ),
    ),
    (
        (
            r"Temporary failure in name resolution|Name or service not known|NewConnectionError|ConnectTimeout"
            r"|Network is unreachable|No route to host|Connection refused|Read timed out|ProxyError"
            r"|Max retries exceeded|Could not fetch URL"
        ),
        Cause(
            "the package index can't be reached",
            "check the network and pip's configuration (`pip config list`, HTTPS_PROXY); "
            "without a network, install the program or model by hand and name its path",
        ),
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        Cause(
            "the package index's certificate is not trusted",
            "set pip's `cert` option (PIP_CERT) to your certificate bundle",
        ),
    ),
    (
        r"\b40[13] Client Error|User for .*:",
        Cause("the package index refuses access", "check the credentials in pip's configuration (`pip config list`)"),
    ),
    (
        r"from versions: none",
        Cause(
            "the package index knows nothing of it, or can't be reached",
            "check the network and the index that pip is configured to use (`pip config list`)",
        ),
    ),
    (
        r"No matching distribution found|Could not find a version that satisfies",
        Cause(
            "the package index doesn't have that version",
            "check the index that pip is configured to use (`pip config list`); a mirror may be behind",
        ),
    ),
    (
        (
            r"No CMAKE_(C|CXX)_COMPILER could be found|CMAKE_(C|CXX)_COMPILER not set"
            r"|is not a full path to an existing compiler|is not able to compile a simple test program"
        ),
        Cause(
            "there is no working C++ compiler",
            "install one (Debian, Ubuntu: `apt install g++`; Fedora: `dnf install gcc-c++`)",
        ),
    ),
    (
        r"CMake [\d.]+ or higher is required",
        Cause("cmake is too old", "install a newer one, or take the old one off PATH: one is then fetched"),
    ),
    (
        (
            r"unrecognized command[- ]line option|requires compiler and library support for the ISO C\+\+ 20"
            r"|error: 'filesystem' is not a member of 'std'|does not support C\+\+17"
        ),
        Cause("the C++ compiler is too old", "install g++ 9 or clang 10 or newer, and name it in CXX (and CC)"),
    ),
    (
        r"fatal error: [\w./+-]+\.h: No such file|fatal error: \w+: No such file|cannot find crt1\.o|cannot find -lc\b",
        Cause(
            "headers of the C or C++ library are missing",
            "install them (Debian, Ubuntu: `apt install build-essential`)",
        ),
    ),
    (
        r"No module named pip|ensurepip is not available|No module named ensurepip",
        Cause("there is no pip", "install it (Debian, Ubuntu: `apt install python3-pip python3-venv`)"),
    ),
    (r"Permission denied", Cause("a file may not be written or run", "see the log for its name")),
)

_ERROR_LINE: Final = re.compile(
    r"^(?!\[).*(\berror\b|\bERROR\b|CMake Error|FAILED|undefined reference).*$", re.MULTILINE
)


def cause(output: str) -> Cause | None:
    """The first known cause that the output speaks of, None where it speaks of none."""
    return next((found for pattern, found in _CAUSES if re.search(pattern, output)), None)


def telling_lines(output: str, count: int = 12) -> str:
    """The last lines that speak of errors, or simply the last lines where none does."""
    lines = [match.group().strip() for match in _ERROR_LINE.finditer(output)] or output.strip().splitlines()
    return "\n".join(line[:300] for line in lines[-count:])
