"""How speculation is said to llama-server: which type, which flag holds the depth, which settings have an effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spectune.domain.candidate import Method, Speculation
from spectune.domain.knobs import KnobValue, Settings
from spectune.engines.common.checks import check_none, refuse
from spectune.engines.llamacpp.knobs import INERT, KNOBS
from spectune.engines.llamacpp.settings import canonical

SIZE_N, SIZE_M = "spec-ngram-simple-size-n", "spec-ngram-simple-size-m"
POOL_MATCH, POOL_MIN, POOL_MAX = "spec-ngram-mod-n-match", "spec-ngram-mod-n-min", "spec-ngram-mod-n-max"
DRAFT_MIN, DRAFT_MAX = "spec-draft-n-min", "spec-draft-n-max"
SYNTH_LEN, SYNTH_RATES = "spec-synth-len", "spec-synth-rates"
SYNTH = frozenset({SYNTH_LEN, SYNTH_RATES})
"""Simulated acceptance: belongs to any method, never to none."""

_REPEAT = 4
"""Tokens that must repeat before ngram-simple drafts, where the candidate does not say: llama-server's own 12 hardly
ever match, and one or two match by chance."""


@dataclass(frozen=True, slots=True)
class SpecType:
    """One value of --spec-type.

    Attributes:
        name: llama-server's word.
        method: spectune's word.
        depth: the flag that holds k.
        settings: further flags with an effect on this type.
        draft: whether a draft model must, may or must not be given (True, None, False).
    """

    name: str
    method: Method
    depth: str
    settings: frozenset[str]
    draft: bool | None


_DRAFT_SETTINGS = frozenset(
    name
    for name in KNOBS
    if name.startswith("spec-draft-") and name not in {"spec-draft-model", "spec-draft-hf", DRAFT_MAX} | INERT.keys()
)
_SIMPLE_SETTINGS = _DRAFT_SETTINGS - {"spec-draft-backend-sampling"}

TYPES: Mapping[str, SpecType] = {
    kind.name: kind
    for kind in (
        SpecType("draft-simple", Method.DRAFT, DRAFT_MAX, _SIMPLE_SETTINGS, draft=True),
        SpecType("draft-eagle3", Method.EAGLE3, DRAFT_MAX, _DRAFT_SETTINGS, draft=True),
        SpecType("draft-dflash", Method.DFLASH, DRAFT_MAX, _DRAFT_SETTINGS, draft=True),
        SpecType("draft-mtp", Method.MTP, DRAFT_MAX, _DRAFT_SETTINGS, draft=None),
        SpecType("ngram-simple", Method.NGRAM, SIZE_M, frozenset({SIZE_N}), draft=False),
        SpecType("ngram-mod", Method.NGRAM_POOL, POOL_MAX, frozenset({POOL_MATCH, POOL_MIN}), draft=False),
    )
}
"""llama-server's word -> type, for the types that spectune has a word for."""

BY_METHOD: Mapping[Method, SpecType] = {kind.method: kind for kind in TYPES.values()}

OTHER_TYPES = frozenset({"draft-dspark", "ngram-map-k", "ngram-map-k4v", "ngram-cache"})
"""Types that llama-server has and spectune does not tune."""


def spelled(speculation: Speculation, extra: Settings, where: str = "candidate") -> dict[str, KnobValue]:
    """A speculation in llama-server's flags, complete: nothing that matters is left to a default.

    Args:
        speculation: what is wanted.
        extra: further speculative settings, canonical; those of the speculation win.

    Raises:
        InputError: what can't work, would be ignored or would never draft, with the reason.
    """
    own = canonical(speculation.settings, where, exact=True)
    settings = {**extra, **own}
    if speculation.method is Method.NONE:
        check_none(speculation, settings, where)
        return {}
    kind = BY_METHOD.get(speculation.method)
    if kind is None:
        refuse(where, f"llama-server has no speculation method '{speculation.method.value}'", _known_methods())
    _check_shape(speculation, kind, where)
    check_effective(settings, kind, where)
    settings = {**_defaults(kind, speculation.depth), **settings}
    _check_drafts(kind, speculation.depth, settings, where)
    _shorten_rates(speculation.depth, settings, where)
    draft = {"spec-draft-model": speculation.draft_model} if speculation.draft_model else {}
    return {"spec-type": kind.name, **draft, kind.depth: speculation.depth, **settings}


