"""Request bodies for /v1/chat/completions."""

from __future__ import annotations

import hashlib

import orjson

from spectune.domain.workload import Prompt, Sampling

PATH = "/v1/chat/completions"


def chat_body(model: str, prompt: Prompt, sampling: Sampling, max_tokens: int) -> bytes:
    """A streaming request whose last chunk carries usage."""
    body: dict[str, object] = {
        "model": model,
        "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.seed is not None:
        body["seed"] = request_seed(sampling.seed, prompt.id)
    if sampling.ignore_eos:
        body["ignore_eos"] = True
    return orjson.dumps(body | dict(sampling.extra))


def request_seed(seed: int, prompt_id: str) -> int:
    """The same for the same prompt in every arm of a comparison, different between prompts; below 2^31."""
    digest = hashlib.sha256(f"{seed}/{prompt_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
