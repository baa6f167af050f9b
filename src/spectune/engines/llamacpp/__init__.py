"""The llama.cpp adapter: llama-server's knobs, command line, log, pages and failures (release b11434)."""

from __future__ import annotations

from spectune.engines.llamacpp.adapter import LlamaCpp

__all__ = ["LlamaCpp"]
