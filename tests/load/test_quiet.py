from __future__ import annotations

import gc
import resource
import subprocess
import sys

import pytest

from spectune.load.quiet import connections_allowed, rare_collections, until_done


class Unprintable:
    def __repr__(self) -> str:
        raise AssertionError("a measurement of thousands of requests was printed")


def test_a_result_is_not_printed_by_the_event_loop() -> None:
    async def work() -> Unprintable:
        return Unprintable()

    assert isinstance(until_done(work()), Unprintable)


def test_collections_are_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_freeze_count() > 1000
        assert gc.get_threshold() > before
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_garbage_is_still_collected_meanwhile() -> None:
    with rare_collections():
        before = gc.get_stats()[0]["collections"]
        for _ in range(100_000):
            cycle: list[object] = []
            cycle.append(cycle)
        assert gc.get_stats()[0]["collections"] > before


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "allowed"),
    [(256, 4096, 100, 100), (256, 4096, 1000, 1000), (256, 512, 4096, 448), (1024, 1024, 5000, 960)],
)
def test_the_limit_of_open_files_is_raised_as_far_as_it_goes(soft: int, hard: int, wanted: int, allowed: int) -> None:
    program = (
        "import resource; from spectune.load.quiet import connections_allowed;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}));"
        f"print(connections_allowed({wanted}), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert int(said[0]) == allowed
    assert allowed < int(said[1]) <= hard


def test_a_limit_that_is_high_enough_is_left_alone() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connections_allowed(1) == 1
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
