"""Sound trials on several models, seeds and levels: whatever alarms there is a false alarm."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

from bench.faults.cases import EAGLE, MTP
from bench.faults.lab import Lab, Report, Trial
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.workload import Cell, Level, Sampling

MACHINE = frozenset({"client-late", "client-busy"})
"""Doubts about the machine that the benchmark itself runs on, whose cores the servers share; none of the trial."""

_TRIALS: tuple[tuple[str, Candidate], ...] = (
    ("hand-run", MTP),
    ("dense-8b-eagle3", EAGLE),
    ("hand-run", Candidate(Speculation(Method.MTP, 1))),
    ("sharp-optimum", Candidate(Speculation(Method.MTP, 2))),
    ("dense-8b-eagle3", Candidate()),
)


def healthy(lab: Lab, number: int) -> Iterator[Report]:
    for seed, users, (profile, candidate) in islice(product((1, 2, 3), (1, 4), _TRIALS), number):
        trial = Trial(candidate, seed=seed, cells=(Cell(Level(users), Sampling(0.7)),))
        report = lab.run(lab.simulated(profile), trial)
        alarms = ", ".join(f"{name}: {report.said[name]}" for name in sorted(report.alarms - MACHINE)) or "no alarm"
        print(f"... healthy {profile}, {candidate.label}, {users} users, seed {seed}: {alarms}", flush=True)
        yield report
