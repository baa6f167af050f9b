"""Requests as bytes: bodies for /v1/chat/completions and /v1/completions."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import orjson

from spectune.domain.errors import InputError
from spectune.domain.workload import Prompt, Sampling
from spectune.load.exchange import Pool, RawExchange, add_body, encode_head


class Api(StrEnum):
    """Which of OpenAI's endpoints is asked."""

    CHAT = "chat"
    """Messages, put into the model's chat template by the server."""
    COMPLETIONS = "completions"
    """Bare text without a chat template: the contents of the messages, with a blank line between two."""

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self is Api.CHAT else "/v1/completions"


def body(api: Api, model: str, prompt: Prompt, sampling: Sampling, max_tokens: int) -> bytes:
    """A streaming request whose last chunk carries usage.

    Extra fields of the sampling replace those made here, and extra fields of the prompt replace both.

    Raises:
        InputError: a field is nothing that JSON can hold.
    """
    fields: dict[str, object] = {"model": model}
    if api is Api.CHAT:
        fields["messages"] = [
            {"role": message.role, "content": message.content, **message.extra} for message in prompt.messages
        ]
    else:
        fields["prompt"] = "\n\n".join(message.content for message in prompt.messages)
    fields |= {"max_tokens": max_tokens, "stream": True, "stream_options": {"include_usage": True}}
    if sampling.temperature is not None:
        fields["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        fields["top_p"] = sampling.top_p
    if sampling.seed is not None:
        fields["seed"] = request_seed(sampling.seed, prompt.id)
    if sampling.ignore_eos or prompt.fixed_length:
        fields["ignore_eos"] = True
    try:
        return orjson.dumps(fields | dict(sampling.extra) | dict(prompt.extra))
    except TypeError as error:
        raise InputError(f"prompt {prompt.id} cannot be sent as JSON: {error}", "Look at its extra fields.") from error


def request_seed(seed: int, prompt_id: str) -> int:
    """The same for the same prompt in every arm of a comparison, different between prompts; below 2^31."""
    digest = hashlib.sha256(f"{seed}/{prompt_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


@dataclass(frozen=True, slots=True)
class Server:
    """Where requests go; see domain.ports.Target."""

    url: str
    model_id: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    keep_alive: bool = True


@dataclass(frozen=True, slots=True)
class Sender:
    """Prompts to one server under one sampling."""

    pool: Pool
    server: Server
    sampling: Sampling
    api: Api
    _head: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_head", encode_head(self.server.url, self.api.path, self.server.headers))

    def encode(self, prompt: Prompt, max_tokens: int) -> bytes:
        """The whole request, ahead of its time."""
        return add_body(self._head, body(self.api, self.server.model_id, prompt, self.sampling, max_tokens))

    def exchange(self, request: bytes) -> Awaitable[RawExchange]:
        return self.pool.exchange(request)

    def cancel(self) -> None:
        """Ends what is in flight."""
        self.pool.cancel()
