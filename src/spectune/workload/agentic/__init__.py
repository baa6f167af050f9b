"""Scripted sessions of a coding agent over small code bases."""

from spectune.workload.agentic.source import AgenticSource, agentic

__all__ = ["AgenticSource", "agentic"]
