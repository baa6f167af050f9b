"""Combinations of settings that SGLang's server would refuse, or silently change, after minutes of loading.

Each is refused before launch, with the reason. What depends on the model's files can't be seen here; the server's own
refusal is read from its log then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from spectune.domain.candidate import Method, Speculation
from spectune.domain.errors import InputError
from spectune.domain.knobs import Settings
from spectune.engines.common import checks
from spectune.engines.sglang.flags import RECORDED, FlagTable
from spectune.engines.sglang.methods import ADAPTIVE, ADAPTIVE_FILE, BREADTH, BREADTH_DEFAULT, TOKENS, TOPK

_TREE_BACKENDS = frozenset({"flashinfer", "fa3", "triton"})
_OLDEST = RECORDED[0]
"""The recorded version with restrictions that the next one does not have."""


def check(server: Settings, speculation: Speculation, spelled: Settings, table: FlagTable) -> None:
    """Refuses settings that can't work together.

    Args:
        server: every setting that is not speculation.
        spelled: SGLang's settings of the speculation.

    Raises:
        InputError: naming the knob and the reason.
    """
    if speculation.method is Method.NONE:
        return
    _attention(server, speculation, spelled)
    _parallelism(server, speculation, table)
    _adaptive(server, speculation, spelled)
    _sampling(server, speculation, spelled, table)
    _windows(spelled)
    _states(server, spelled, table)
    _corpus(spelled)
    adapters = bool(server.get("enable-lora") or server.get("lora-paths"))
    if adapters and table.recorded == _OLDEST and speculation.method is not Method.NGRAM:
        _refuse("'enable-lora' works with NGRAM alone in this version", "Remove it, or take method ngram.")


def check_port(port: int, table: FlagTable, env: Mapping[str, str]) -> None:
    """Refuses ports that the server refuses.

    Raises:
        InputError: naming the port.
    """
    checks.check_port(port)
    if table.recorded == _OLDEST and port > 55535 and "SGLANG_GRPC_PORT" not in env:
        raise InputError(
            f"service.port: {table.label} refuses ports above 55535, got {port}: it wants port + 10000 for gRPC, even "
            "with gRPC off",
            "Take a lower port, or set SGLANG_GRPC_PORT in service.env.",
        )


def _attention(server: Settings, speculation: Speculation, spelled: Settings) -> None:
    backend = server.get("attention-backend")
    paged = int(server.get("page-size", 1)) > 1
    if speculation.method is Method.NGRAM:
        breadth = int(spelled.get(BREADTH, BREADTH_DEFAULT))
        if breadth > 1 and paged and backend != "flashinfer":
            _refuse(
                f"NGRAM with breadth {breadth} and 'page-size' {server['page-size']} works with attention-backend "
                "flashinfer alone",
                f"Set attention-backend: flashinfer, page-size: 1, or {BREADTH}: 1.",
            )
        return
    if int(spelled.get(TOPK, 1)) == 1:
        return
    if backend == "trtllm_mha":
        _refuse("'attention-backend' trtllm_mha drafts chains only, so topk must be 1", "Set topk to 1.")
    if paged and backend is not None and backend not in _TREE_BACKENDS:
        _refuse(
            f"topk {speculation.topk} with 'page-size' {server['page-size']} needs attention-backend "
            f"{', '.join(sorted(_TREE_BACKENDS))}, not {backend}",
            "Change the backend, or set page-size or topk to 1.",
        )


def _parallelism(server: Settings, speculation: Speculation, table: FlagTable) -> None:
    method = speculation.method
    if _attention_parallel(server):
        if method in {Method.DRAFT, Method.NGRAM}:
            _refuse(f"method {method.value} does not work with DP attention", "Remove enable-dp-attention.")
        if method is Method.DFLASH and not (table.recorded != _OLDEST and server.get("enable-dp-lm-head")):
            _refuse("method dflash does not work with DP attention here", "Remove enable-dp-attention.")
    if method is Method.DFLASH and int(server.get("pp-size", 1)) != 1:
        _refuse(f"DFLASH needs 'pp-size' 1, got {server['pp-size']}", "Set pp-size to 1.")


def _attention_parallel(server: Settings) -> bool:
    return bool(server.get("enable-dp-attention")) or int(server.get("attn-dp-size", 1) or 1) > 1


def _adaptive(server: Settings, speculation: Speculation, spelled: Settings) -> None:
    if not spelled.get(ADAPTIVE):
        if ADAPTIVE_FILE in spelled:
            _refuse(f"'{ADAPTIVE_FILE}' is ignored without {ADAPTIVE}", f"Set {ADAPTIVE}: true, or remove it.")
        return
    reason = ""
    if speculation.topk != 1:
        reason = f"topk {speculation.topk} (only 1 is supported)"
    elif _attention_parallel(server):
        reason = "DP attention"
    elif spelled.get("enable-multi-layer-eagle"):
        reason = "enable-multi-layer-eagle"
    elif server.get("enable-two-batch-overlap"):
        reason = "enable-two-batch-overlap"
    elif server.get("enable-pdmux"):
        reason = "enable-pdmux"
    if reason:
        _refuse(f"'{ADAPTIVE}' would silently fall back to a fixed depth because of {reason}", "Remove one of the two.")


def _sampling(server: Settings, speculation: Speculation, spelled: Settings, table: FlagTable) -> None:
    """Block verification switches rejection sampling on for every method but DFLASH."""
    names = ("speculative-use-rejection-sampling", "speculative-use-block-verification")
    name = next((name for name in names if spelled.get(name)), None)
    if name is None or speculation.method is Method.DFLASH:
        return
    if speculation.topk != 1:
        _refuse(f"'{name}' needs topk 1", "Set topk to 1.")
    for threshold in ("speculative-accept-threshold-single", "speculative-accept-threshold-acc"):
        if float(spelled.get(threshold, 1.0)) != 1.0:
            _refuse(f"'{name}' needs '{threshold}' 1.0, got {spelled[threshold]}", f"Remove {threshold}.")
    if table.recorded != _OLDEST:
        return
    if server.get("enable-deterministic-inference"):
        _refuse(f"'{name}' does not work with deterministic inference here", "Remove one of the two.")
    if spelled.get("enable-multi-layer-eagle"):
        _refuse(f"'{name}' does not work with enable-multi-layer-eagle here", "Remove one of the two.")


def _windows(spelled: Settings) -> None:
    window = spelled.get("speculative-draft-window-size")
    if window is None:
        if "speculative-draft-sink-size" in spelled:
            _refuse("'speculative-draft-sink-size' needs speculative-draft-window-size", "Add it, or remove the sink.")
        return
    if spelled.get("speculative-algorithm") == "DFLASH" and int(window) < int(spelled[TOKENS]):
        _refuse(f"'speculative-draft-window-size' {window} is below DFLASH's block of {spelled[TOKENS]}", "Raise it.")


def _states(server: Settings, spelled: Settings, table: FlagTable) -> None:
    if table.recorded == _OLDEST and server.get("mamba-radix-cache-strategy") == "extra_buffer_lazy":
        _refuse(
            "'mamba-radix-cache-strategy' extra_buffer_lazy does not work with speculation here", "Set extra_buffer."
        )
    interval, tokens = server.get("mamba-track-interval"), int(spelled.get(TOKENS, 0))
    if interval is not None and int(interval) < tokens:
        _refuse(f"'mamba-track-interval' {interval} is below the {tokens} draft tokens", f"Raise it to {tokens}.")


def _corpus(spelled: Settings) -> None:
    budget = int(spelled.get("speculative-ngram-external-sam-budget", 0))
    if "speculative-ngram-external-corpus-path" in spelled and budget < 1:
        _refuse(
            "'speculative-ngram-external-corpus-path' needs a speculative-ngram-external-sam-budget of at least 1",
            "Add it.",
        )
    if budget and budget > int(spelled[TOKENS]) - 1:
        _refuse(
            f"'speculative-ngram-external-sam-budget' {budget} is above the depth {int(spelled[TOKENS]) - 1}",
            "Lower it.",
        )


def check_flags(spelled: Settings, table: FlagTable) -> None:
    """Refuses speculation that needs flags which the installed server lacks.

    Raises:
        InputError: naming the flag.
    """
    for name in spelled:
        if not table.has(name):
            raise InputError(
                f"{table.label} has no flag '{name}', which this speculation needs", "Take another method."
            )


def _refuse(message: str, advice: str = "") -> NoReturn:
    raise InputError(f"settings: {message}", advice)
