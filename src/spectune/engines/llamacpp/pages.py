"""What llama-server's pages say. Every reader takes a page that may be missing, broken or of another program."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from spectune.domain.deployment import Counters, Page

_UNBUILT = "b0-unknown"
_COUNTERS = {
    "llamacpp:tokens_predicted_total": "output_tokens",
    "llamacpp:prompt_tokens_total": "prompt_tokens",
    "llamacpp:prompt_tokens_cached_total": "cached_tokens",
    "llamacpp:spec_decode_num_drafts_total": "drafts",
    "llamacpp:spec_decode_num_draft_tokens_total": "drafted",
    "llamacpp:spec_decode_num_accepted_tokens_total": "accepted",
}
_PER_POSITION = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """What /slots tells.

    Attributes:
        speculating: True when every slot has speculation, False when none has, None when they differ.
        types: methods of finished requests, in llama-server's words; empty before the first request.
    """

    count: int
    context: int | None
    speculating: bool | None
    types: tuple[str, ...]


def read_slots(page: Page | None) -> SlotFacts | None:
    slots = _json(page)
    if not isinstance(slots, list) or not slots or not all(isinstance(slot, dict) for slot in slots):
        return None
    flags = [slot.get("speculative") for slot in slots]
    contexts = {_whole(slot.get("n_ctx")) for slot in slots}
    types: dict[str, None] = {}
    for slot in slots:
        params = slot.get("params")
        told = params.get("speculative.types") if isinstance(params, dict) else None
        if isinstance(told, str):
            types |= dict.fromkeys(name.strip() for name in told.split(","))
    # Every list begins with the word none, whatever is live.
    types.pop("none", None)
    return SlotFacts(
        count=len(slots),
        context=contexts.pop() if len(contexts) == 1 else None,
        speculating=flags[0] if isinstance(flags[0], bool) and all(flag is flags[0] for flag in flags) else None,
        types=tuple(types),
    )


@dataclass(frozen=True, slots=True)
class PropsFacts:
    """What /props tells. It tells nothing of speculation: the types it shows are a default that is never changed."""

    model: str | None = None
    slots: int | None = None
    slot_context: int | None = None
    version: str | None = None


def read_props(page: Page | None) -> PropsFacts:
    props = _json(page)
    if not isinstance(props, dict):
        return PropsFacts()
    defaults = props.get("default_generation_settings")
    build = _words(props.get("build_info"))
    return PropsFacts(
        model=_words(props.get("model_path")),
        slots=_whole(props.get("total_slots")),
        slot_context=_whole(defaults.get("n_ctx")) if isinstance(defaults, dict) else None,
        version=f"{build} (built from a source package, which does not tell its release)"
        if build == _UNBUILT
        else build,
    )


def read_model_id(page: Page | None) -> str | None:
    body = _json(page)
    models = body.get("data") if isinstance(body, dict) else None
    first = models[0] if isinstance(models, list) and models else None
    return _words(first.get("id")) if isinstance(first, dict) else None


def read_counters(page: Page | None) -> Counters | None:
    """The counters of /metrics; None when the page is missing, is not a metrics page or has none of llama-server's."""
    if page is None or page.status != 200:
        return None
    found: dict[str, int] = {}
    positions: dict[int, int] = {}
    try:
        for family in text_string_to_metric_families(page.body):
            for sample in family.samples:
                if not math.isfinite(sample.value):
                    continue
                if sample.name in _COUNTERS:
                    found[_COUNTERS[sample.name]] = int(sample.value)
                elif sample.name == _PER_POSITION:
                    positions[int(sample.labels["position"])] = int(sample.value)
    except Exception:  # The parser has no error type of its own and fails in many ways on other text.
        return None
    if not found:
        return None
    complete = sorted(positions) == list(range(len(positions)))
    return Counters(
        output_tokens=found.get("output_tokens"),
        prompt_tokens=found.get("prompt_tokens"),
        cached_tokens=found.get("cached_tokens"),
        drafts=found.get("drafts"),
        drafted=found.get("drafted"),
        accepted=found.get("accepted"),
        accepted_per_position=tuple(positions[i] for i in sorted(positions)) if complete else (),
    )


def _json(page: Page | None) -> object:
    if page is None or page.status != 200:
        return None
    try:
        value: object = json.loads(page.body)
    except (ValueError, RecursionError):
        return None
    return value


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _words(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
