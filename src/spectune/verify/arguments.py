"""Reading settings back from a command line, and comparing them with what was asked. Engine spellings are data."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping, Sequence

from spectune.domain.candidate import Method
from spectune.domain.knobs import KnobValue

METHOD_FLAGS: Mapping[str, Mapping[str, Method]] = {
    "spec-type": {
        "none": Method.NONE,
        "draft-simple": Method.DRAFT,
        "draft-mtp": Method.MTP,
        "draft-eagle3": Method.EAGLE3,
        "draft-dflash": Method.DFLASH,
        "ngram-simple": Method.NGRAM,
        "ngram-mod": Method.NGRAM_POOL,
    },
    "speculative-algorithm": {
        "EAGLE": Method.EAGLE,
        "EAGLE3": Method.EAGLE3,
        "STANDALONE": Method.DRAFT,
        "DFLASH": Method.DFLASH,
        "NEXTN": Method.MTP,
        "NGRAM": Method.NGRAM,
    },
}
"""Flag -> its value -> method, for engines that do not report the method."""

DEPTH_FLAGS: Mapping[str, tuple[frozenset[Method], int]] = {
    "spec-draft-n-max": (
        frozenset({Method.DRAFT, Method.MTP, Method.EAGLE, Method.EAGLE3, Method.DFLASH}),
        0,
    ),
    "spec-ngram-simple-size-m": (frozenset({Method.NGRAM}), 0),
    "spec-ngram-mod-n-max": (frozenset({Method.NGRAM_POOL}), 0),
    "speculative-num-steps": (frozenset({Method.EAGLE, Method.EAGLE3, Method.MTP, Method.DRAFT}), 0),
    "speculative-num-draft-tokens": (frozenset({Method.NGRAM, Method.DFLASH}), 1),
}
"""Flag -> the methods whose depth it sets, and what it counts beyond k."""

_TRUE = frozenset({"true", "on", "yes", "1", "enabled"})
_FALSE = frozenset({"false", "off", "no", "0", "disabled"})


def given(argv: Sequence[str], name: str) -> KnobValue | None:
    """The value of a long flag on a command line: True for a bare flag, False for --no-flag, None when absent.

    The last one counts, as engines read it. "--flag=value", "--flag value" and underscores for dashes are understood.
    """
    found: KnobValue | None = None
    for position, word in enumerate(argv):
        if not word.startswith("--"):
            continue
        flag, equals, value = word[2:].partition("=")
        flag = flag.replace("_", "-")
        if flag == f"no-{name}":
            found = False
        elif flag == name.replace("_", "-"):
            following = argv[position + 1] if position + 1 < len(argv) else "--"
            found = value if equals else True if _is_flag(following) else following
    return found


def _is_flag(word: str) -> bool:
    return word.startswith("-") and _number(word) is None


def same(asked: KnobValue, seen: KnobValue) -> bool:
    """Whether two spellings mean one value: 0.6 and "0.600000", true and "on", a path and its normal form."""
    if isinstance(asked, bool) or isinstance(seen, bool):
        return _truth(asked) is not None and _truth(asked) == _truth(seen)
    a, b = _number(asked), _number(seen)
    if a is not None and b is not None:
        return math.isclose(a, b, rel_tol=1e-4)
    return _plain(str(asked)) == _plain(str(seen))


def _truth(value: KnobValue) -> bool | None:
    word = str(value).strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _number(value: KnobValue) -> float | None:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _plain(text: str) -> str:
    text = text.strip()
    return posixpath.normpath(text) if "/" in text else text


def mentions(line: str, name: str) -> bool:
    """Whether a log line speaks of a setting, in either spelling and as a whole word."""
    word = re.escape(name.replace("-", "_").lower())
    return re.search(rf"(?<!\w){word}(?!\w)", line.replace("--", " ").replace("-", "_").lower()) is not None


def method_given(argv: Sequence[str]) -> Method | None:
    """The speculation method a command line asks for; None when it names none, several or an unknown one."""
    found = {spelled.get(str(given(argv, flag))) for flag, spelled in METHOD_FLAGS.items() if given(argv, flag)}
    return found.pop() if len(found) == 1 else None


def depth_given(argv: Sequence[str], method: Method) -> int | None:
    """The depth k a command line asks for; None when it does not say."""
    for flag, (methods, beyond) in DEPTH_FLAGS.items():
        value = given(argv, flag)
        number = None if value is None or isinstance(value, bool) else _number(value)
        if method in methods and number is not None and number.is_integer():
            return int(number) - beyond
    return None
