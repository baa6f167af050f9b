"""SGLang 0.5.15's command line: the names, types and defaults of its server arguments (server_args.json)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

ALIASES: Mapping[str, tuple[str, ...]] = {
    "model_path": ("--model",),
    "tp_size": ("--tensor-parallel-size",),
    "pp_size": ("--pipeline-parallel-size",),
    "dp_size": ("--data-parallel-size",),
    "ep_size": ("--expert-parallel-size", "--ep"),
    "speculative_draft_model_path": ("--speculative-draft-model",),
}
DEPRECATED: Mapping[str, str] = {
    "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode",
    "--cuda-graph-bs": "--cuda-graph-bs-decode",
    "--mamba-scheduler-strategy": "--mamba-radix-cache-strategy",
}
"""Old spellings that 0.5.15 still takes, with a warning."""
CHOICES: Mapping[str, tuple[str, ...]] = {
    "speculative_attention_mode": ("prefill", "decode"),
    "speculative_ngram_match_type": ("BFS", "PROB"),
    "mamba_radix_cache_strategy": ("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"),
    "decoupled_spec_role": ("null", "verifier", "drafter"),
}
_INTERNAL = frozenset({"uses_mamba_radix_cache", "custom_sigquit_handler"})
_TYPES: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float, "text": str, "json": json.loads}


def table() -> dict[str, tuple[str, object]]:
    """Name -> (type, default) of every server argument, in the engine's order."""
    text = resources.files("spectune.sim.sglang").joinpath("server_args.json").read_text(encoding="utf-8")
    return {name: (kind, default) for name, (kind, default) in json.loads(text).items()}


def parse(argv: Sequence[str]) -> tuple[dict[str, object], tuple[str, ...]]:
    """All arguments with their values, and the deprecation lines to print. Exits with 2 on a wrong command line."""
    known = table()
    parser = argparse.ArgumentParser(prog="launch_server.py")
    for name, (kind, default) in known.items():
        if name not in _INTERNAL:
            _add(parser, name, kind, default)
    old = sorted({word.partition("=")[0] for word in argv} & DEPRECATED.keys())
    notes = tuple(
        f"\033[1;33m'{name}' is deprecated and will be removed in a future release. "
        f"Use '{DEPRECATED[name]}' instead.\033[0m"
        for name in old
    )
    values: dict[str, object] = {name: default for name, (_, default) in known.items()}
    values.update(vars(parser.parse_args(argv)))
    return values, notes


def _add(parser: argparse.ArgumentParser, name: str, kind: str, default: object) -> None:
    spelled = "--" + name.replace("_", "-")
    spellings = [spelled, *ALIASES.get(name, ()), *(old for old, new in DEPRECATED.items() if new == spelled)]
    if kind == "flag":
        parser.add_argument(*spellings, dest=name, action="store_true", default=default)
    elif kind in ("ints", "texts"):
        parser.add_argument(*spellings, dest=name, nargs="+", type=int if kind == "ints" else str, default=default)
    else:
        parser.add_argument(
            *spellings,
            dest=name,
            type=_TYPES[kind],
            default=default,
            choices=CHOICES.get(name),
            required=name == "model_path",
        )


def log_form(args: Mapping[str, object]) -> str:
    """The arguments as the engine logs them."""
    return "server_args=ServerArgs(" + ", ".join(f"{name}={value!r}" for name, value in args.items()) + ")"
