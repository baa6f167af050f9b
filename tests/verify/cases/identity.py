"""Whose server answers, since when, with which model."""

from __future__ import annotations

from dataclasses import replace

from spectune.domain.deployment import Exit, ListenerOwner, Page
from tests.verify.builders import MODEL, SERVICE, asked, evidence, seen
from tests.verify.cases.case import Cases, ok, unknown, violated

SILENT = {"/slots": Page(0, "")}
ANY_FILE = replace(asked(), service=replace(SERVICE, model=""))
"""A model id is all that was asked."""

CASES: Cases = {
    "listener-is-ours": (
        ok(asked(), evidence(listener=ListenerOwner.OURS)),
        violated(asked(), evidence(listener=ListenerOwner.FOREIGN), "did not start"),
        violated(asked(), evidence(listener=ListenerOwner.NONE), "nothing listens"),
        unknown(asked(), evidence(listener=ListenerOwner.UNKNOWN)),
    ),
    "process-alive": (
        ok(asked(), evidence(), "runs"),
        ok(asked(), evidence(listener=ListenerOwner.UNKNOWN), "runs"),
        violated(asked(), evidence(exit=Exit(-9, "loading\nout of memory\n")), "code -9: out of memory"),
        violated(asked(), evidence(exit=Exit(1, "")), "code 1"),
        unknown(asked(), evidence(listener=ListenerOwner.UNKNOWN, pages=SILENT), "nothing answers"),
        unknown(asked(), evidence(listener=ListenerOwner.NONE, pages={}), "nothing answers"),
    ),
    "started-after-deploy": (
        ok(asked(), evidence(started_unix=1000.0)),
        ok(asked(), evidence(started_unix=1030.0)),
        ok(asked(), evidence(started_unix=998.5)),
        violated(asked(), evidence(started_unix=997.0)),
        violated(asked(), evidence(started_unix=0.0)),
        unknown(asked(), evidence(started_unix=None)),
        unknown(asked(), evidence(started_unix=float("nan"))),
    ),
    "model-served": (
        ok(asked(), seen(model_id="small", model=MODEL)),
        ok(asked(), seen(model_id="small", model="/models/./small.gguf")),
        ok(asked(), seen(model_id="small", model="small.gguf")),
        ok(ANY_FILE, seen(model=None)),
        ok(ANY_FILE, seen(model="/other")),
        violated(asked(), seen(model_id="small", model="/old/small.gguf")),
        violated(asked(), seen(model_id="large", model=MODEL)),
        violated(asked(), seen(model_id="large", model=None)),
        unknown(asked(), seen(model_id=None, model=MODEL)),
        unknown(asked(), seen(model_id="small", model=None)),
    ),
}
