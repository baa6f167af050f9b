"""The scheduler in simulated time, where it can be held to its model exactly."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable

import pytest

from spectune.sim.model import Draft, Speeds
from spectune.sim.sglang import answers, capacity, environment, flags, resolve
from spectune.sim.sglang.depths import Depths
from spectune.sim.sglang.job import Job, Wanted
from spectune.sim.sglang.log import Log
from spectune.sim.sglang.scheduler import Scheduler, SchedulerOptions


class Bench:
    """A scheduler whose sleeps take no time but on its own clock."""

    def __init__(self, command: str, late: float = 0.0, **settings: str) -> None:
        self.environment = environment.read(
            {"SPECTUNE_SIM_SEED": "5", **{f"SPECTUNE_SIM_{name.upper()}": value for name, value in settings.items()}}
        )
        profile, faults = self.environment.profile, self.environment.faults
        args, _ = flags.parse(["--model-path", "m", *command.split()])
        resolution = resolve.resolve(args, profile, faults)
        self.stream = io.StringIO()
        log = Log(1, self.stream)
        self.speeds = Speeds(profile)
        self.fit = capacity.fit(resolution, profile, faults)
        depths = Depths(resolution.draft, resolution.adaptive, self.speeds, faults, log.scheduler)
        self._now, self._late = 0.0, late
        self.scheduler = Scheduler(
            self.environment, depths, self.fit, log, SchedulerOptions(40), self._die, lambda: self._now, self._sleep
        )

    def _die(self, reason: str) -> None:
        raise AssertionError(reason)

    async def _sleep(self, seconds: float) -> None:
        self._now += max(0.0, seconds) + self._late
        await asyncio.sleep(0)

    def wanted(self, number: int, limit: int, prompt: int = 16) -> Wanted:
        said = answers.answer(str(number), "chat", 0.0, None, None)
        return Wanted([f"{number}"] * prompt, said, "chat", 0.0, True, limit, None)

    def closed_loop(self, users: int, seconds: float, limit: int = 2000) -> tuple[float, list[Job]]:
        """Aggregate speed of users who ask again and again, and all that they asked; one second to settle."""
        jobs: list[Job] = []

        def tokens() -> int:
            return sum(len(job.pieces) for job in jobs)

        async def user() -> None:
            while True:
                job = self.scheduler.submit(self.wanted(len(jobs), limit))
                jobs.append(job)
                while job.reason is None:
                    await job.wake.wait()
                    job.wake.clear()

        async def drive() -> float:
            tasks = [asyncio.create_task(self.scheduler.run()), *(asyncio.create_task(user()) for _ in range(users))]
            await self._until(lambda: self._now >= 1.0)
            began, before = self._now, tokens()
            await self._until(lambda: self._now >= began + seconds)
            speed = (tokens() - before) / (self._now - began)
            for task in tasks:
                task.cancel()
            return speed

        return asyncio.run(drive()), jobs

    @staticmethod
    async def _until(true: Callable[[], bool]) -> None:
        while not true():
            await asyncio.sleep(0)


def flags_of(depth: int) -> str:
    return (
        f"--speculative-algorithm NEXTN --speculative-eagle-topk 1 --speculative-num-steps {depth} "
        f"--speculative-num-draft-tokens {depth + 1} --max-running-requests 64"
    )


@pytest.mark.parametrize("late", [0.0, 0.003])
@pytest.mark.parametrize(
    ("depth", "users", "published"), [(1, 1, 123), (2, 1, 186), (3, 1, 234), (1, 64, 1582), (2, 64, 1844)]
)
def test_published_speeds(depth: int, users: int, published: float, late: float) -> None:
    """Also where every wake-up is late: deadlines are absolute."""
    speed, _ = Bench(flags_of(depth), late).closed_loop(users, 20.0 if users == 1 else 6.0)
    assert speed == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize("users", [4, 16])
def test_levels_between_follow_the_model(users: int) -> None:
    bench = Bench(flags_of(2))
    speed, _ = bench.closed_loop(users, 8.0)
    assert speed == pytest.approx(bench.speeds.steady(users, 2, looping=True).aggregate, rel=0.02)


def test_what_a_slow_machine_loses_is_told() -> None:
    slow = Bench(flags_of(2), late=0.05)
    slow.closed_loop(1, 2.0)
    assert slow.scheduler.lost_s > 0.5
    fast = Bench(flags_of(2), late=0.005)
    fast.closed_loop(1, 2.0)
    assert fast.scheduler.lost_s == 0.0
    assert fast.scheduler.worst_lag_s == pytest.approx(0.005, abs=0.001)


def test_no_more_run_than_fit() -> None:
    bench = Bench(flags_of(3))
    bench.closed_loop(40, 0.5)
    assert len(bench.scheduler.running) == 17
    assert len(bench.scheduler.waiting) == 23


def test_a_full_cache_retracts_and_loses_nothing() -> None:
    bench = Bench(flags_of(2) + " --max-total-tokens 900")
    _, jobs = bench.closed_loop(8, 20.0, limit=150)
    assert "KV cache pool is full. Retract requests." in bench.stream.getvalue()
    ended = [job for job in jobs if job.reason is not None]
    assert any(job.retracted for job in ended)
    for job in ended:
        assert job.pieces == [job.wanted.answer.piece(index) for index in range(150)]


def test_ngram_and_trees_run() -> None:
    ngram = Bench("--speculative-algorithm NGRAM --speculative-num-draft-tokens 8", profile="dense-8b-eagle3")
    tree = Bench("--speculative-algorithm EAGLE3", profile="dense-8b-eagle3")
    for bench, draft in ((ngram, Draft(7, 1, 8, ngram=True)), (tree, Draft(5, 4, 8))):
        speed, _ = bench.closed_loop(1, 30.0, limit=500)
        assert speed == pytest.approx(bench.speeds.steady(1, draft, looping=True).per_user, rel=0.05)
