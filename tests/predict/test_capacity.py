from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.deployment import Capacity
from spectune.domain.spec import ConstraintSpec
from spectune.predict.calibration import Calibration, Unfit, calibrated
from spectune.predict.capacity import (
    DraftStates,
    Setup,
    cost,
    element_bytes,
    kv_bytes_per_token,
    predicted,
    prune,
    request_bytes,
    slotted,
    state_bytes,
    users_that_fit,
)
from spectune.predict.model_config import ModelShape, from_hugging_face
from tests.predict.models import DEEPSEEK_V3, GEMMA2, SMOLLM2, qwen35_moe

GIB = 1 << 30
SMOL, HYBRID = from_hugging_face(SMOLLM2), from_hugging_face(qwen35_moe(48))
LATENT, SLIDING = from_hugging_face(DEEPSEEK_V3), from_hugging_face(GEMMA2)


@pytest.mark.parametrize(
    ("shape", "kv_bytes", "gpus", "expected"),
    [
        (SMOL, 2.0, 1, 30 * 3 * 128 * 2),
        (SMOL, 1.0, 1, 30 * 3 * 128),
        (SMOL, 34 / 32, 1, 30 * 3 * 128 * 34 / 32),
        (SMOL, 2.0, 3, 30 * 128 * 2),
        (SMOL, 2.0, 2, 30 * 2 * 128 * 2),  # three heads on two GPUs: the fuller one counts
        (HYBRID, 2.0, 4, 12 * 512 * 2),  # two heads on four GPUs: a copy each
        (LATENT, 2.0, 8, 61 * 576 * 2),  # no head to split: whole on every GPU
        (SLIDING, 2.0, 1, 13 * 4 * 512 * 2),
        (ModelShape("never_seen"), 2.0, 1, None),
    ],
)
def test_kv_bytes_a_token(shape: ModelShape, kv_bytes: float, gpus: int, expected: float | None) -> None:
    assert kv_bytes_per_token(shape, kv_bytes, gpus) == expected


def test_keys_and_values_of_different_types() -> None:
    assert kv_bytes_per_token(SMOL, 34 / 32, value_bytes=18 / 32) == 30 * 3 * 64 * 52 / 32


@pytest.mark.parametrize(
    ("name", "size"), [("bf16", 2.0), ("torch.bfloat16", 2.0), ("FP8_E4M3", 1.0), ("q4_0", 0.5625), ("int3", None)]
)
def test_types_of_kv_caches(name: str, size: float | None) -> None:
    assert element_bytes(name) == size


def test_a_request_keeps_a_window_in_sliding_layers_and_a_state_in_linear_ones() -> None:
    layer = 4 * 512 * 2
    assert request_bytes(SLIDING, 1000) == 26 * 1000 * layer
    assert request_bytes(SLIDING, 10_000) == 13 * layer * (10_000 + 4096)
    state = state_bytes(HYBRID)
    assert state is not None
    assert request_bytes(HYBRID, 1000) == 1000 * 12 * 2 * 512 * 2 + state
    assert request_bytes(replace(HYBRID, state=None), 1000) is None
    assert request_bytes(replace(SLIDING, window=None), 1000) is None


def test_layers_with_a_pool_of_their_own_are_not_guessed() -> None:
    assert predicted(SLIDING, Setup(), GIB) is None
    room = predicted(SLIDING, Setup(one_pool=True), GIB)
    assert room is not None
    assert room.kv_tokens == GIB // (26 * 4 * 512 * 2)


def test_tokens_come_in_blocks() -> None:
    room = predicted(SMOL, Setup(block=100), 23_040 * 250)
    assert room is not None
    assert room.kv_tokens == 200


@pytest.mark.parametrize(
    ("shape", "left"),
    [
        (SMOL, 0),
        (SMOL, -1.0),
        (HYBRID, 100_000_000),
        (ModelShape("never_seen"), GIB),
        (replace(HYBRID, state=None), GIB),
    ],
)
def test_nothing_fits_or_nothing_is_known(shape: ModelShape, left: float) -> None:
    assert predicted(shape, Setup(asked_requests=8), left) is None


@pytest.mark.parametrize("way", DraftStates)
def test_states_of_drafts_cost_requests(way: DraftStates) -> None:
    running: list[int] = []
    for depth in range(5):
        room = predicted(HYBRID, Setup(asked_requests=48, gpus=4, draft_states=way).at_depth(depth), 16 * GIB)
        assert room is not None
        assert room.max_running is not None
        running.append(room.max_running)
    assert running == sorted(running, reverse=True)
    assert running[0] != running[-1]


def test_without_speculation_the_draft_is_gone() -> None:
    setup = Setup(4, draft=SMOL).at_depth(0)
    assert (setup.draft_tokens, setup.draft) == (0, None)


@pytest.mark.parametrize(
    ("unified", "context"),
    [(False, 2048), (True, 8192)],
)
def test_slots_share_a_context_or_split_it(unified: bool, context: int) -> None:
    assert slotted(SMOL, 8192, 4, unified).context_per_request == context


def test_bytes_of_slots_with_windows_are_not_guessed() -> None:
    assert slotted(SLIDING, 8192, 4).kv_bytes is None


