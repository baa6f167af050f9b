"""Records made by hand: seconds in, nanoseconds inside."""

from __future__ import annotations

from array import array

import numpy as np

from spectune.domain.measurement import Outcome, Phase, RequestRecord, TokenSource
from spectune.load.record import Recorded


def record(
    *,
    sent: float = 0.0,
    ttft: float = 0.5,
    decode: float = 1.0,
    tokens: int | None = 11,
    domain: str = "chat",
    phase: Phase = Phase.STEADY,
    outcome: Outcome = Outcome.OK,
    prompt_id: str = "p",
    **more: object,
) -> RequestRecord:
    """One request of `tokens` tokens, sent at `sent` seconds."""

    def ns(seconds: float) -> int:
        return int(1_000_000_000 + 1e9 * seconds)

    return RequestRecord(
        prompt_id=prompt_id,
        domain=domain,
        outcome=outcome,
        phase=phase,
        due_ns=ns(sent),
        sent_ns=ns(sent),
        first_ns=ns(sent + ttft),
        last_ns=ns(sent + ttft + decode),
        end_ns=ns(sent + ttft + decode),
        output_tokens=tokens,
        token_source=TokenSource.UNKNOWN if tokens is None else TokenSource.USAGE,
        **more,  # type: ignore[arg-type]
    )


def recorded(chunks: int = 11, **fields: object) -> Recorded:
    """The same with evenly spaced chunks."""
    r = record(chunks=chunks, **fields)  # type: ignore[arg-type]
    assert r.first_ns is not None
    assert r.last_ns is not None
    return Recorded(r, array("q", np.linspace(r.first_ns, r.last_ns, chunks).astype(np.int64).tolist()), "")
