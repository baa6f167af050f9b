"""vLLM's --speculative-config in the words of the domain, and back.

Depth k is num_speculative_tokens; vLLM drafts chains only, so topk is always 1. A service may give its configuration
whole (--speculative-config, -sc), key by key (--speculative-config.method), or by the short flags --spec-method,
--spec-model and --spec-tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from spectune.domain.candidate import Method, Speculation
from spectune.domain.knobs import KnobValue, Settings
from spectune.engines.common.checks import check_none, refuse
from spectune.engines.vllm.flags import FlagTable
from spectune.engines.vllm.knobs import SHORTHANDS
from spectune.engines.vllm.settings import canonical
from spectune.engines.vllm.speckeys import BY_KEY, KEYS, METHOD, SHAPE, SPECULATIVE

DEPTH, MODEL = "num_speculative_tokens", "model"
Config = Mapping[str, object]

NAMES: Mapping[Method, str] = {
    Method.NGRAM: "ngram",
    Method.SUFFIX: "suffix",
    Method.DRAFT: "draft_model",
    Method.EAGLE: "eagle",
    Method.EAGLE3: "eagle3",
    Method.MTP: "mtp",
    Method.DFLASH: "dflash",
}
UNTUNED = frozenset({"medusa", "mlp_speculator", "custom_class", "dspark", "extract_hidden_states"})
"""Methods of vLLM that spectune has no word for."""

SUFFIX_DEPTH = 24
"""vLLM's depth for suffix decoding where none is given."""

_TYPED = {key.key: key for key in KEYS}


def method_named(name: object) -> Method | None:
    """The domain's word for one of vLLM's methods; its older names of MTP ("deepseek_mtp") are understood."""
    if not isinstance(name, str):
        return None
    name = name.lower()
    if name in {"ngram", "[ngram]", "ngram_gpu"}:
        return Method.NGRAM
    if name.endswith("_mtp"):
        return Method.MTP
    return next((method for method, own in NAMES.items() if own == name), None)


def spelled(speculation: Speculation, knobs: Settings, table: FlagTable) -> dict[str, object]:
    """A candidate's speculation as vLLM's configuration; empty without speculation.

    Args:
        knobs: settings of the speculation that the candidate gives as knobs.

    Raises:
        InputError: when vLLM has no such method, or it can't work with this depth, topk, draft model or setting.
    """
    own = {**speculation.settings, **knobs}
    where = f"candidate {speculation.label}"
    if speculation.method is Method.NONE:
        check_none(speculation, own, where)
        return {}
    if speculation.method not in NAMES:
        words = ", ".join(method.value for method in NAMES)
        refuse(where, f"vLLM has no method '{speculation.method.value}'", f"It has {words} and none.")
    _check_shape(speculation, where)
    check_effective(own, speculation.method, where, table)
    values = {_key(name): _typed(_key(name), value) for name, value in own.items()}
    name = values.pop(METHOD, NAMES[speculation.method])
    result: dict[str, object] = {METHOD: name}
    if speculation.draft_model:
        result[MODEL] = speculation.draft_model
    return {**result, DEPTH: speculation.depth, **values}


def recognised(settings: Settings, where: str, table: FlagTable) -> Speculation:
    """The speculation that a service's own settings amount to.

    Args:
        settings: the service's speculative settings, canonical.

    Raises:
        InputError: settings that contradict each other, that have no effect, or that leave the method or the depth to
            a choice which depends on the model's files.
    """
    config = _collected(settings, where)
    if config is None:
        return Speculation()
    where = f"{where}: '{SPECULATIVE}'"
    for key in config:
        if key == "tensor_parallel_size":
            refuse(where, "'tensor_parallel_size' ends vLLM at start", "Write draft_tensor_parallel_size.")
        if key not in BY_KEY and key not in SHAPE:
            refuse(where, f"spectune knows no key '{key}'", f"It knows {', '.join(sorted({*BY_KEY, *SHAPE}))}.")
    method = _method_of(config, where)
    model = config.get(MODEL)
    if method in {Method.NGRAM, Method.SUFFIX}:
        model = None
    extra = {} if config.get(METHOD) != "ngram_gpu" else {METHOD: "ngram_gpu"}
    rest = {key: value for key, value in config.items() if key not in SHAPE and value is not None}
    written = {BY_KEY[key].name: _plain(value) for key, value in {**extra, **rest}.items()}
    own = canonical(written, where, table)
    check_effective(own, method, where, table)
    return Speculation(method, _depth_of(config, method, where), 1, None if model is None else str(model), own)


