"""What vLLM's /metrics page says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from spectune.domain.deployment import Counters, Page

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
    if page is None or page.status != 200:
        return None
    sums: dict[str, float] = {}
    positions: dict[int, float] = {}
    caches: list[Mapping[str, str]] = []
    try:
        for family in text_string_to_metric_families(page.body):
            for sample in family.samples:
                if not math.isfinite(sample.value):
                    continue
                if sample.name in _TOTALS:
                    # One label set for each copy of the model.
                    key = _TOTALS[sample.name]
                    sums[key] = sums.get(key, 0.0) + sample.value
                elif sample.name == _PER_POSITION:
                    position = int(sample.labels["position"])
                    positions[position] = positions.get(position, 0.0) + sample.value
                elif sample.name == _CACHE:
                    caches.append(dict(sample.labels))
    except Exception:  # The parser has no error type of its own and fails in many ways on other text.
        return None
    if not sums:
        return None
    complete = sorted(positions) == list(range(len(positions)))
    return Metrics(
        {key: int(value) for key, value in sums.items()},
        tuple(int(positions[i]) for i in sorted(positions)) if complete else (),
        tuple(caches),
    )
