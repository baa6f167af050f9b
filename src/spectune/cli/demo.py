"""The demo campaign: every method this machine can run without a GPU, on the built-in model and prompts."""

from __future__ import annotations

from collections.abc import Sequence

from spectune.domain.candidate import Method
from spectune.domain.knobs import KnobValue
from spectune.domain.spec import (
    BudgetSpec,
    CampaignSpec,
    SearchSpec,
    ServiceSpec,
    SpeculationSpace,
    WorkloadSpec,
)


def demo_spec(cores: int, binary: str = "auto", minutes: float = 7.5) -> CampaignSpec:
    """The campaign of `spectune demo` for a machine with so many usable cores.

    The service leaves one core to everything else, as a careful operator would; using all of them is one of the things
    to try. Answers are short, and measurements too, so that it ends within ten minutes on two slow cores.
    """
    service = max(1, cores - 1)
    threads: Sequence[KnobValue] = tuple(sorted({max(1, cores // 2), cores} - {service}))
    return CampaignSpec(
        name="demo",
        service=ServiceSpec(binary=binary, args={"threads": service, "ctx-size": 8192, "parallel": 4}),
        search=SearchSpec(
            speculation=(
                SpeculationSpace(Method.DRAFT, depths=(1, 3, 5), draft_model="builtin"),
                SpeculationSpace(Method.NGRAM, depths=(8,), settings={"spec-ngram-simple-size-n": 4}),
            ),
            knobs={"threads": tuple(threads)} if threads else {},
        ),
        workload=WorkloadSpec(max_tokens=32, concurrency=(1, 2, 4), temperatures=(0.0, 0.7)),
        budget=BudgetSpec(minutes=minutes, trials=16, cell_seconds=3.0, precision=0.02, confirm_pairs=2),
    )
