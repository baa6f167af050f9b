"""Memory in use on the GPUs of a service."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

_TIMEOUT_S = 10.0
_MIB = 2**20
_NAMED = re.compile(r"\d+(,\d+)*|GPU-[0-9a-fA-F-]+(,GPU-[0-9a-fA-F-]+)*")


def memory_query(env: Mapping[str, str], program: str = "nvidia-smi") -> list[str]:
    """The command that prints the MiB in use on the GPUs that CUDA_VISIBLE_DEVICES leaves to a server, a line each; on
    all of them where it is absent or names something else than GPUs, such as slices of one. What other programs do on
    other GPUs of the host is none of the service's business."""
    visible = env.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "")
    chosen = [f"--id={visible}"] if _NAMED.fullmatch(visible) else []
    return [program, *chosen, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]


def memory_told(output: str) -> int | None:
    """Bytes in what the command prints; None where it does not tell."""
    used = output.split()
    return sum(map(int, used)) * _MIB if used and all(number.isdigit() for number in used) else None


def gpu_memory_used(env: Mapping[str, str], program: str = "nvidia-smi") -> int | None:
    """Bytes in use on NVIDIA GPUs of this machine together; None where the program is missing, fails or does not tell.

    Args:
        env: of the server.
    """
    try:
        done = subprocess.run(
            memory_query(env, program), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return memory_told(done.stdout) if done.returncode == 0 else None
