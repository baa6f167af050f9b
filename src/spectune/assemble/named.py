"""Files and programs that a command line names for a server on this machine: whether they are there."""

from __future__ import annotations

from spectune.provision import llama_server
from spectune.provision.models import BUILTIN, Role, resolve_model


def check_model(name: str | None, role: Role) -> None:
    """Looks at a model's file; fetches nothing.

    Raises:
        InputError: there is no such file, or it is no GGUF.
    """
    if name is not None and name != BUILTIN:
        resolve_model(name, role)


def check_program(binary: str) -> None:
    """Looks for llama-server; starts and builds nothing.

    Raises:
        InputError: a program is named that is not there.
    """
    if binary != "auto":
        llama_server.ensure(binary, lambda text, fraction: None)
