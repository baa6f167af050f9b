"""The SGLang adapter: the server's knobs, command line, log, pages and failures (recorded for 0.5.15 and 0.5.23)."""

from __future__ import annotations

from spectune.engines.common.acceptance import PerRequest
from spectune.engines.sglang.acceptance import acceptance_from_meta
from spectune.engines.sglang.adapter import SGLang
from spectune.engines.sglang.flags import parse_help
from spectune.engines.sglang.schedule import BatchSteps, adaptive_config

__all__ = ["BatchSteps", "PerRequest", "SGLang", "acceptance_from_meta", "adaptive_config", "parse_help"]