@pytest.mark.parametrize(
    ("room", "tokens", "users"),
    [
        (Capacity(kv_tokens=100_000, max_running=26), 32_768, 3),
        (Capacity(kv_tokens=100_000, max_running=26), 100, 26),
        (Capacity(kv_tokens=100_000), 100, 1000),
        (Capacity(kv_tokens=8192, max_running=4, context_per_request=2048), 4096, 0),
        (Capacity(max_running=4), 100, None),
    ],
)
def test_users_that_fit(room: Capacity, tokens: int, users: int | None) -> None:
    assert users_that_fit(room, tokens) == users


def test_a_user_without_tokens_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        users_that_fit(Capacity(kv_tokens=1), 0)


@pytest.mark.parametrize(
    ("before", "after", "tokens", "text"),
    [
        (
            Capacity(kv_tokens=1000, max_running=10),
            Capacity(kv_tokens=790, max_running=5),
            100,
            "-21 % KV, 5 fewer requests at a time, 5 fewer users of 100 tokens",
        ),
        (Capacity(kv_tokens=1024), Capacity(kv_tokens=2048), 1024, "+100 % KV, 1 more users of 1k"),
        (Capacity(max_running=4), Capacity(max_running=4), 1, "as many requests at a time"),
        (Capacity(), Capacity(kv_tokens=1), 1, "not known"),
    ],
)
def test_cost_in_words(before: Capacity, after: Capacity, tokens: int, text: str) -> None:
    assert cost(before, after, tokens) == text


@pytest.mark.parametrize(
    ("constraints", "room", "uncertainty", "reason"),
    [
        (ConstraintSpec(), Capacity(kv_tokens=1, max_running=1), 0.0, None),
        (ConstraintSpec(min_kv_tokens=1000), Capacity(kv_tokens=1000), 0.0, None),
        (
            ConstraintSpec(min_kv_tokens=1000),
            Capacity(kv_tokens=999),
            0.0,
            "would leave room for 999 KV tokens; the campaign demands 1,000",
        ),
        (ConstraintSpec(min_kv_tokens=1000), Capacity(kv_tokens=985), 0.02, None),
        (ConstraintSpec(min_kv_tokens=1000), Capacity(), 0.0, None),
        (
            ConstraintSpec(min_running_requests=20),
            Capacity(kv_tokens=10**6, max_running=17),
            0.02,
            "would leave room for 17 running requests; the campaign demands 20",
        ),
    ],
)
def test_prune(constraints: ConstraintSpec, room: Capacity, uncertainty: float, reason: str | None) -> None:
    assert prune(constraints, room, uncertainty) == reason


@given(
    left=st.floats(2 * GIB, 80 * GIB),
    depth=st.integers(0, 7),
    asked=st.integers(1, 64),
    gpus=st.sampled_from([1, 2, 4, 8]),
    slots=st.sampled_from([1, 3, 4, 5]),
    way=st.sampled_from(list(DraftStates)),
)
def test_figures_are_explained_by_what_made_them(
    left: float, depth: int, asked: int, gpus: int, slots: int, way: DraftStates
) -> None:
    setup = Setup(gpus=gpus, asked_requests=asked, slots_per_request=slots, draft_states=way).at_depth(depth)
    room = predicted(HYBRID, setup, left)
    if room is None:
        return
    found = calibrated(HYBRID, room, setup)
    assert isinstance(found, Calibration)
    slot = state_bytes(HYBRID, gpus)
    assert slot is not None
    assert any(fit.setup.draft_states is way and abs(fit.left - left) <= 2 * slot for fit in found.fits)
    again = found.at_depth(depth)
    assert again is not None
    assert again.room.kv_tokens == room.kv_tokens


def test_both_ways_are_kept_where_the_figures_do_not_tell() -> None:
    measured = Capacity(kv_tokens=11_174_683, max_running=48)
    found = calibrated(from_hugging_face(qwen35_moe(8)), measured, Setup(2, asked_requests=48))
    assert isinstance(found, Calibration)
    assert {fit.setup.draft_states for fit in found.fits} == set(DraftStates)
    forecast = found.at_depth(3)
    assert forecast is not None
    assert forecast.low.kv_tokens is not None
    assert forecast.high.kv_tokens is not None
    assert forecast.low.kv_tokens < measured.kv_tokens < forecast.high.kv_tokens  # type: ignore[operator]


def test_a_draft_model_takes_weights_and_kv() -> None:
    found = calibrated(SMOL, Capacity(kv_tokens=100_000), Setup())
    assert isinstance(found, Calibration)
    half = found.at(Setup(4, draft=SMOL))
    assert half is not None
    assert half.room.kv_tokens == 50_000
    less = found.at(Setup(4, draft=SMOL), loaded=23_040 * 20_000)
    assert less is not None
    assert less.room.kv_tokens == 40_000
    assert found.at(Setup(), loaded=1e12) is None


@pytest.mark.parametrize(
    ("shape", "measured", "words"),
    [
        (SMOL, Capacity(), "did not tell how many KV tokens"),
        (ModelShape("never_seen"), Capacity(kv_tokens=1000), "does not tell the size of a token"),
        (replace(HYBRID, state=None), Capacity(kv_tokens=1000, max_running=1), "size of a state"),
        (HYBRID, Capacity(kv_tokens=1000), "how many requests"),
        (HYBRID, Capacity(kv_tokens=1000, max_running=40), "fit no known way"),
    ],
)
def test_figures_that_explain_nothing(shape: ModelShape, measured: Capacity, words: str) -> None:
    found = calibrated(shape, measured, Setup(2, asked_requests=48))
    assert isinstance(found, Unfit)
    assert words in found.reason
