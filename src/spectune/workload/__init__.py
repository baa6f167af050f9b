"""Where prompts come from: the built-in set, or a file of the user's."""

from spectune.workload.builtin_set import builtin_source
from spectune.workload.jsonl import jsonl_source
from spectune.workload.nonce import WithNonce

__all__ = ["WithNonce", "builtin_source", "jsonl_source"]
