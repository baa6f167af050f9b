"""SGLang's speculation algorithms in the words of the domain, and back.

Depth k and SGLang's three numbers:

- chains (NEXTN, EAGLE, EAGLE3, STANDALONE with topk 1): steps = k, draft tokens = k + 1. SGLang verifies the k drafted
  tokens together with the last sure one, which is why draft tokens are one more.
- trees (the same with topk > 1): steps = k is the depth of the tree; draft tokens are how many of its nodes, the sure
  token included, are verified. It is a setting of its own, k * topk + 1 when a candidate is silent.
- NEXTN and EAGLE are one algorithm for SGLang, which reads both back as EAGLE. Here it is the method mtp where the
  model drafts with its own MTP layers, and eagle where a draft model stands beside it, of whatever kind.
- NGRAM: draft tokens = k + 1. The k drafted tokens are nodes of a tree of remembered continuations with at most
  speculative-ngram-max-bfs-breadth branches, so k bounds them all, not the length of one branch.
- DFLASH: draft tokens (the block size) = k + 1; steps and topk are 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spectune.domain.candidate import Method, Speculation
from spectune.domain.knobs import KnobValue, Settings
from spectune.engines.common.checks import check_none, refuse

ALGORITHM, DRAFT_PATH = "speculative-algorithm", "speculative-draft-model-path"
STEPS, TOPK, TOKENS = "speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens"
BLOCK = "speculative-dflash-block-size"
ADAPTIVE, ADAPTIVE_FILE = "speculative-adaptive", "speculative-adaptive-config"
BREADTH, BREADTH_DEFAULT = "speculative-ngram-max-bfs-breadth", 10

_VERIFY = frozenset(
    {"speculative-accept-threshold-single", "speculative-accept-threshold-acc", "speculative-attention-mode"}
)
_DRAFT = frozenset(
    {
        "speculative-draft-model-revision",
        "speculative-draft-load-format",
        "speculative-draft-model-quantization",
        "speculative-draft-attention-backend",
        "speculative-draft-kv-cache-dtype",
        "speculative-draft-window-size",
        "speculative-draft-sink-size",
        "speculative-moe-runner-backend",
        "speculative-moe-a2a-backend",
        "speculative-dsa-topk-backend",
        "speculative-enable-w4a4-mxfp4-megamoe",
    }
)
_EAGLE = (
    _VERIFY
    | _DRAFT
    | {
        "speculative-use-rejection-sampling",
        "speculative-use-block-verification",
        ADAPTIVE,
        ADAPTIVE_FILE,
        "speculative-skip-dp-mlp-sync",
        "enable-multi-layer-eagle",
    }
)
_NGRAM = _VERIFY | {
    STEPS,
    "speculative-ngram-min-bfs-breadth",
    BREADTH,
    "speculative-ngram-match-type",
    "speculative-ngram-max-trie-depth",
    "speculative-ngram-capacity",
    "speculative-ngram-external-corpus-path",
    "speculative-ngram-external-sam-budget",
    "speculative-ngram-external-corpus-max-tokens",
}
_DFLASH = _VERIFY | _DRAFT | {"speculative-use-block-verification", "speculative-domino-candidate-pool-size"}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One of SGLang's algorithms.

    Attributes:
        name: SGLang's own.
        method: the domain's word for it.
        settings: flags that have an effect with it, beside the numbers and the draft model.
        draft: whether it takes a draft model; None where it may.
        steps: whether depth is given as steps, topk and draft tokens (else as draft tokens alone).
    """

    name: str
    method: Method
    settings: frozenset[str]
    draft: bool | None
    steps: bool = True


ALGORITHMS: Mapping[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("NEXTN", Method.MTP, _EAGLE | {"speculative-token-map"}, None),
        Algorithm("EAGLE", Method.EAGLE, _EAGLE | {"speculative-token-map"}, True),
        Algorithm("EAGLE3", Method.EAGLE3, _EAGLE, True),
        Algorithm("STANDALONE", Method.DRAFT, _VERIFY | _DRAFT, True),
        Algorithm("NGRAM", Method.NGRAM, _NGRAM, False, steps=False),
        Algorithm("DFLASH", Method.DFLASH, _DFLASH, True, steps=False),
    )
}
BY_METHOD: Mapping[Method, Algorithm] = {algorithm.method: algorithm for algorithm in ALGORITHMS.values()}
UNTUNED = frozenset({"FROZEN_KV_MTP", "DSPARK", "UNO"})
"""Algorithms of SGLang that spectune has no word for."""

_SHAPE = frozenset({ALGORITHM, DRAFT_PATH, STEPS, TOPK, TOKENS, BLOCK})


