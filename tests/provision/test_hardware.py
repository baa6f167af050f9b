from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from spectune.provision import hardware

INTEL = (
    "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) CPU @ 2.60GHz\nflags\t\t: fpu sse avx2 avx\n\n"
    "processor\t: 1\nflags\t: x\n"
)
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_this_machine() -> None:
    seen = hardware.describe()
    assert seen.hostname == os.uname().nodename
    assert seen.kernel == os.uname().release
    assert seen.cpu
    assert 1 <= seen.cores <= len(os.sched_getaffinity(0))
    assert 0 < seen.memory_bytes <= psutil.virtual_memory().total
    assert 0 < hardware.memory_available() <= psutil.virtual_memory().total
    assert hardware.load_average() >= 0


def test_cores_follow_affinity() -> None:
    all_cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(all_cores)})
        assert hardware.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, all_cores)


def test_intel(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": INTEL})
    assert hardware.cpu_model(root) == "Intel(R) Xeon(R) CPU @ 2.60GHz"
    assert hardware.cpu_flags(root) == "avx avx2 fpu sse"


def test_arm(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": ARM})
    assert hardware.cpu_model(root).endswith("0x41 0xd0c")
    assert hardware.cpu_flags(root) == "asimd fp"


def test_unreadable_machine(tmp_path: Path) -> None:
    assert hardware.cpu_model(tmp_path) == os.uname().machine
    assert hardware.cpu_flags(tmp_path) == ""
    assert hardware.usable_cores(tmp_path) == len(os.sched_getaffinity(0))
    assert hardware.memory_limit(tmp_path) == psutil.virtual_memory().total


V2 = {"proc/self/cgroup": "0::/user.slice/job\n"}
V1 = {"proc/self/cgroup": "5:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/x\n"}
V1_JOB = "sys/fs/cgroup/cpu/job"
V1_JOB = "sys/fs/cgroup/cpu/job"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({**V2, "sys/fs/cgroup/user.slice/job/cpu.max": "150000 100000\n"}, 2),
        ({**V2, "sys/fs/cgroup/user.slice/job/cpu.max": "max 100000\n"}, 64),
        ({**V2, "sys/fs/cgroup/user.slice/cpu.max": "300000 100000\n"}, 3),
        ({**V2, "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({**V2, "sys/fs/cgroup/cpu.max": "nonsense\n"}, 64),
        ({**V1, f"{V1_JOB}/cpu.cfs_quota_us": "400000\n", f"{V1_JOB}/cpu.cfs_period_us": "100000\n"}, 4),
        ({**V1, f"{V1_JOB}/cpu.cfs_quota_us": "-1\n", f"{V1_JOB}/cpu.cfs_period_us": "100000\n"}, 64),
        ({"proc/self/cgroup": "0::/../../outside\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
    ],
)
def test_cores_of_a_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    assert hardware.usable_cores(tree(tmp_path, files)) == cores


def test_memory_of_a_control_group(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            **V2,
            "sys/fs/cgroup/user.slice/job/memory.max": "max\n",
            "sys/fs/cgroup/user.slice/memory.max": "1000000\n",
            "sys/fs/cgroup/user.slice/memory.current": "400000\n",
        },
    )
    assert hardware.memory_limit(root) == 1_000_000
    assert hardware.memory_available(root) == 600_000


def test_memory_of_an_old_control_group(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/memory/job"
    root = tree(
        tmp_path, {**V1, f"{group}/memory.limit_in_bytes": "5000\n", f"{group}/memory.usage_in_bytes": "6000\n"}
    )
    assert hardware.memory_limit(root) == 5000
    assert hardware.memory_available(root) == 0


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_gpus(tmp_path: Path) -> None:
    two = program(tmp_path / "two", "echo 'NVIDIA H200, 143771 MiB'; echo 'NVIDIA H200, 143771 MiB'")
    assert hardware.gpus(two) == ("NVIDIA H200, 143771 MiB",) * 2
    assert hardware.gpus(program(tmp_path / "fails", "echo 'No devices were found'; exit 6")) == ()
    assert hardware.gpus(program(tmp_path / "hangs", "exec sleep 60"), timeout_s=0.2) == ()
    assert hardware.gpus(str(tmp_path / "missing")) == ()
