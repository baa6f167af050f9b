"""What a server says about itself."""

from __future__ import annotations

from tests.verify.builders import BASELINE, asked, evidence, seen
from tests.verify.cases.case import Cases, ok, unknown, violated

KEY = "W srv llama_server: security: no API key is set and CORS allows all origins"
CONTEXT = "W llama_context: n_ctx_seq (40000000) > n_ctx_train (8192) -- possible training context overflow"
SMALLER = CONTEXT.replace("40000000", "16384")
OVERFLOW = "training context overflow"

CASES: Cases = {
    "output-valid": (
        ok(asked(), seen()),
        violated(asked(), seen(invalid_output="synthetic speculative acceptance is enabled"), "simulated: synthetic"),
        violated(asked(), seen(invalid_output=""), "simulated:"),
        unknown(asked(), evidence(log=" \n")),
    ),
    "new-warnings": (
        ok(asked(baseline_warnings=()), seen()),
        ok(asked(baseline_warnings=None), seen()),
        ok(asked(baseline_warnings=()), seen(warnings=(KEY,))),
        ok(asked(baseline_warnings=(CONTEXT,)), seen(warnings=(CONTEXT,))),
        ok(asked(baseline_warnings=(CONTEXT,)), seen(warnings=(SMALLER,))),
        # The baseline sets the measure.
        ok(asked(BASELINE, (), baseline_warnings=None), seen(warnings=(CONTEXT,))),
        unknown(asked(baseline_warnings=()), seen(warnings=(CONTEXT,)), OVERFLOW),
        unknown(asked(baseline_warnings=None), seen(warnings=(CONTEXT,)), OVERFLOW),
        unknown(asked(baseline_warnings=(KEY,)), seen(warnings=(KEY, CONTEXT)), OVERFLOW),
        unknown(asked(), evidence(log=""), "no log"),
    ),
}
