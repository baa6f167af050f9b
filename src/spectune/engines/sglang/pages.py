"""What SGLang's pages say. Every reader takes a page that may be missing, broken or of another program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spectune.domain.deployment import Counters, Page
from spectune.engines.common.metrics import samples, totals
from spectune.engines.common.pages import json_of, listed_model, whole, words

_NO_STATES: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What /server_info tells.

    Attributes:
        args: fields of the settings as the server resolved them. Where the main process has left one open, the
            scheduler's value stands in.
        states: one for each copy of the model (data parallel rank).
        version: SGLang's.
        kv_tokens: of one copy.
    """

    args: Mapping[str, object] = field(default_factory=dict)
    states: Sequence[Mapping[str, object]] = _NO_STATES
    version: str | None = None
    kv_tokens: int | None = None

    def each(self, *path: str) -> list[int]:
        """A whole number from every state; empty unless all tell it."""
        found = [whole(_at(state, path)) for state in self.states]
        told = [value for value in found if value is not None]
        return told if len(told) == len(found) else []


def read_server_info(*pages: Page | None) -> ServerInfo:
    """The first of some pages that is one."""
    for page in pages:
        body = json_of(page)
        if isinstance(body, dict) and ("internal_states" in body or "model_path" in body or "server_args" in body):
            return _server_info(body)
    return ServerInfo()


def _server_info(body: Mapping[str, object]) -> ServerInfo:
    listed = body.get("internal_states")
    states = tuple(state for state in listed if isinstance(state, dict)) if isinstance(listed, list) else ()
    nested = body.get("server_args")
    args = {**nested, **body} if isinstance(nested, dict) else dict(body)
    for key, value in (states[0] if states else {}).items():
        if key in args and args[key] is None:
            args[key] = value
    return ServerInfo(args, states, words(body.get("version")), whole(body.get("max_total_num_tokens")))


@dataclass(frozen=True, slots=True)
class Loads:
    """What /v1/loads tells, summed over the copies of the model."""

    kv_tokens: int | None = None
    max_running: int | None = None
    version: str | None = None


def read_loads(page: Page | None) -> Loads:
    body = json_of(page)
    rows = body.get("loads") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(rows, list) or not rows:
        return Loads()
    return Loads(_sum(rows, "max_total_num_tokens"), _sum(rows, "max_running_requests"), words(body.get("version")))


def _sum(rows: Sequence[object], key: str) -> int | None:
    values = [whole(row.get(key)) if isinstance(row, dict) else None for row in rows]
    told = [value for value in values if value is not None]
    return sum(told) if len(told) == len(values) else None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What /v1/models and /model_info tell."""

    model: str | None = None
    model_id: str | None = None
    context: int | None = None
    weight_version: str | None = None


def read_model(models: Page | None, *infos: Page | None) -> ModelFacts:
    first = listed_model(models)
    info: Mapping[str, object] = {}
    for page in infos:
        found = json_of(page)
        if isinstance(found, dict) and "model_path" in found:
            info = found
            break
    return ModelFacts(
        words(info.get("model_path")) or words(first.get("root")),
        words(first.get("id")),
        whole(first.get("max_model_len")),
        words(info.get("weight_version")),
    )


_TOTALS = {
    "sglang:generation_tokens_total": "output",
    "sglang:prompt_tokens_total": "prompt",
    "sglang:cached_tokens_total": "cached",
    "sglang:spec_verify_calls_total": "verifies",
    "sglang:num_requests_total": "requests",
}
_DRAFT_TOKENS = "sglang:spec_num_draft_tokens"


def read_counters(page: Page | None, adaptive: bool) -> Counters | None:
    """The counters of /metrics; None when the page is missing, is not a metrics page or has none of SGLang's.

    SGLang counts when a request ends: prompt tokens (cached ones included), output tokens, verify steps, requests. It
    has no counter of drafted or accepted tokens, and its gauges of acceptance are averages since the start. So:

    - accepted = output tokens - requests - verify steps: each request's first token comes from its prompt, and each
      verify step emits one token beside those it accepts. Tokens accepted beyond a request's end are not counted.
    - drafted = verify steps * (draft tokens - 1), which is how SGLang itself counts; None when the depth changes while
      serving, since the draft tokens of past steps are not known then.

    Args:
        adaptive: whether the depth changes while serving.
    """
    found = samples(page)
    told = totals(found, _TOTALS)
    if not told:
        return None
    draft_tokens = max((int(sample.value) for sample in found if sample.name == _DRAFT_TOKENS), default=0)
    drafts = told.get("verifies", 0)  # not there before the first request that speculates
    prompt, cached = told.get("prompt"), told.get("cached", 0)
    return Counters(
        output_tokens=told.get("output"),
        prompt_tokens=None if prompt is None else max(0, prompt - cached),
        cached_tokens=cached,
        drafts=drafts,
        drafted=_drafted(drafts, draft_tokens, adaptive),
        accepted=_accepted(told, drafts),
    )


def _drafted(drafts: int, draft_tokens: int, adaptive: bool) -> int | None:
    if not drafts:
        return 0
    return None if adaptive or draft_tokens < 2 else drafts * (draft_tokens - 1)


def _accepted(told: Mapping[str, int], drafts: int) -> int | None:
    if not drafts:
        return 0
    if "output" not in told or "requests" not in told:
        return None
    return max(0, told["output"] - told["requests"] - drafts)


def _at(value: object, path: tuple[str, ...]) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
