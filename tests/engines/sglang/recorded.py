"""Recorded outputs of a real SGLang server, and shapes of another version built from what is known of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectune.domain.deployment import Evidence, ListenerOwner, Page

CASES = Path(__file__).parents[2] / "cases" / "sglang" / "0.5.15"
_PAGES = {
    "/v1/models": "models.json",
    "/get_model_info": "model_info.json",
    "/server_info": "server_info.json",
    "/metrics": "metrics.txt",
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


def meta_info(name: str) -> dict[str, object]:
    """What the server sent about one finished request."""
    body: dict[str, object] = json.loads((CASES / "started" / name / "meta_info.json").read_text("utf-8"))
    return body


def failed(name: str) -> str:
    """The log of a server that ended by itself."""
    return (CASES / "failed" / f"{name}.log").read_text("utf-8")


FAILED = tuple(sorted(path.stem for path in (CASES / "failed").iterdir()))
STARTED = tuple(sorted(path.name for path in (CASES / "started").iterdir()))

STAMP = "[2026-11-29 18:38:40] "


def stamped(*lines: str) -> str:
    return "".join(f"{STAMP}{line}\n" for line in lines)


def evidence(log: str = "", **pages: object) -> Evidence:
    """Evidence from text and JSON bodies; "server_info" stands for the page /server_info, "v1_loads" for /v1/loads."""
    found = {
        "/" + name.replace("v1_", "v1/"): Page(200, body if isinstance(body, str) else json.dumps(body))
        for name, body in pages.items()
    }
    return Evidence(log, found, ListenerOwner.OURS)


def server_info_b(changes: Mapping[str, object] | None = None, ranks: int = 1) -> dict[str, Any]:
    """A /server_info page in the shape of 0.5.23, with one copy of the model a rank."""
    args: dict[str, Any] = {
        "model_path": "/models/q",
        "speculative_algorithm": "EAGLE",
        "speculative_draft_model_path": None,
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        "speculative_adaptive": False,
        "max_running_requests": None,
        "mem_fraction_static": 0.85,
        "dp_size": ranks,
        "enable_dp_attention": False,
        "load_format": "auto",
        "context_length": None,
        "schedule_conservativeness": float("nan"),
        "cuda_graph_bs_decode": [1, 2, 4],
        "cuda_graph_config": {"decode": {"backend": "full", "max_bs": 64, "bs": [1, 2, 64]}},
        "api_key": "secret-key",
        **(changes or {}),
    }
    state = {
        **args,
        "effective_max_running_requests_per_dp": 16,
        "context_length": 32768,
        "decode_cuda_graph_bs": [1, 2, 4, 8],
        "memory_usage": {
            "weight": 30.0,
            "kvcache": 40.0,
            "startup_available": 4.0,
            "token_capacity": 400_000,
            "token_capacity_swa": None,
            "graph": {"prefill": 0.1, "decode": 0.0, "target_verify": 0.5},
        },
    }
    return {
        **args,
        "launch_command": "sglang serve",
        "status": "ready",
        "max_total_num_tokens": 400_000,
        "internal_states": [state] * ranks,
        "version": "0.5.23",
        "frontend": "python",
    }
