"""Which GPUs are asked for their memory, and what they tell. nvidia-smi is a script that answers as the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectune.assemble.gpu_memory import gpu_memory_used, memory_query

UUID = "GPU-d343804b-c7d6-31ed-b062-667685c8cbca"


@pytest.mark.parametrize(
    ("visible", "chosen"),
    [
        (None, []),
        ("", []),
        ("1", ["--id=1"]),
        ("2, 3", ["--id=2,3"]),
        (UUID, [f"--id={UUID}"]),
        ("MIG-4b1f/1/0", []),
        ("-1", []),
        ("0; rm -rf /", []),
    ],
)
def test_only_the_servers_gpus_are_asked(visible: str | None, chosen: list[str]) -> None:
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert [word for word in memory_query(env) if word.startswith("--id")] == chosen


def nvidia_smi(folder: Path, script: str) -> str:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("script", "used"),
    [
        ("echo 5; echo 7", 12 << 20),
        ('case "$*" in *--id=1*) echo 7;; *) echo 5; echo 7;; esac', 7 << 20),
        ("echo '[N/A]'", None),
        ("echo '[Unknown Error]'; exit 9", None),
        ("echo 5; exit 6", None),
        ("true", None),
    ],
    ids=["all", "one", "no figure", "error", "failed", "silent"],
)
def test_what_they_tell(tmp_path: Path, script: str, used: int | None) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "1"} if "--id" in script else {}
    assert gpu_memory_used(env, nvidia_smi(tmp_path, script)) == used


def test_no_program_is_no_gpu() -> None:
    assert gpu_memory_used({}, "/nowhere/nvidia-smi") is None
