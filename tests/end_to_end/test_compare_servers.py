"""Two running servers, whose answers are held against each other."""

from __future__ import annotations

import pytest

from spectune import assemble
from spectune.assemble.compare_servers import Comparison, against
from spectune.domain.finding import Finding, Status
from spectune.verify.probes import Size
from spectune.workload import builtin_source
from tests.sim.conftest import Sim, Simulate, launch

__all__ = ["launch"]

SIZE = Size(16, 16, 64, 64)


def compare(ours: Sim, other: Sim) -> dict[str, Finding]:
    endpoint, reference = (assemble.look(f"http://127.0.0.1:{sim.port}", None, None) for sim in (ours, other))
    told: list[str] = []
    found = against(endpoint, reference, builtin_source(), told.append, Comparison(4, SIZE, times=0))
    assert [text for text in told if text.endswith("4 users")] == [
        "asking the reference as 4 users", "asking the reference again as 4 users", "asking the server as 4 users",
    ]  # fmt: skip
    return {finding.check: finding for finding in found.findings}


@pytest.fixture(scope="module")
def other(launch: Simulate) -> Sim:
    return launch(speed="20")


def test_servers_of_one_model_agree(launch: Simulate, other: Sim) -> None:
    found = compare(launch("--speculative-algorithm", "NEXTN", speed="20"), other)
    assert {name: finding.status for name, finding in found.items()} == {
        "generation": Status.OK,
        "answers": Status.OK,
        "answers-in-company": Status.OK,
    }


def test_a_fault_in_company_is_found_with_an_example(launch: Simulate, other: Sim) -> None:
    found = compare(launch(speed="20", faults="garbage-when-concurrent"), other)
    assert found["answers"].status is Status.VIOLATED
    assert found["answers"].seen.startswith("4 users: 16 of 16 are garbage")
    assert "for example" in found["answers"].seen