def check_effective(settings: Settings, method: Method, where: str, table: FlagTable) -> None:
    """Refuses settings that the method would ignore, those that it sets itself, and those of younger versions."""
    for name in settings:
        key = BY_KEY.get(_key(name))
        if key is None or name != key.name:
            refuse(where, f"'{name}' is set by the speculation's method, depth and draft model", "Remove it.")
        if key.since > table.release:
            since = ".".join(map(str, key.since))
            refuse(where, f"{table.label} has no '{name}' (new in {since})", "Remove it.")
        if method not in key.methods:
            listed = ", ".join(sorted(other.name for other in KEYS if method in other.methods))
            refuse(where, f"'{name}' has no effect with {NAMES[method]}", f"With it these count: {listed}.")


def _key(name: str) -> str:
    return name.removeprefix(f"{SPECULATIVE}.")


def _typed(key: str, value: KnobValue) -> object:
    """The value as it stands in JSON."""
    if _TYPED[key].json:
        loaded: object = json.loads(str(value))
        return loaded
    return value


def _plain(value: object) -> KnobValue:
    return value if isinstance(value, (bool, int, float, str)) else json.dumps(value)


def _collected(settings: Settings, where: str) -> dict[str, object] | None:
    """The configuration from all ways of giving it; None without any."""
    if not settings:
        return None
    config: dict[str, object] = {}
    whole = settings.get(SPECULATIVE)
    if whole is not None:
        loaded: object = json.loads(str(whole))
        if loaded is None and len(settings) == 1:
            return None
        if not isinstance(loaded, dict):
            refuse(where, f"'{SPECULATIVE}' must be a JSON object, got '{whole}'", '{"method": ..., ...}')
        config = {str(key).replace("-", "_"): value for key, value in loaded.items()}
    for name, value in settings.items():
        if name == SPECULATIVE:
            continue
        key = SHORTHANDS.get(name, _key(name))
        if key in config:
            refuse(where, f"'{name}' and the '{key}' of '{SPECULATIVE}' are mutually exclusive", "Keep one of them.")
        config[key] = _typed(key, value) if key in _TYPED else _loaded(value)
    return config


def _loaded(value: KnobValue) -> object:
    """A key's value as vLLM reads it from the command line: JSON where it is, else text."""
    if not isinstance(value, str):
        return value
    try:
        loaded: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return loaded


def _method_of(config: Config, where: str) -> Method:
    name, model = config.get(METHOD), config.get(MODEL)
    if name is None and str(model) in {"ngram", "[ngram]"}:
        return Method.NGRAM
    if name is None:
        refuse(
            where,
            "without a method vLLM chooses one by the draft model's files",
            f"Write out the method: {', '.join(NAMES.values())}.",
        )
    if str(name) in UNTUNED:
        refuse(where, f"spectune does not tune vLLM's method '{name}'", f"It tunes {', '.join(NAMES.values())}.")
    method = method_named(name)
    if method is None:
        refuse(where, f"vLLM has no method '{name}'", f"It has {', '.join(NAMES.values())}.")
    if method.needs_draft_model and not model:
        refuse(where, f"method {name} needs a draft model", "Add 'model'.")
    return method


def _depth_of(config: Config, method: Method, where: str) -> int:
    depth = config.get(DEPTH)
    if depth is None:
        if method is Method.SUFFIX:
            return SUFFIX_DEPTH
        own = "takes the number of MTP layers in the model's files" if method is Method.MTP else "does not start"
        refuse(where, f"without '{DEPTH}' vLLM {own}", f"Write out {DEPTH}.")
    if isinstance(depth, float) and depth.is_integer():
        depth = int(depth)
    if not isinstance(depth, int) or isinstance(depth, bool) or depth < 1:
        refuse(where, f"'{DEPTH}' must be a whole number of at least 1, got {depth}")
    return depth


def _check_shape(speculation: Speculation, where: str) -> None:
    method = speculation.method
    if speculation.depth < 1:
        refuse(where, f"depth k of {method.value} must be at least 1, got {speculation.depth}")
    if speculation.topk != 1:
        refuse(where, f"vLLM drafts chains: topk must be 1, got {speculation.topk}", "Leave topk at 1.")
    if method.needs_draft_model and not speculation.draft_model:
        refuse(where, f"method {method.value} needs a draft model (vLLM: 'model')")
    if speculation.draft_model and method in {Method.NGRAM, Method.SUFFIX}:
        refuse(where, f"method {method.value} takes no draft model: vLLM would ignore it", "Remove it.")
