"""The vLLM adapter: the server's knobs, command line, log, pages and failures (recorded for 0.32.0)."""

from __future__ import annotations

from spectune.engines.common.acceptance import PerRequest
from spectune.engines.vllm.acceptance import Window, acceptance_from_metrics, window
from spectune.engines.vllm.adapter import VLLM
from spectune.engines.vllm.flags import parse_help
from spectune.engines.vllm.schedule import BatchDepth, deepest, schedule

__all__ = [
    "VLLM",
    "BatchDepth",
    "PerRequest",
    "Window",
    "acceptance_from_metrics",
    "deepest",
    "parse_help",
    "schedule",
    "window",
]
