"""What vLLM's pages say. Every reader takes a page that may be missing, broken or of another program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spectune.domain.deployment import Page
from spectune.engines.common.pages import json_of, listed_model, words
from spectune.engines.common.pages import whole as whole_number
from spectune.engines.vllm.log import engine_config

Section = Mapping[str, object]

_SECTIONS = (
    "model_config",
    "cache_config",
    "parallel_config",
    "scheduler_config",
    "load_config",
    "attention_config",
    "kernel_config",
    "structured_outputs_config",
    "observability_config",
    "compilation_config",
    "lora_config",
)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What /server_info tells, in development mode.

    Attributes:
        sections: the parts of the configuration, by vLLM's names; empty for the text form.
        line: the configuration of the text form, which is that of the log.
        env: vLLM's variables as the server has them.
    """

    sections: Mapping[str, Section] = field(default_factory=dict)
    line: Section = field(default_factory=dict)
    env: Section = field(default_factory=dict)

    def find(self, key: str, *sections: str) -> object:
        """The value of a key in the first section that has it; None where none has."""
        for name in sections or _SECTIONS:
            value = self.sections.get(name, {}).get(key)
            if value is not None:
                return value
        return None

    def section(self, name: str) -> Section | None:
        """A section; None where the page does not tell it. One that vLLM says is not set is empty."""
        return self.sections.get(name)


def read_server_info(*pages: Page | None) -> ServerInfo:
    """The first of some pages that is one, in the JSON form or in the text form."""
    for page in pages:
        body = json_of(page)
        if not isinstance(body, dict) or "vllm_config" not in body:
            continue
        config, env = body["vllm_config"], body.get("vllm_env")
        variables = env if isinstance(env, dict) else {}
        if isinstance(config, str):
            return ServerInfo(line=engine_config(config), env=variables)
        if isinstance(config, dict):
            whole = {key: value for key, value in config.items() if not isinstance(value, (dict, list))}
            parts = {key: _part(value) for key, value in config.items() if key.endswith("_config")}
            return ServerInfo({**parts, "": whole}, env=variables)
    return ServerInfo()


def _part(value: object) -> Section:
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What /v1/models tells."""

    model: str | None = None
    model_id: str | None = None
    context: int | None = None


def read_model(page: Page | None) -> ModelFacts:
    first = listed_model(page)
    return ModelFacts(words(first.get("root")), words(first.get("id")), whole(first.get("max_model_len")))


def read_version(page: Page | None) -> str | None:
    body = json_of(page)
    return words(body.get("version")) if isinstance(body, dict) else None


def read_load(page: Page | None) -> int | None:
    """Requests in flight, where the server tracks them."""
    body = json_of(page)
    return whole(body.get("server_load")) if isinstance(body, dict) else None


def whole(value: object) -> int | None:
    """A whole number, also one written as text (labels of metrics); None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    return whole_number(value)
