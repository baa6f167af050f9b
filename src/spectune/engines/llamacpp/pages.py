"""What llama-server's pages say. Every reader takes a page that may be missing, broken or of another program."""

from __future__ import annotations

from dataclasses import dataclass

from spectune.domain.deployment import Counters, Page
from spectune.engines.common.metrics import by_position, samples, totals
from spectune.engines.common.pages import json_of, listed_model, whole, words

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
    slots = json_of(page)
    if not isinstance(slots, list) or not slots or not all(isinstance(slot, dict) for slot in slots):
        return None
    flags = [slot.get("speculative") for slot in slots]
    contexts = {whole(slot.get("n_ctx")) for slot in slots}
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
    props = json_of(page)
    if not isinstance(props, dict):
        return PropsFacts()
    defaults = props.get("default_generation_settings")
    build = words(props.get("build_info"))
    return PropsFacts(
        model=words(props.get("model_path")),
        slots=whole(props.get("total_slots")),
        slot_context=whole(defaults.get("n_ctx")) if isinstance(defaults, dict) else None,
        version=f"{build} (built from a source package, which does not tell its release)"
        if build == _UNBUILT
        else build,
    )


def read_model_id(page: Page | None) -> str | None:
    return words(listed_model(page).get("id"))


def read_counters(page: Page | None) -> Counters | None:
    """The counters of /metrics; None when the page is missing, is not a metrics page or has none of llama-server's."""
    found = samples(page)
    told = totals(found, _COUNTERS)
    if not told:
        return None
    return Counters(
        output_tokens=told.get("output_tokens"),
        prompt_tokens=told.get("prompt_tokens"),
        cached_tokens=told.get("cached_tokens"),
        drafts=told.get("drafts"),
        drafted=told.get("drafted"),
        accepted=told.get("accepted"),
        accepted_per_position=by_position(found, _PER_POSITION),
    )
