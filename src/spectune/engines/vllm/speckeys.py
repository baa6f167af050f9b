"""The keys of --speculative-config: what they take, and with which methods they count.

A key has its own name as a setting ("prompt_lookup_max"). Those that the server has as a flag too (quantization,
max_model_len, ...) have vLLM's dotted form ("speculative-config.quantization"), so that no name means two things.
Defaults and bounds: vLLM's config/speculative.py, versions 0.26 to 0.33.
"""

from __future__ import annotations

from dataclasses import dataclass

from spectune.domain.candidate import Method
from spectune.domain.knobs import KnobKind, KnobValue
from spectune.engines.vllm.flags import Release

SPECULATIVE = "speculative-config"
GRAPH_MODE = "compilation-config.cudagraph_mode"
SCHEDULE = "num_speculative_tokens_per_batch_size"
REMEMBERED = "suffix_decoding_max_cached_requests"
LOOKUP_MAX, LOOKUP_MIN = "prompt_lookup_max", "prompt_lookup_min"
REJECTION, RATES, LENGTH = "rejection_sample_method", "synthetic_acceptance_rates", "synthetic_acceptance_length"
DRAFT_TP, DRAFT_LOAD = "draft_tensor_parallel_size", "draft_load_config"
METHOD = "method"

_N, _S, _D, _E, _E3, _M, _F = (
    Method.NGRAM,
    Method.SUFFIX,
    Method.DRAFT,
    Method.EAGLE,
    Method.EAGLE3,
    Method.MTP,
    Method.DFLASH,
)
_ALL = frozenset({_N, _S, _D, _E, _E3, _M, _F})
_MODELS = frozenset({_D, _E, _E3, _M, _F})
_HEADS = frozenset({_E, _E3, _M})


@dataclass(frozen=True, slots=True)
class Key:
    """One key of --speculative-config.

    Attributes:
        key: as vLLM spells it.
        kind: what it takes; JSON lists and objects are TEXT with `json`.
        methods: with which it has an effect.
        about: one line for people.
        default, low, high, choices: as in Knob.
        json: whether the value is a JSON list or object.
        dotted: whether its name as a setting is the dotted form.
        since: first release with it.
    """

    key: str
    kind: KnobKind
    methods: frozenset[Method]
    about: str
    default: KnobValue | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    json: bool = False
    dotted: bool = False
    since: Release = (0, 0)

    @property
    def name(self) -> str:
        return f"{SPECULATIVE}.{self.key}" if self.dotted else self.key


_INT, _NUM, _TEXT = KnobKind.INTEGER, KnobKind.NUMBER, KnobKind.TEXT
_SWITCH, _CHOICE = KnobKind.SWITCH, KnobKind.CHOICE

