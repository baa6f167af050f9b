"""What vLLM's /metrics page says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spectune.domain.deployment import Counters, Page
from spectune.engines.common.metrics import by_position, samples, totals

_TOTALS = {
    "vllm:generation_tokens_total": "output",
    "vllm:prompt_tokens_total": "prompt",
    "vllm:prompt_tokens_cached_total": "cached",
    "vllm:prefix_cache_hits_total": "hits",
    "vllm:spec_decode_num_drafts_total": "drafts",
    "vllm:spec_decode_num_draft_tokens_total": "drafted",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted",
    "vllm:inter_token_latency_seconds_count": "steps",
    "vllm:time_to_first_token_seconds_count": "firsts",
}
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_CACHE = "vllm:cache_config_info"


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of one page, summed over the copies of the model.

    Attributes:
        totals: cumulative, by the short names above; absent where the page does not have them.
        per_position: accepted at draft position 1, 2, ...
        caches: settings of the KV cache, one for each copy of the model, as text.
    """

    totals: Mapping[str, int] = field(default_factory=dict)
    per_position: tuple[int, ...] = ()
    caches: tuple[Mapping[str, str], ...] = ()

    @property
    def steps(self) -> int | None:
        """Outputs after a request's first: vLLM observes the time between two of them once for each (request, step),
        with a draft or without."""
        return self.totals.get("steps")

    @property
    def counters(self) -> Counters:
        """In the domain's words. vLLM has counters of speculation exactly when it speculates, so they are 0 without.

        `drafts` counts steps that had a draft. N-gram and suffix find none in many steps, so that 1 + accepted / drafts
        tells more tokens per step than there are; `acceptance.window` counts all steps.
        """
        told = self.totals
        prompt, cached = told.get("prompt"), told.get("cached", told.get("hits"))
        return Counters(
            output_tokens=told.get("output"),
            prompt_tokens=None if prompt is None else max(0, prompt - (cached or 0)),
            cached_tokens=cached,
            drafts=told.get("drafts", 0),
            drafted=told.get("drafted", 0),
            accepted=told.get("accepted", 0),
            accepted_per_position=self.per_position,
        )


def read_metrics(page: Page | None) -> Metrics | None:
    """None when the page is missing, is not a metrics page or has none of vLLM's figures."""
    found = samples(page)
    told = totals(found, _TOTALS)
    if not told:
        return None
    caches = tuple(dict(sample.labels) for sample in found if sample.name == _CACHE)
    return Metrics(told, by_position(found, _PER_POSITION), caches)
