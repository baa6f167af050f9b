from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.sim import library
from spectune.sim.model import DOMAINS, Draft, Profile, Speeds

HAND_RUN = Speeds(library.load("hand-run"))
profiles = st.integers(0, 10_000).map(lambda seed: library.random_profile(random.Random(seed)))
depths = st.integers(0, 9)
batches = st.integers(1, 300)


@pytest.mark.parametrize(("depth", "speed"), [(1, 123), (2, 186), (3, 234)])
def test_published_speed_of_one_user(depth: int, speed: float) -> None:
    assert HAND_RUN.steady(1, depth, looping=True).per_user == pytest.approx(speed, rel=0.01)


@pytest.mark.parametrize(("depth", "speed", "running"), [(1, 1582, 26), (2, 1844, 21)])
def test_published_speed_of_64_users(depth: int, speed: float, running: int) -> None:
    steady = HAND_RUN.steady(64, depth, looping=True)
    assert steady.aggregate == pytest.approx(speed, rel=0.01)
    assert steady.running == running


@pytest.mark.parametrize(("draft_tokens", "requests", "kv"), [(2, 26, 455_357), (3, 21, 377_207), (4, 17, None)])
def test_published_capacity(draft_tokens: int, requests: int, kv: int | None) -> None:
    assert HAND_RUN.profile.requests.at(draft_tokens) == requests
    if kv is not None:
        assert HAND_RUN.profile.kv_tokens.at(draft_tokens) == kv


def best(name: str, level: int) -> int:
    speeds = Speeds(library.load(name))
    return max(range(8), key=lambda depth: speeds.steady(level, depth).aggregate)


@pytest.mark.parametrize(
    ("name", "level", "depth"),
    [
        ("dense-8b-eagle3", 1, 4),
        ("dense-8b-eagle3", 64, 0),
        ("dead-head", 1, 0),
        ("dead-head", 64, 0),
        ("sharp-optimum", 1, 2),
        ("sharp-optimum", 32, 2),
        ("capacity-cliff", 64, 2),
    ],
)
def test_best_depth_of_packaged_profiles(name: str, level: int, depth: int) -> None:
    assert best(name, level) == depth


def test_the_cliff_is_no_cliff_for_one_user() -> None:
    assert best("capacity-cliff", 1) > 2


@pytest.mark.parametrize("name", library.names())
def test_packaged_profiles_read_back_and_say_what_is_invented(name: str) -> None:
    profile = library.load(name)
    assert profile.name == name
    assert profile.invented
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


@given(profiles)
def test_profiles_survive_json(profile: Profile) -> None:
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


@given(profiles, depths, batches, batches, st.integers(0, 1_000_000))
def test_steps_take_longer_with_more_to_do(profile: Profile, depth: int, few: int, more: int, context: int) -> None:
    speeds = Speeds(profile)
    few, more = sorted((few, more))
    step = speeds.step_seconds(few, depth, context)
    assert 0 < step <= speeds.step_seconds(more, depth, context)
    assert step <= speeds.step_seconds(few, depth + 1, context)
    assert step <= speeds.step_seconds(few, depth, context + 1000)
    assert step <= speeds.step_seconds(few, depth, context, graph=False)


@given(profiles, depths, st.sampled_from(DOMAINS), st.floats(0.0, 2.0))
def test_tokens_of_a_step_are_bounded_and_grow_with_depth(
    profile: Profile, depth: int, domain: str, temperature: float
) -> None:
    speeds = Speeds(profile)
    tokens = speeds.tokens_per_step(depth, domain, temperature)
    assert 1.0 <= tokens <= depth + 1
    assert tokens <= speeds.tokens_per_step(depth + 1, domain, temperature)
    assert speeds.tokens_per_step(depth, domain, temperature + 0.5) <= tokens
    assert tokens <= speeds.tokens_per_step(Draft(depth, topk=4), domain, temperature) + 1e-12


@given(profiles, depths, batches)
def test_capacity_falls_with_depth_and_bounds_what_runs(profile: Profile, depth: int, level: int) -> None:
    assert profile.kv_tokens.at(depth) >= profile.kv_tokens.at(depth + 1) >= 0
    steady = Speeds(profile).steady(level, depth, limit=10)
    assert 1 <= steady.running <= min(10, level)
    assert steady.aggregate == pytest.approx(steady.per_user * steady.running)


def test_one_acceptance_for_all_positions_gives_the_closed_form() -> None:
    p, k = 0.7, 5
    profile = replace(HAND_RUN.profile, acceptance=dict.fromkeys(DOMAINS, (p,) * k))
    assert Speeds(profile).tokens_per_step(k) == pytest.approx((1 - p ** (k + 1)) / (1 - p))


def test_samples_have_the_expected_mean() -> None:
    rng = random.Random(3)
    chances = HAND_RUN.acceptance(3, "chat", 0.5)
    drawn = [HAND_RUN.sample_accepted(rng, chances) for _ in range(20_000)]
    assert 1 + sum(drawn) / len(drawn) == pytest.approx(HAND_RUN.tokens_per_step(3, "chat", 0.5), rel=0.02)
    assert min(drawn) == 0
    assert max(drawn) == 3


def test_random_profiles_differ_in_what_is_best() -> None:
    found = set()
    for seed in range(60):
        speeds = Speeds(library.random_profile(random.Random(seed)))
        found.add(tuple(max(range(8), key=lambda k: speeds.steady(n, k).aggregate) for n in (1, 64)))
    assert len({alone for alone, _ in found}) >= 4
    assert any(alone > 0 and crowd == 0 for alone, crowd in found)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"nonsense": 1}, "nonsense"),
        ({"acceptance": {"chat": [0.5]}}, "code"),
        ({"acceptance": {domain: [1.5] for domain in DOMAINS}}, "chat"),
        ({"overhead_s": -1.0}, "overhead_s"),
        ({"requests": {"pool": 1}}, "base"),
        ({"published_depths": 3}, "profile"),
    ],
)
def test_wrong_profiles_are_refused_by_name(change: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Profile.from_json({**HAND_RUN.profile.to_json(), **change})


@pytest.mark.parametrize("text", [None, "no json", "[1]", "{}"])
def test_wrong_profile_files_are_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "p.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError):
        library.load(str(path))


def test_a_profile_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(replace(HAND_RUN.profile, name="mine").to_json()))
    assert library.load(str(path)).name == "mine"
