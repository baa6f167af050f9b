"""The truth behind a simulated engine: how long a step takes, how many tokens it yields, how much fits. No I/O.

Tokens of one verify step. With conditional acceptance probabilities p_1..p_k (p_i: draft i is accepted, given that the
drafts before it were), the expected number is 1 + sum_i prod_{j<=i} p_j: the accepted run of drafts, and the token that
the target model adds itself (Leviathan, Kalman, Matias 2023, "Fast Inference from Transformers via Speculative
Decoding"; with one p for all positions this is their (1 - p^(k+1)) / (1 - p)).

Time of one step, in seconds, for n requests that each verify v tokens (v = k + 1 in a chain):

    max(memory floor + experts, compute x n x v) + context x (tokens in context) + drafting + overhead

where experts = expert floor x (1 - (1 - share)^(n x v)) is the part of a mixture-of-experts model's weights that so
many tokens touch, and drafting = k x (draft step + draft per request x n x branches). Memory- against compute-bound is
the roofline of Williams, Waterman, Patterson 2009. Batches above the captured CUDA graphs cost `eager_factor` times as
much.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from spectune.domain.errors import InputError

DOMAINS = ("chat", "code", "extraction", "looping")
"""Kinds of text that a profile tells acceptance for. "looping" is text at temperature 0 that was not allowed to end."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much fits beside the draft's state: pool / (base + draft tokens), the way a hybrid state cache is divided.

    Attributes:
        pool: in units of one draft token's state.
        base: draft tokens' worth of state that a request takes without drafts. Large: depth hardly matters.
        cliff_above: from more draft tokens than this on, only `cliff_share` of it is left; None for no cliff.
    """

    pool: float
    base: float
    cliff_above: int | None = None
    cliff_share: float = 1.0

    def at(self, draft_tokens: int, scale: float = 1.0) -> int:
        """Whole units at so many draft tokens (depth + 1; 0 without speculation), with `scale` of the usual memory."""
        share = self.cliff_share if self.cliff_above is not None and draft_tokens > self.cliff_above else 1.0
        return max(0, math.floor(self.pool / (self.base + draft_tokens) * share * scale + 1e-6))


@dataclass(frozen=True, slots=True)
class Profile:
    """One model on one machine. Times in seconds, memory in GB (2^30 bytes) of one GPU, lengths in tokens.

    Attributes:
        about: what this is and where its numbers come from.
        invented: which of its numbers nobody measured.
        published_depths: depths at which published figures are reproduced; empty where everything is invented.
        hybrid: has recurrent (mamba) state beside the KV cache.
        memory_floor_s, expert_floor_s, expert_share, compute_token_s, context_token_s, draft_step_s, draft_request_s,
        overhead_s, eager_factor: terms of the step time, see the module.
        depth_extra_s: what published figures show at a depth beyond these terms.
        acceptance: conditional acceptance by position, for each of DOMAINS.
        acceptance_decay: factor from one position to the next beyond those listed.
        temperature_slope: acceptance falls as exp(-slope x temperature).
        topk_miss: with a draft tree of topk branches, a miss of the chain stays a miss with this probability a branch.
        ngram_share: acceptance of drafts copied from the text, as a share of the draft model's.
        kv_tokens, requests: what fits, by draft tokens.
    """

    name: str
    about: str
    invented: str
    published_depths: tuple[int, ...]
    architecture: str
    draft_architecture: str
    hybrid: bool
    load_seconds: float
    gpu_gb: float
    weights_gb: float
    draft_gb: float
    mem_fraction: float
    kv_bytes_per_token: int
    context_length: int
    memory_floor_s: float
    compute_token_s: float
    context_token_s: float
    draft_step_s: float
    draft_request_s: float
    overhead_s: float
    prefill_token_s: float
    prefill_overhead_s: float
    acceptance: Mapping[str, Sequence[float]]
    kv_tokens: Capacity
    requests: Capacity
    expert_floor_s: float = 0.0
    expert_share: float = 0.0
    depth_extra_s: Mapping[int, float] = field(default_factory=dict)
    eager_factor: float = 1.6
    acceptance_decay: float = 0.9
    temperature_slope: float = 0.15
    topk_miss: float = 0.85
    ngram_share: float = 0.55

    def __post_init__(self) -> None:
        for domain in DOMAINS:
            values = self.acceptance.get(domain)
            if not values or not all(0.0 <= value <= 1.0 for value in values):
                raise InputError(
                    f"profile {self.name!r}: acceptance.{domain} must list probabilities between 0 and 1",
                    f"Give one list for each of {', '.join(DOMAINS)}",
                )
        for name in ("memory_floor_s", "overhead_s", "load_seconds", "compute_token_s", "prefill_token_s"):
            if getattr(self, name) < 0:
                raise InputError(f"profile {self.name!r}: {name} is negative", "Give seconds, 0 or more")
        if self.memory_floor_s + self.overhead_s <= 0:
            raise InputError(f"profile {self.name!r}: a step takes no time", "Give memory_floor_s or overhead_s")

    def to_json(self) -> dict[str, Any]:
        """Values that json can write and `from_json` reads back to an equal profile."""
        plain = asdict(self)
        plain["published_depths"] = list(self.published_depths)
        plain["acceptance"] = {domain: list(values) for domain, values in self.acceptance.items()}
        plain["depth_extra_s"] = {str(depth): value for depth, value in self.depth_extra_s.items()}
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Profile:
        """A profile from what a JSON file holds.

        Raises:
            InputError: keys are missing, unknown, or of the wrong type.
        """
        known = {item.name for item in fields(cls)}
        if unknown := sorted(plain.keys() - known):
            raise InputError(f"profile: unknown key {unknown[0]!r}", f"Known are {', '.join(sorted(known))}")
        try:
            return cls(
                **{
                    **plain,
                    "published_depths": tuple(int(depth) for depth in plain["published_depths"]),
                    "acceptance": {str(key): tuple(map(float, row)) for key, row in plain["acceptance"].items()},
                    "depth_extra_s": {int(k): float(v) for k, v in plain.get("depth_extra_s", {}).items()},
                    "kv_tokens": Capacity(**plain["kv_tokens"]),
                    "requests": Capacity(**plain["requests"]),
                }
            )
        except KeyError as error:
            raise InputError(f"profile: {error.args[0]!r} is missing", "Add it; see the packaged profiles") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"profile: {error}", "Compare it with the packaged profiles") from error


@dataclass(frozen=True, slots=True)
class Steady:
    """A level in steady state, prefill left out.

    Attributes:
        per_user: tokens per second of a running request while it decodes.
        aggregate: tokens per second of all of them.
        running: requests that decode at a time; the others of the level wait.
    """

    per_user: float
    aggregate: float
    running: int


@dataclass(frozen=True, slots=True)
class Draft:
    """How a deployment drafts: depth k (0: not at all), branches, tokens verified a request, and with what."""

    depth: int
    topk: int = 1
    tokens: int | None = None
    ngram: bool = False

    @property
    def verified(self) -> int:
        """Tokens that the target model checks for one request in one step, at least one."""
        return 1 if self.depth <= 0 else self.tokens or self.depth + 1

    @property
    def state_tokens(self) -> int:
        """Draft tokens that memory is set aside for."""
        return 0 if self.depth <= 0 else self.verified


class Speeds:
    """What a profile means for a batch. Depths are given as a number (a chain by the draft model) or as a Draft."""

    __slots__ = ("profile",)

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def step_seconds(self, batch: int, depth: int | Draft, context_tokens: int = 0, graph: bool = True) -> float:
        """Seconds of one decode step of `batch` requests that hold `context_tokens` together."""
        draft, p = _draft(depth), self.profile
        verified = batch * draft.verified
        experts = p.expert_floor_s * (1.0 - (1.0 - p.expert_share) ** verified)
        forward = max(p.memory_floor_s + experts, p.compute_token_s * verified)
        drafting = 0.0 if draft.ngram else draft.depth * (p.draft_step_s + p.draft_request_s * batch * draft.topk)
        time = forward + p.context_token_s * context_tokens + drafting + p.overhead_s
        time += p.depth_extra_s.get(draft.depth, 0.0)
        return time if graph else time * p.eager_factor

    def prefill_seconds(self, tokens: int) -> float:
        """Seconds of one prefill pass over so many uncached tokens."""
        return self.profile.prefill_overhead_s + self.profile.prefill_token_s * tokens

    def acceptance(
        self, depth: int | Draft, domain: str = "chat", temperature: float = 0.0, looping: bool = False
    ) -> tuple[float, ...]:
        """Conditional acceptance at positions 1..k.

        Raises:
            InputError: the profile knows no such domain.
        """
        draft, p = _draft(depth), self.profile
        key = "looping" if looping else domain
        if key not in p.acceptance:
            raise InputError(f"unknown domain {key!r}", f"Known are {', '.join(DOMAINS)}")
        listed = p.acceptance[key]
        factor = 1.0 if looping else math.exp(-p.temperature_slope * max(0.0, temperature))
        factor *= p.ngram_share if draft.ngram else 1.0
        found = []
        for position in range(draft.depth):
            beyond = max(0, position - len(listed) + 1)
            chance = listed[min(position, len(listed) - 1)] * p.acceptance_decay**beyond * factor
            miss = (1.0 - chance) * p.topk_miss ** (draft.topk - 1)
            found.append(1.0 - miss if draft.topk > 1 and chance > 0.0 else chance)
        return tuple(found)

    def tokens_per_step(
        self, depth: int | Draft, domain: str = "chat", temperature: float = 0.0, looping: bool = False
    ) -> float:
        """Expected tokens of one verify step, the target model's own included; between 1 and depth + 1."""
        total = run = 1.0
        for chance in self.acceptance(depth, domain, temperature, looping):
            run *= chance
            total += run
        return total

    def sample_accepted(self, rng: random.Random, chances: Sequence[float]) -> int:
        """Drafts accepted in one step: each in turn, until one is refused."""
        for accepted, chance in enumerate(chances):
            if rng.random() >= chance:
                return accepted
        return len(chances)

    def steady(
        self,
        level: int,
        depth: int | Draft,
        domain: str = "chat",
        temperature: float = 0.0,
        looping: bool = False,
        limit: int | None = None,
        context_tokens: int = 0,
    ) -> Steady:
        """What `level` users see who always have one request under way.

        Args:
            limit: most requests that run at a time beside what fits (--max-running-requests); None for none.
            context_tokens: of one request, on average.
        """
        draft = _draft(depth)
        fits = self.profile.requests.at(draft.state_tokens)
        running = max(1, min(level, fits, level if limit is None else limit))
        step = self.step_seconds(running, draft, context_tokens * running)
        per_user = self.tokens_per_step(draft, domain, temperature, looping) / step
        return Steady(per_user, per_user * running, running)


def _draft(depth: int | Draft) -> Draft:
    return depth if isinstance(depth, Draft) else Draft(depth)
