"""The arithmetic of docs/evidence/full-size.md, and that its tables come from the ledger beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.full_size.__main__ import PARTS
from bench.full_size.evidence import SHARES, load, series
from bench.full_size.geometry import Shape, tokens_a_step
from spectune.domain.metrics import MetricName

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "full-size"
SHAPE = Shape()
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def test_weights_are_as_many_as_the_server_said() -> None:
    """SGLang reported 242.06 GB on both GPUs together; norms and the vision tower are not counted."""
    counted = SHAPE.gpus * (SHAPE.dense + SHAPE.layers * SHAPE.experts * SHAPE.expert_bytes)
    assert counted == pytest.approx(242.06e9, rel=0.01)


@pytest.mark.parametrize(("tokens", "experts"), [(0, 0), (1, 8), (4, 30.5), (32, 163), (10_000, 256)])
def test_distinct_experts(tokens: int, experts: float) -> None:
    assert SHAPE.distinct(tokens) == pytest.approx(experts, rel=0.01)


def test_the_kernel_was_timed_with_as_many_experts_as_chance_calls() -> None:
    for kernel in load(FOLDER).kernels:
        assert kernel.distinct == pytest.approx(SHAPE.distinct(kernel.tokens), rel=0.03)


def test_a_step_moves_more_with_every_user_and_every_depth() -> None:
    moved = [[SHAPE.step(batch, depth, 400) for depth in range(5)] for batch in (1, 2, 8, 32)]
    assert all(row == sorted(row) for row in moved)
    assert all(list(column) == sorted(column) for column in zip(*moved, strict=True))


def test_nothing_ran_faster_than_its_bytes_allow() -> None:
    evidence = load(FOLDER)
    for depth, trials in series(evidence.history, SHARES[0]).items():
        roof = tokens_a_step(SHARES[0], depth) * evidence.read_rate / SHAPE.step(1, depth, 400)
        for trial in trials:
            (alone,) = (c.measurement for c in trial.cells.values() if c.measurement.cell.level.users == 1)
            assert 0.2 * roof < alone.metrics[MetricName.PER_USER_SPEED].value < roof


def test_the_tables_are_those_of_the_ledger() -> None:
    """Where it fails: python -m bench.full_size > docs/evidence/full-size/tables.md, and look at the page's figures.

    Fits may end a last digit apart on another processor.
    """
    evidence = load(FOLDER)
    printed = "".join(f"## {title}\n\n" + "\n".join(made(evidence)) + "\n\n" for title, made in PARTS)
    kept = (FOLDER / "tables.md").read_text(encoding="utf-8")
    assert NUMBER.sub("#", kept) == NUMBER.sub("#", printed)
    assert numbers(kept) == pytest.approx(numbers(printed), abs=1.01, rel=0.02)


def numbers(text: str) -> list[float]:
    return [float(found) for found in NUMBER.findall(text)]
