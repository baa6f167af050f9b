"""Recorded outputs of a real vLLM server (0.32.0, CPU build), and shapes of other versions built from what is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectune.domain.deployment import Evidence, ListenerOwner, Page

CASES = Path(__file__).parents[2] / "cases" / "vllm" / "0.32.0"
INFO = "/server_info?config_format=json"
_PAGES = {
    INFO: "server_info.json",
    "/metrics": "metrics.txt",
    "/version": "version.txt",
    "/load": "load.txt",
    "/v1/models": "v1_models.txt",
}


def started(name: str, pages: bool = True, log: bool = True) -> Evidence:
    """What was observed of a server that got ready and answered some requests."""
    folder = CASES / "started" / name
    found = {path: folder / file for path, file in _PAGES.items() if pages and (folder / file).exists()}
    return Evidence(
        (folder / "server.log").read_text("utf-8") if log else "",
        {path: Page(200, file.read_text("utf-8")) for path, file in found.items()},
        ListenerOwner.OURS,
    )


def page(name: str, file: str) -> Page:
    return Page(200, (CASES / "started" / name / file).read_text("utf-8"))


def failed(name: str) -> str:
    """The log of a server that ended by itself."""
    return (CASES / "failed" / f"{name}.log").read_text("utf-8")


FAILED = tuple(sorted(path.stem for path in (CASES / "failed").iterdir()))
STARTED = tuple(sorted(path.name for path in (CASES / "started").iterdir()))


def stamped(*lines: str, level: str = "INFO", who: str = "EngineCore") -> str:
    """Lines as vLLM's logger writes them; who "" writes them as 0.26 does without its wrapper."""
    prefix = f"({who} pid=4242) " if who else ""
    return "".join(f"{prefix}{level} 11-29 17:40:02 [vllm.py:725] {line}\n" for line in lines)


def warned(*lines: str) -> str:
    return stamped(*lines, level="WARNING", who="APIServer")


def evidence(log: str = "", pages: Mapping[str, object] | None = None) -> Evidence:
    """Evidence from text, and from texts and JSON bodies by path."""
    found = {
        path: Page(200, body if isinstance(body, str) else json.dumps(body)) for path, body in (pages or {}).items()
    }
    return Evidence(log, found, ListenerOwner.OURS)


def gpu_info(changes: Mapping[str, Mapping[str, object] | None] | None = None) -> dict[str, Any]:
    """A /server_info page as a GPU server gives it; changes are merged section by section, None empties one."""
    sections: dict[str, Any] = {
        "model_config": {"model": "/models/q", "max_model_len": 32768, "dtype": "torch.bfloat16"},
        "cache_config": {"cache_dtype": "auto", "enable_prefix_caching": True, "kv_cache_size_tokens": 400_000},
        "parallel_config": {"tensor_parallel_size": 2, "pipeline_parallel_size": 1, "data_parallel_size": 1},
        "scheduler_config": {"max_num_seqs": 64, "max_num_active_seqs": None, "async_scheduling": True},
        "device_config": {"device": "cuda"},
        "load_config": {"load_format": "auto"},
        "speculative_config": {"method": "mtp", "model": "/models/q", "num_speculative_tokens": 3},
        "compilation_config": {"cudagraph_mode": [2, 1], "cudagraph_capture_sizes": [4, 8, 16, 256]},
    }
    for name, values in (changes or {}).items():
        sections[name] = None if values is None else {**sections.get(name, {}), **values}
    return {"vllm_config": sections, "vllm_env": {"VLLM_USE_V2_MODEL_RUNNER": None}, "system_env": {}}