def check_effective(settings: Settings, kind: SpecType, where: str) -> None:
    """Refuses settings that llama-server would accept and ignore under this type."""
    for name in settings:
        if name in INERT:
            refuse(where, f"'{name}' has no effect: {INERT[name]}", "Remove it.")
        if name in {"spec-type", "spec-default", "spec-draft-model", "spec-draft-hf", kind.depth}:
            refuse(where, f"'{name}' is set by the speculation's method, depth and draft model", "Remove it.")
        if name not in kind.settings | SYNTH:
            refuse(where, f"'{name}' has no effect with {kind.name}", f"With {kind.name} these count: {_listed(kind)}.")


def _defaults(kind: SpecType, depth: int) -> dict[str, KnobValue]:
    """What spectune sets where a candidate is silent and llama-server's default would make drafts rare or
    impossible."""
    match kind.method:
        case Method.NGRAM:
            return {SIZE_N: min(_REPEAT, depth)}
        case Method.NGRAM_POOL:
            return {POOL_MATCH: 24, POOL_MIN: 1}
        case _:
            return {}


def _check_shape(speculation: Speculation, kind: SpecType, where: str) -> None:
    method, depth = speculation.method.value, speculation.depth
    high = KNOBS[kind.depth].high
    if depth < 1 or (high is not None and depth > high):
        bound = "at least 1" if high is None else f"1 to {high:g}"
        refuse(where, f"depth k of {method} must be {bound}, got {depth} (llama-server: {kind.depth})")
    if speculation.topk != 1:
        refuse(where, f"llama-server drafts chains only, so topk must be 1, got {speculation.topk}")
    if kind.draft is True and not speculation.draft_model:
        refuse(where, f"method {method} needs a draft model (llama-server: spec-draft-model)")
    if kind.draft is False and speculation.draft_model:
        refuse(where, f"method {method} takes no draft model: llama-server would load it and ignore it", "Remove it.")


def _check_drafts(kind: SpecType, depth: int, settings: Settings, where: str) -> None:
    """Refuses sizes with which no draft is ever made or kept."""
    match kind.method:
        case Method.NGRAM if int(settings[SIZE_N]) > depth:
            refuse(
                where,
                f"ngram-simple never drafts when size-m (depth {depth}) is smaller than size-n ({settings[SIZE_N]})",
                f"Raise the depth to {settings[SIZE_N]} or lower {SIZE_N} to {depth}.",
            )
        case Method.NGRAM_POOL if int(settings[POOL_MIN]) > depth:
            refuse(
                where,
                f"ngram-mod drops drafts shorter than n-min ({settings[POOL_MIN]}), so depth {depth} never drafts",
                f"Lower {POOL_MIN} to {depth} or less.",
            )
        case _ if int(settings.get(DRAFT_MIN, 0)) > depth:
            refuse(
                where,
                f"drafts shorter than {DRAFT_MIN} ({settings[DRAFT_MIN]}) are dropped, so depth {depth} never drafts",
                f"Lower {DRAFT_MIN} to {depth} or less.",
            )
        case _:
            pass


def _shorten_rates(depth: int, settings: dict[str, KnobValue], where: str) -> None:
    """Simulated rates by position are cut to the depth, since llama-server wants exactly as many as it drafts."""
    if settings.keys() >= SYNTH:
        refuse(where, f"'{SYNTH_LEN}' and '{SYNTH_RATES}' exclude each other", "Keep one of them.")
    if SYNTH_LEN in settings and float(settings[SYNTH_LEN]) > depth + 1:
        refuse(where, f"'{SYNTH_LEN}' is at most depth + 1 = {depth + 1}, got {settings[SYNTH_LEN]}")
    if SYNTH_RATES in settings:
        rates = str(settings[SYNTH_RATES]).split(",")
        if len(rates) < depth:
            refuse(where, f"'{SYNTH_RATES}' names {len(rates)} positions, depth {depth} needs as many")
        settings[SYNTH_RATES] = ",".join(rates[:depth])


def _listed(kind: SpecType) -> str:
    return ", ".join(sorted(kind.settings | SYNTH))


def _known_methods() -> str:
    return f"It has {', '.join(method.value for method in BY_METHOD)} and none."