KEYS: tuple[Key, ...] = (
    Key(
        METHOD,
        _CHOICE,
        frozenset({_N}),
        "which n-gram search: on the CPU (ngram) or on the GPU (ngram_gpu)",
        choices=("ngram", "ngram_gpu"),
        dotted=True,
    ),
    Key(LOOKUP_MAX, _INT, frozenset({_N}), "longest n-gram looked up in the text so far", low=1),
    Key(LOOKUP_MIN, _INT, frozenset({_N}), "shortest n-gram looked up", low=1),
    Key(
        SCHEDULE,
        _TEXT,
        _ALL,
        "depth by requests in the step: [[first, last, depth], ...]; 0 drafts nothing",
        json=True,
    ),
    Key(
        REJECTION,
        _CHOICE,
        _ALL,
        "how drafts are accepted; fly is lossy, synthetic invents acceptance and with it the text",
        "standard",
        choices=("standard", "block", "synthetic", "fly"),
    ),
    Key(RATES, _TEXT, _ALL, "invented acceptance at each position, for synthetic", json=True),
    Key(LENGTH, _NUM, _ALL, "invented tokens per verify step, for synthetic", low=1),
    Key("fly_window_size", _INT, _ALL, "positions that fly looks at", low=1, since=(0, 33)),
    Key("fly_entropy_threshold", _NUM, _ALL, "entropy above which fly accepts more", low=0, since=(0, 33)),
    Key("fly_entropy_top_k", _INT, _ALL, "most likely tokens that fly counts", low=1, since=(0, 33)),
    Key(
        "draft_sample_method",
        _CHOICE,
        _MODELS,
        "how the draft chooses tokens; probabilistic takes GPU memory",
        "greedy",
        choices=("greedy", "probabilistic"),
    ),
    Key(DRAFT_TP, _INT, _MODELS, "GPUs that share the draft: 1, or as many as the target", low=1),
    Key(DRAFT_LOAD, _TEXT, _MODELS, "how the draft's weights are loaded; dummy gives random weights", json=True),
    Key("quantization", _TEXT, _MODELS, "number format of the draft's weights", dotted=True),
    Key("kv_cache_dtype", _TEXT, _MODELS, "number format of the draft's KV cache", dotted=True),
    Key("max_model_len", _INT, _MODELS, "tokens beyond which a request is not drafted for", low=1, dotted=True),
    Key("enforce_eager", _SWITCH, _MODELS, "run the draft without graphs", dotted=True),
    Key("attention_backend", _TEXT, _MODELS, "attention kernels of the draft", dotted=True),
    Key("moe_backend", _TEXT, _MODELS, "kernels of the draft's experts", dotted=True),
    Key("revision", _TEXT, _MODELS, "revision of the draft model", dotted=True),
    Key("code_revision", _TEXT, _MODELS, "revision of the draft model's code", dotted=True),
    Key("draft_lm_head_quantization", _TEXT, _MODELS, "number format of the draft's output layer", since=(0, 33)),
    Key("disable_padded_drafter_batch", _SWITCH, _HEADS, "draft without padding; ends async scheduling", False),
    Key("disable_eagle_block_drop", _SWITCH, _HEADS, "keep the last block of a cached prefix", False),
    Key("disable_lookahead_block_hashes", _SWITCH, _HEADS, "hash no blocks ahead", False, since=(0, 33)),
    Key("use_local_argmax_reduction", _SWITCH, _MODELS, "exchange the best token instead of all logits", False),
    Key("parallel_drafting", _SWITCH, frozenset({_D, _E, _E3}), "draft all positions in one pass", False),
    Key("use_heterogeneous_vocab", _SWITCH, frozenset({_D}), "draft model with another vocabulary", False),
    Key("index_share_for_mtp_iteration", _SWITCH, frozenset({_M}), "MTP passes share the attention index"),
    Key("suffix_decoding_max_tree_depth", _INT, frozenset({_S}), "longest remembered continuation", 24, low=1),
    Key(
        REMEMBERED,
        _INT,
        frozenset({_S}),
        "answers remembered over requests; 0 none, which repeated prompts need to be measured fairly",
        10000,
        low=0,
    ),
    Key("suffix_decoding_max_spec_factor", _NUM, frozenset({_S}), "drafted tokens per matched token", 1.0, low=0),
    Key("suffix_decoding_min_token_prob", _NUM, frozenset({_S}), "least estimated chance of a token", 0.1, 0, 1),
)
BY_KEY = {key.key: key for key in KEYS}
_BY_NAME = {key.name: key for key in KEYS}
SHAPE = frozenset({METHOD, "model", "num_speculative_tokens"})
"""Keys that method, draft model and depth set."""


def by_name(spelling: str) -> Key | None:
    """The key that a setting's name means; dashes for underscores and the dotted form of any key are understood."""
    if spelling in _BY_NAME:
        return _BY_NAME[spelling]
    head, dot, rest = spelling.partition(".")
    if dot and head.replace("_", "-") == SPECULATIVE:
        return BY_KEY.get(rest.replace("-", "_"))
    key = BY_KEY.get(spelling.replace("-", "_"))
    return None if key is None or key.dotted else key
