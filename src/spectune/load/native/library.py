"""The compiled library, as ctypes sees it: reader.c and runs.h, which say what each function does.

It is made when spectune is installed, by hatch_build.py, and left out where there is no C compiler. Everything that it
does is done in Python as well, at up to twice the cost.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

_LIBRARY = Path(__file__).with_name("_native.so")
_VERSION = 2
"""Of the functions and structures below; the same as in reader.c."""


class Result(ctypes.Structure):
    """How an exchange ended.

    Attributes:
        sent_ns, end_ns: as in RawExchange.
        body, body_n: the bytes of the body, without framing.
        marks, reads: of every read that brought some of it, its time and how much there was after it, two numbers each.
        wrong: what was no HTTP/1.1, or None.
        outcome: place in OUTCOMES.
        status: of the answer; 0 where none began.
        error: errno that broke the connection; 0 where it was closed in an orderly way.
        reusable: the connection may carry another exchange.
    """

    sent_ns: int
    end_ns: int
    body: int | None
    marks: int | None
    body_n: int
    reads: int
    wrong: bytes | None
    outcome: int
    status: int
    error: int
    reusable: int

    _fields_ = (
        ("sent_ns", ctypes.c_int64),
        ("end_ns", ctypes.c_int64),
        ("body", ctypes.c_void_p),
        ("marks", ctypes.c_void_p),
        ("body_n", ctypes.c_int64),
        ("reads", ctypes.c_int64),
        ("wrong", ctypes.c_char_p),
        ("outcome", ctypes.c_int32),
        ("status", ctypes.c_int32),
        ("error", ctypes.c_int32),
        ("reusable", ctypes.c_int32),
    )


class Run(ctypes.Structure):
    """What spectune_run takes and changes."""

    at: int
    strings_n: int
    text_n: int

    _fields_ = (
        ("body", ctypes.c_char_p),
        ("n", ctypes.c_int64),
        ("at", ctypes.c_int64),
        ("before", ctypes.c_char_p),
        ("after", ctypes.c_char_p),
        ("before_n", ctypes.c_int64),
        ("after_n", ctypes.c_int64),
        ("stamps", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("reads", ctypes.c_int64),
        ("event_stamps", ctypes.c_void_p),
        ("strings", ctypes.c_void_p),
        ("text", ctypes.c_void_p),
        ("strings_n", ctypes.c_int64),
        ("text_n", ctypes.c_int64),
    )


_P, _INT, _LONG = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_SIGNATURES = {
    "spectune_reader_new": (_P, (_LONG, _LONG)),
    "spectune_reader_free": (None, (_P,)),
    "spectune_reader_bell": (ctypes.c_int, (_P,)),
    "spectune_reader_add": (_INT, (_P, ctypes.c_int)),
    "spectune_reader_start": (ctypes.c_int, (_P, _INT, ctypes.c_char_p, _LONG)),
    "spectune_reader_ended": (_INT, (_P, _P, _INT)),
    "spectune_reader_lag": (None, (_P, ctypes.POINTER(_LONG), ctypes.POINTER(_LONG))),
    "spectune_reader_result": (ctypes.POINTER(Result), (_P, _INT)),
    "spectune_reader_reuse": (None, (_P, _INT)),
    "spectune_reader_cancel": (ctypes.c_int, (_P, _INT)),
    "spectune_reader_close": (None, (_P, _INT)),
    "spectune_run": (_LONG, (ctypes.POINTER(Run),)),
}


@cache
def library() -> ctypes.CDLL | None:
    """The library; None where it was not compiled, or is another machine's or another version's."""
    try:
        loaded = ctypes.CDLL(str(_LIBRARY), use_errno=True)
        if loaded.spectune_version() != _VERSION:
            return None
    except (OSError, AttributeError):
        return None
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded
