"""What this machine is: read from /proc, the control group, and nvidia-smi where there is one."""

from __future__ import annotations

import math
import os
import platform
import re
import socket
import subprocess
from pathlib import Path

import psutil

from spectune.domain.deployment import Hardware

_ROOT = Path("/")


def describe() -> Hardware:
    """This machine, as far as this process may use it. Never raises: what can't be read is empty."""
    return Hardware(
        hostname=socket.gethostname(),
        cpu=cpu_model(),
        cores=usable_cores(),
        memory_bytes=memory_limit(),
        gpus=gpus(),
        kernel=platform.release(),
    )


def load_average() -> float:
    """1-minute load average of the machine."""
    return os.getloadavg()[0]


def cpu_model(root: Path = _ROOT) -> str:
    """The processor's name; on ARM, which tells none, its architecture with implementer and part number."""
    fields = _cpu_fields(root)
    if name := fields.get("model name") or fields.get("cpu model") or fields.get("cpu"):
        return name
    part = [fields[key] for key in ("CPU implementer", "CPU part") if key in fields]
    return " ".join([platform.machine(), *part])


def cpu_flags(root: Path = _ROOT) -> str:
    """The instruction set extensions, sorted, as the kernel names them; "" where it doesn't."""
    fields = _cpu_fields(root)
    return " ".join(sorted(set((fields.get("flags") or fields.get("Features") or fields.get("isa") or "").split())))


def usable_cores(root: Path = _ROOT) -> int:
    """Cores this process may run on: its affinity, or less where a control group gives less time (rounded up)."""
    cores = len(os.sched_getaffinity(0))
    for directory in _cgroup_directories(root, "cpu"):
        quota, period = ([*_read(directory / "cpu.max").split(), "", ""])[:2]
        if not quota:
            quota, period = (
                _read(directory / "cpu.cfs_quota_us").strip(),
                _read(directory / "cpu.cfs_period_us").strip(),
            )
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return cores


def memory_limit(root: Path = _ROOT) -> int:
    """Bytes of memory of the machine, or of the control group where that is less."""
    return min([psutil.virtual_memory().total, *(limit for limit, _ in _memory_limits(root))])


def memory_available(root: Path = _ROOT) -> int:
    """Bytes that can be taken without swapping; page cache of the control group counts as taken."""
    rooms = [max(0, limit - used) for limit, used in _memory_limits(root)]
    return min([psutil.virtual_memory().available, *rooms])


def gpus(program: str = "nvidia-smi", timeout_s: float = 20.0) -> tuple[str, ...]:
    """Name and memory of every NVIDIA GPU ("NVIDIA H200, 143771 MiB"); none where the program is missing or fails."""
    argv = [program, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    if done.returncode != 0:
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())


def _memory_limits(root: Path) -> list[tuple[int, int]]:
    """(limit, used) in bytes of every control group above us that has a limit."""
    found = []
    for directory in _cgroup_directories(root, "memory"):
        limit = _read(directory / "memory.max").strip() or _read(directory / "memory.limit_in_bytes").strip()
        used = _read(directory / "memory.current").strip() or _read(directory / "memory.usage_in_bytes").strip()
        if limit.isdigit():
            found.append((int(limit), int(used) if used.isdigit() else 0))
    return found


def _cgroup_directories(root: Path, controller: str) -> list[Path]:
    """Our control group and all above it. A limit anywhere on the way holds; in a container only its root is seen."""
    directories = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        if number == "0" and not controllers:
            top = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            top = root / "sys/fs/cgroup" / controller
        else:
            continue
        inside = top.joinpath(*(part for part in path.split("/") if part not in {"", ".."}))
        directories += [inside, *(parent for parent in inside.parents if parent.is_relative_to(top))]
    return directories


def _cpu_fields(root: Path) -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    first = _read(root / "proc/cpuinfo").strip().split("\n\n")[0]
    return dict(re.findall(r"^([^:\n]*?)\s*:[ \t]*(.*)$", first, re.MULTILINE))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