def most_nodes(depth: int, topk: int) -> int:
    """Nodes of a full draft tree: topk at the first position, topk continuations of topk branches at each later."""
    return topk + (depth - 1) * topk * topk


def drafts_itself(draft: object, model: object) -> bool:
    """Whether a draft path means the model's own MTP layers: none, or the model itself."""
    return draft is None or str(draft).rstrip("/") == str(model).rstrip("/")


def spelled(speculation: Speculation, knobs: Settings, model: str) -> dict[str, KnobValue]:
    """A candidate's speculation as SGLang's settings.

    Args:
        model: path of the target model.
        knobs: speculative settings that the candidate gives as knobs.

    Raises:
        InputError: when SGLang has no such method, or it can't work with this depth, topk, draft model or setting.
    """
    own = {**speculation.settings, **knobs}
    where = f"candidate {speculation.label}"
    if speculation.method is Method.NONE:
        check_none(speculation, own, where)
        return {}
    kind = BY_METHOD.get(speculation.method)
    if kind is None:
        words = ", ".join(method.value for method in BY_METHOD)
        refuse(where, f"SGLang has no method '{speculation.method.value}'", f"It has {words} and none.")
    _check_shape(speculation, kind, where)
    _check_draft(speculation, kind, model, where)
    tree = kind.steps and speculation.topk > 1
    check_effective(own, kind, where, tree)
    result: dict[str, KnobValue] = {ALGORITHM: kind.name}
    if speculation.draft_model:
        result[DRAFT_PATH] = speculation.draft_model
    depth, topk = speculation.depth, speculation.topk
    if tree:
        tokens = int(own.pop(TOKENS, min(depth * topk, most_nodes(depth, topk)) + 1))
        _check_tree(tokens, depth, topk, where)
        return {**result, STEPS: depth, TOPK: topk, TOKENS: tokens, **own}
    if kind.steps:
        return {**result, STEPS: depth, TOPK: 1, TOKENS: depth + 1, **own}
    if kind.method is Method.DFLASH:
        return {**result, STEPS: 1, TOPK: 1, TOKENS: depth + 1, **own}
    return {**result, TOKENS: depth + 1, **own}


def recognised(settings: Settings, where: str, model: str) -> Speculation:
    """The speculation that a service's own speculative settings amount to, for a target model's path.

    Raises:
        InputError: settings that contradict each other, that SGLang would silently ignore, or that leave numbers to
            a choice which depends on the model's files.
    """
    name = str(settings.get(ALGORITHM, "NONE")).upper()
    if name == "NONE":
        for ignored in settings.keys() - {ALGORITHM}:
            refuse(where, f"'{ignored}' would be silently ignored without {ALGORITHM}", "Name one, or remove it.")
        return Speculation()
    path = settings.get(DRAFT_PATH)
    kind = _algorithm(name, not drafts_itself(path, model), where)
    if kind.draft and path is None:
        refuse(where, f"{kind.name} needs a draft model", f"Set {DRAFT_PATH}.")
    own = {key: value for key, value in settings.items() if key not in _SHAPE}
    if kind.method is Method.NGRAM:
        depth, topk, extra = _ngram_shape(settings, where)
    elif kind.method is Method.DFLASH:
        depth, topk, extra = _dflash_shape(settings, where)
    else:
        depth, topk, extra = _eagle_shape(settings, kind, where)
    check_effective(own, kind, where)
    return Speculation(kind.method, depth, topk, None if path is None else str(path), {**own, **extra})


def check_effective(settings: Settings, kind: Algorithm, where: str, tree: bool = False) -> None:
    """Refuses settings that the algorithm would silently ignore, and those that depth and method set."""
    for name in settings:
        if name == TOKENS and tree:
            continue
        if name in _SHAPE - kind.settings:
            refuse(where, f"'{name}' is set by the speculation's method, depth, topk and draft model", "Remove it.")
        if name not in kind.settings:
            listed = ", ".join(sorted(kind.settings))
            refuse(where, f"'{name}' has no effect with {kind.name}", f"With {kind.name} these count: {listed}.")


def _algorithm(name: str, drafts: bool, where: str) -> Algorithm:
    """NEXTN and EAGLE are told apart by whether there is a draft model."""
    if name in {"EAGLE", "NEXTN"}:
        name = "EAGLE" if drafts else "NEXTN"
    if name in UNTUNED:
        refuse(where, f"spectune does not tune SGLang's algorithm {name}", f"It tunes {', '.join(ALGORITHMS)}.")
    if name not in ALGORITHMS:
        refuse(where, f"SGLang has no speculative algorithm '{name}'", f"It has {', '.join(ALGORITHMS)}.")
    return ALGORITHMS[name]


