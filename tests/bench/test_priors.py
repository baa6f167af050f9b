"""What an earlier campaign saves is counted right."""

from __future__ import annotations

from bench.search.priors import KINDS, Found, Job, launches, play, regret, searched, table
from bench.search.surfaces import random_surfaces


def test_only_the_prior_differs_between_the_three_ends() -> None:
    job = Job(surfaces=4, place=1, seed=5, noise=0.02)
    ends = play(job)
    assert tuple(ends) == KINDS
    surface = random_surfaces(4)[1]
    alone = searched(surface, 5, noise=0.02)
    assert ends["none"] == Found(launches(alone), regret(surface, alone))
    assert ends["true"].launches < ends["none"].launches
    assert play(job) == ends


def test_a_line_tells_launches_and_regret_of_its_kind() -> None:
    played = [
        {"none": Found(2, 0.0), "true": Found(1, 0.01), "misleading": Found(4, 0.0)},
        {"none": Found(3, 0.0), "true": Found(1, 0.03), "misleading": Found(2, 0.005)},
        {"none": Found(2, 0.006), "true": Found(2, 0.0), "misleading": Found(2, 0.0)},
    ]
    assert list(table(played))[2:] == [
        "| none | 3 | 2.33 | 2 | 3 | 0.20 % | 0.6 % |",
        "| true | 3 | 1.33 | 1 | 2 | 1.33 % | 3.0 % |",
        "| misleading | 3 | 2.67 | 2 | 4 | 0.17 % | 0.5 % |",
    ]
