"""Where prompts come from: the built-in set, made as they are needed, or a file or trace of the user's."""

from spectune.workload.agentic import agentic
from spectune.workload.builtin_set import builtin_source
from spectune.workload.jsonl import jsonl_source
from spectune.workload.nonce import WithNonce
from spectune.workload.opening import open_source
from spectune.workload.repetitive import repetitive
from spectune.workload.synthetic import synthetic
from spectune.workload.traces import trace_source

__all__ = [
    "WithNonce", "agentic", "builtin_source", "jsonl_source", "open_source", "repetitive", "synthetic", "trace_source",
]  # fmt: skip