_Shape = tuple[int, int, dict[str, KnobValue]]


def _eagle_shape(settings: Settings, kind: Algorithm, where: str) -> _Shape:
    steps, topk, tokens = settings.get(STEPS), settings.get(TOPK), settings.get(TOKENS)
    if BLOCK in settings:
        refuse(where, f"'{BLOCK}' has no effect with {kind.name}", "Remove it.")
    if settings.get(ADAPTIVE):
        return _adaptive_shape(settings, where)
    if steps is None:
        if topk is not None or tokens is not None:
            given = TOPK if topk is not None else TOKENS
            refuse(where, f"'{given}' without '{STEPS}' ends SGLang at start", f"Give {STEPS}, {TOPK} and {TOKENS}.")
        if kind.method in {Method.EAGLE, Method.EAGLE3}:
            refuse(
                where,
                "without numbers SGLang chooses them by the model: 5 steps, topk 4, 8 draft tokens for Llama and Grok, "
                "3, 1, 4 for others",
                f"Write out {STEPS}, {TOPK} and {TOKENS}.",
            )
        return 3, 1, {}
    if topk is None:
        refuse(where, f"'{STEPS}' without '{TOPK}' ends SGLang at start (a TypeError)", f"Add {TOPK}: 1.")
    if int(topk) == 1:
        return int(steps), 1, {}
    if tokens is None:
        refuse(where, f"topk {topk} needs '{TOKENS}'", f"Say how many tokens of the tree are verified: {TOKENS}.")
    return int(steps), int(topk), {TOKENS: int(tokens)}


def _adaptive_shape(settings: Settings, where: str) -> _Shape:
    steps = settings.get(STEPS)
    if steps is None and settings.get(ADAPTIVE_FILE) is not None:
        refuse(where, f"with '{ADAPTIVE_FILE}' the first depth is known to SGLang alone", f"Add {STEPS}.")
    return int(3 if steps is None else steps), int(settings.get(TOPK, 1)), {}


def _ngram_shape(settings: Settings, where: str) -> _Shape:
    if TOPK in settings:
        refuse(where, f"'{TOPK}' is overwritten under NGRAM", f"Set {BREADTH} instead.")
    if BLOCK in settings:
        refuse(where, f"'{BLOCK}' has no effect with NGRAM", "Remove it.")
    kept: dict[str, KnobValue] = {STEPS: settings[STEPS]} if STEPS in settings else {}
    return int(settings.get(TOKENS, 12)) - 1, 1, kept


def _dflash_shape(settings: Settings, where: str) -> _Shape:
    given = {int(settings[name]) for name in (TOKENS, BLOCK) if name in settings}
    if len(given) > 1:
        refuse(where, f"'{TOKENS}' and '{BLOCK}' are the same for DFLASH, and differ", "Keep one of them.")
    if not given:
        refuse(where, "without a block size DFLASH takes the draft model's own", f"Write it out as {TOKENS}.")
    return given.pop() - 1, 1, {}


def _check_shape(speculation: Speculation, kind: Algorithm, where: str) -> None:
    method = speculation.method.value
    if speculation.depth < 1:
        refuse(where, f"depth k of {method} must be at least 1, got {speculation.depth}")
    if speculation.topk < 1:
        refuse(where, f"topk must be at least 1, got {speculation.topk}")
    if not kind.steps and speculation.topk != 1:
        advice = f"Set {BREADTH} instead." if kind.method is Method.NGRAM else "Leave topk at 1."
        refuse(where, f"{kind.name} takes no topk, got {speculation.topk}", advice)


def _check_draft(speculation: Speculation, kind: Algorithm, model: str, where: str) -> None:
    method, draft = speculation.method, speculation.draft_model
    if kind.draft is True and not draft:
        refuse(where, f"method {method.value} needs a draft model (SGLang: {DRAFT_PATH})", "Give its directory.")
    if kind.draft is False and draft:
        refuse(where, f"method {method.value} takes no draft model: SGLang would ignore it", "Remove it.")
    if method is Method.MTP and not drafts_itself(draft, model):
        refuse(where, "method mtp drafts with the model's own layers", "With a draft model the method is eagle.")
    if method is Method.EAGLE and drafts_itself(draft, model):
        refuse(where, "the draft model is the model itself", "That is method mtp.")


def _check_tree(tokens: int, depth: int, topk: int, where: str) -> None:
    most = most_nodes(depth, topk) + 1
    if not 2 <= tokens <= most:
        refuse(
            where,
            f"'{TOKENS}' must be 2 to {most} with depth {depth} and topk {topk}, got {tokens}",
            "A tree of this depth and width has no more nodes.",
        )
