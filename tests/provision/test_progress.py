from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.provision.progress import Meter, Step, read_step


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("[57/208] Building CXX object src/CMakeFiles/llama.dir/llama-kv-cache.cpp.o", Step(57, 208)),
        ("[208/208] Linking CXX executable bin/llama-server", Step(208, 208)),
        ("[0/1] Re-running CMake...", None),
        ("[3/2] impossible", None),
        ("-- Including CPU backend", None),
        ("FAILED: src/CMakeFiles/llama.dir/llama.cpp.o", None),
        ("ninja: no work to do.", None),
        ("", None),
    ],
)
def test_reads_ninja(line: str, step: Step | None) -> None:
    assert read_step(line) == step


@given(st.text())
def test_any_line_is_read(line: str) -> None:
    assert read_step(line) is None or line.startswith("[")


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_fraction_is_a_fraction(done: int, total: int) -> None:
    said: list[float | None] = []
    Meter("x", lambda text, fraction: said.append(fraction), lambda: 0.0).heard(f"[{done}/{total}] y")
    assert said == ([done / total] if done <= total else [])


def test_says_elapsed_and_remaining() -> None:
    now = 100.0
    said: list[tuple[str, float | None]] = []
    meter = Meter("Compiling", lambda text, fraction: said.append((text, fraction)), lambda: now)
    for at, line in [
        (102.0, "[1/100] a"),
        (105.0, "warning: noise"),
        (130.0, "[10/100] b"),
        (330.0, "[50/100] c"),
        (480.0, "[100/100] d"),
    ]:
        now = at
        meter.heard(line)
    assert said == [
        ("Compiling: 1 of 100 files, 2 s", 0.01),
        ("Compiling: 10 of 100 files, 30 s, about 4:30 min left", 0.1),
        ("Compiling: 50 of 100 files, 3:50 min, about 3:50 min left", 0.5),
        ("Compiling: 100 of 100 files, 6:20 min", 1.0),
    ]
