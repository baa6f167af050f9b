from __future__ import annotations

import json

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Service
from spectune.domain.errors import InputError
from spectune.domain.knobs import Settings
from spectune.engines.vllm import VLLM

MID, NEW = VLLM(version="0.32.0"), VLLM(version="0.33.0")
DRAFT = "/models/d"
SCHEDULE = "num_speculative_tokens_per_batch_size"


def service(args: Settings) -> Service:
    return Service("vllm", "/opt/bin/python", "/models/q", args, {}, "127.0.0.1", 8000, "/models/q")


def config(speculation: Speculation, engine: VLLM = MID, args: Settings | None = None) -> dict[str, object]:
    """The configuration of speculation on the command line."""
    argv = engine.launch(service(args or {}), Candidate(speculation)).argv
    loaded: dict[str, object] = json.loads(argv[argv.index("--speculative-config") + 1])
    return loaded


REFUSED: tuple[tuple[VLLM, Speculation, Settings, str], ...] = (
    (MID, Speculation(Method.NGRAM_POOL, 3), {}, "vLLM has no method 'ngram-pool'"),
    (MID, Speculation(Method.NGRAM, 0), {}, "depth k of ngram must be at least 1"),
    (MID, Speculation(Method.NONE, 1), {}, "without a method there is no depth"),
    (MID, Speculation(settings={"prompt_lookup_max": 3}), {}, "silently ignored without a speculation method"),
    (MID, Speculation(Method.EAGLE3, 3, 2, DRAFT), {}, "topk must be 1, got 2"),
    (MID, Speculation(Method.DRAFT, 3), {}, "needs a draft model"),
    (MID, Speculation(Method.SUFFIX, 3, draft_model=DRAFT), {}, "takes no draft model"),
    (MID, Speculation(Method.MTP, 3, settings={"prompt_lookup_max": 3}), {}, "has no effect with mtp"),
    (MID, Speculation(Method.MTP, 3, settings={"speculative-config.method": "ngram"}), {}, "has no effect with mtp"),
    (MID, Speculation(Method.NGRAM, 3, settings={"fly_window_size": 2}), {}, "vLLM 0.32.0 has no 'fly_window_size'"),
    (MID, Speculation(Method.NGRAM, 3, settings={"rejection_sample_method": "fly"}), {}, "new in 0.33"),
    (NEW, Speculation(Method.NGRAM, 1, settings={"rejection_sample_method": "fly"}), {}, "depth of at least 2"),
    (NEW, Speculation(Method.NGRAM, 3, settings={"fly_window_size": 2}), {}, "have no effect with"),
    (MID, Speculation(Method.NGRAM, 3, settings={"synthetic_acceptance_length": 2}), {}, "has no effect with"),
    (MID, Speculation(Method.NGRAM, 3, settings={"rejection_sample_method": "synthetic"}), {}, "exactly one of"),
    (MID, Speculation(Method.NGRAM, 3, settings={SCHEDULE: "[[2, 4, 3]]"}), {}, "must begin at 1"),
    (MID, Speculation(Method.NGRAM, 3, settings={SCHEDULE: "[[1, 4, 4]]"}), {}, "asks for depth 4, which vLLM cuts"),
    (
        MID,
        Speculation(Method.NGRAM, 3, settings={SCHEDULE: "[[1, 4, 3]]"}),
        {"data-parallel-size": 2},
        "dropped with data-parallel-size",
    ),
    (
        MID,
        Speculation(Method.DRAFT, 3, draft_model=DRAFT, settings={"draft_tensor_parallel_size": 2}),
        {"tensor-parallel-size": 4},
        "must be 1 or the target's 4, got 2",
    ),
    (MID, Speculation(Method.NGRAM, 3), {"logits-processors": "a.b"}, "does not work with speculation"),
    (
        MID,
        Speculation(Method.NGRAM, 3),
        {"override-generation-config": '{"min_p": 0.1}'},
        "vLLM refuses every request",
    ),
    (MID, Speculation(Method.NGRAM, 3), {"async-scheduling": True}, "does not work with ngram"),
    (
        MID,
        Speculation(Method.MTP, 3, settings={"disable_padded_drafter_batch": True}),
        {"async-scheduling": True},
        "disable_padded_drafter_batch",
    ),
)


@pytest.mark.parametrize(("engine", "speculation", "args", "message"), REFUSED, ids=[row[3] for row in REFUSED])
def test_refused_before_launch(engine: VLLM, speculation: Speculation, args: Settings, message: str) -> None:
    with pytest.raises(InputError) as refused:
        engine.launch(service(args), Candidate(speculation))
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ("[0.9, 0.5]", "list of 3 numbers"),
        ("0.5", "list of 3 numbers"),
        ('[0.9, "x", 0.1]', "list of 3 numbers"),
        ("[1.1, 0.5, 0.1]", "between 0 and 1"),
        ("[0.5, 0.9, 0.1]", "must not rise"),
    ],
)
def test_rates_of_simulated_acceptance(rates: str, message: str) -> None:
    settings: Settings = {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates}
    with pytest.raises(InputError, match=message):
        config(Speculation(Method.NGRAM, 3, settings=settings))


@pytest.mark.parametrize("length", [4.5, 4.01])
def test_length_of_simulated_acceptance(length: float) -> None:
    settings: Settings = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": length}
    with pytest.raises(InputError, match=f"must be 1 to 4 at depth 3, got {length}"):
        config(Speculation(Method.NGRAM, 3, settings=settings))
    assert config(Speculation(Method.NGRAM, 4, settings=settings))


def test_what_is_allowed_where_others_are_not() -> None:
    fly: Settings = {"rejection_sample_method": "fly", "fly_window_size": 2}
    assert config(Speculation(Method.NGRAM, 2, settings=fly), NEW)["rejection_sample_method"] == "fly"
    assert config(Speculation(Method.NGRAM, 2), NEW, {"async-scheduling": True})["method"] == "ngram"
    assert config(Speculation(Method.MTP, 2), MID, {"async-scheduling": True})["method"] == "mtp"
    assert config(Speculation(Method.NGRAM, 2), MID, {"override-generation-config": '{"top_p": 1}'})
