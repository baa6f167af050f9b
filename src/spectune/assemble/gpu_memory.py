"""Memory in use on this machine's GPUs."""

from __future__ import annotations

import subprocess

_TIMEOUT_S = 10.0
_MIB = 2**20


def gpu_memory_used(program: str = "nvidia-smi") -> int | None:
    """Bytes in use on all NVIDIA GPUs together; None where the program is missing, fails or does not tell."""
    argv = [program, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        return sum(int(line) for line in done.stdout.split()) * _MIB if done.returncode == 0 and done.stdout else None
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
