from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Service
from spectune.domain.errors import InputError
from spectune.domain.knobs import Settings
from spectune.engines.llamacpp.command import baseline, launch

SERVICE = Service(
    "llama.cpp", "/opt/llama-server", "/models/m.gguf", {"c": 4096, "np": 2}, {}, "127.0.0.1", 8081, "m", 30.0
)
DRAFT = "/models/d.gguf"


def service(args: Settings, env: Mapping[str, str] | None = None) -> Service:
    return replace(SERVICE, args=args, env=env or {})


def line(args: Settings, candidate: Candidate | None = None) -> str:
    """The launch's own part of the command line: what follows the alias."""
    argv = launch(service(args), candidate or Candidate()).argv
    return " ".join(argv[argv.index("--alias") + 2 :])


def test_the_whole_launch() -> None:
    made = launch(SERVICE, Candidate(Speculation(Method.DRAFT, 3, draft_model=DRAFT), {"threads": 6}))
    assert " ".join(made.argv) == (
        "/opt/llama-server --model /models/m.gguf --host 127.0.0.1 --port 8081 --alias m "
        "--ctx-size 4096 --parallel 2 --no-kv-unified --threads 6 --fit off "
        "--spec-type draft-simple --spec-draft-model /models/d.gguf --spec-draft-n-max 3 "
        "--metrics --slots --no-webui -lv 4"
    )
    assert made.env == {"OMP_WAIT_POLICY": "PASSIVE"}
    assert made.url == "http://127.0.0.1:8081"
    assert made.ready_path == "/health"
    assert made.probe_paths == ("/v1/models", "/props", "/slots", "/metrics")
    assert made.counters_path == "/metrics"
    assert (made.model_id, made.ready_timeout_s) == ("m", 30.0)


@pytest.mark.parametrize(
    ("speculation", "expected"),
    [
        (Speculation(Method.NGRAM, 8), "ngram-simple --spec-ngram-simple-size-m 8 --spec-ngram-simple-size-n 4"),
        (Speculation(Method.NGRAM, 2), "ngram-simple --spec-ngram-simple-size-m 2 --spec-ngram-simple-size-n 2"),
        (
            Speculation(Method.NGRAM, 8, settings={"spec-ngram-simple-size-n": 8}),
            "ngram-simple --spec-ngram-simple-size-m 8 --spec-ngram-simple-size-n 8",
        ),
        (
            Speculation(Method.NGRAM_POOL, 4),
            "ngram-mod --spec-ngram-mod-n-max 4 --spec-ngram-mod-n-match 24 --spec-ngram-mod-n-min 1",
        ),
        (Speculation(Method.MTP, 2), "draft-mtp --spec-draft-n-max 2"),
        (
            Speculation(Method.EAGLE3, 2, draft_model=DRAFT, settings={"spec-draft-backend-sampling": False}),
            f"draft-eagle3 --spec-draft-model {DRAFT} --spec-draft-n-max 2 --no-spec-draft-backend-sampling",
        ),
        (
            Speculation(Method.DFLASH, 8, draft_model=DRAFT),
            f"draft-dflash --spec-draft-model {DRAFT} --spec-draft-n-max 8",
        ),
    ],
    ids=lambda value: value.label if isinstance(value, Speculation) else None,
)
def test_methods_are_spelled(speculation: Speculation, expected: str) -> None:
    assert f"--fit off --spec-type {expected} --metrics" in line({"c": 4096}, Candidate(speculation))


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        # llama-server's own automatic slots are four on a shared cache.
        ({}, "--ctx-size 0 --parallel 4 --kv-unified --fit off"),
        ({"np": -1, "c": 1024}, "--parallel 4 --ctx-size 1024 --kv-unified --fit off"),
        ({"np": 2, "c": 1024}, "--parallel 2 --ctx-size 1024 --no-kv-unified --fit off"),
        ({"np": 2, "c": 1024, "kvu": True}, "--parallel 2 --ctx-size 1024 --kv-unified --fit off"),
        # Rounded as llama-server rounds it.
        ({"np": 3, "c": 2000}, "--parallel 3 --ctx-size 2304 --no-kv-unified --fit off"),
        ({"c": 2000}, "--ctx-size 2048 --parallel 4 --kv-unified --fit off"),
        ({"kv-unified-per-slot": 512}, "--kv-unified-per-slot 512 --ctx-size 2048 --parallel 4 --kv-unified --fit off"),
        ({"cache-ram": 0, "c": 256}, "--cache-ram 0 --ctx-size 256 --parallel 4 --kv-unified --no-cache-idle-slots"),
    ],
    ids=str,
)
def test_context_and_slots_are_explicit(args: Settings, expected: str) -> None:
    assert line(args).startswith(expected)


def test_a_candidate_changes_what_it_names_alone() -> None:
    assert "--parallel 8 --kv-unified" in line({"c": 4096}, Candidate(knobs={"parallel": 8}))
    assert "--threads 4" in line({"t": 2}, Candidate(knobs={"threads": 4}))
    assert "--threads 2" not in line({"t": 2}, Candidate(knobs={"threads": 4}))


def test_settings_of_speculation_may_be_knobs() -> None:
    candidate = Candidate(Speculation(Method.DRAFT, 3, draft_model=DRAFT), {"spec-draft-p-min": 0.5})
    assert "--spec-draft-p-min 0.5" in line({}, candidate)


def test_what_the_server_shows_is_not_the_services_to_say() -> None:
    shown = {"no-slots": True, "lv": 0, "log-disable": True, "no-webui": True, "fit": False}
    assert line({"c": 4096, **shown}) == line({"c": 4096})


def test_the_services_environment_wins() -> None:
    assert launch(service({}, {"OMP_WAIT_POLICY": "ACTIVE", "A": "1"}), Candidate()).env == {
        "OMP_WAIT_POLICY": "ACTIVE",
        "A": "1",
    }


@pytest.mark.parametrize(
    ("depth", "expected"), [(2, "--spec-synth-rates 0.9,0.7 "), (3, "--spec-synth-rates 0.9,0.7,0.5 ")]
)
def test_simulated_rates_are_cut_to_the_depth(depth: int, expected: str) -> None:
    args = {"spec-synth-rates": "0.9,0.7,0.5"}
    candidate = Candidate(Speculation(Method.DRAFT, depth, draft_model=DRAFT))
    assert expected in line(args, candidate)
    assert "synth" not in line(args)


@pytest.mark.parametrize(
    ("args", "speculation"),
    [
        ({"spec-type": "none"}, Speculation()),
        ({"spec-type": "none,ngram-mod"}, Speculation()),
        ({"spec-type": "draft-simple", "md": DRAFT}, Speculation(Method.DRAFT, 3, draft_model=DRAFT)),
        (
            {"spec-type": "draft-simple", "model-draft": DRAFT, "spec-draft-n-max": 8, "draft-p-min": 0.5},
            Speculation(Method.DRAFT, 8, draft_model=DRAFT, settings={"spec-draft-p-min": 0.5}),
        ),
        (
            {"spec-type": "ngram-simple"},
            Speculation(Method.NGRAM, 48, settings={"spec-ngram-simple-size-n": 12}),
        ),
        (
            {"spec-type": "ngram-simple", "spec-ngram-simple-size-m": 8, "spec-ngram-simple-size-n": 4},
            Speculation(Method.NGRAM, 8, settings={"spec-ngram-simple-size-n": 4}),
        ),
        (
            {"spec-type": "ngram-mod", "spec-ngram-mod-n-max": 50},
            Speculation(Method.NGRAM_POOL, 50, settings={"spec-ngram-mod-n-match": 24, "spec-ngram-mod-n-min": 48}),
        ),
        (
            {"spec-default": True},
            Speculation(Method.NGRAM_POOL, 64, settings={"spec-ngram-mod-n-match": 24, "spec-ngram-mod-n-min": 48}),
        ),
        ({"spec-type": "draft-mtp"}, Speculation(Method.MTP, 3)),
    ],
    ids=str,
)
def test_the_services_speculation_is_recognised(args: Settings, speculation: Speculation) -> None:
    found = baseline(service(args))
    assert found == Candidate(speculation)
    # Launching what was recognised is the same as launching it without those args.
    assert launch(service(args), found).argv == launch(service({}), found).argv


REFUSED_SERVICES: tuple[tuple[Settings, str], ...] = (
    ({"md": DRAFT}, "would be silently ignored"),
    ({"md": DRAFT, "spec-type": "none"}, "would be silently ignored"),
    ({"md": DRAFT, "spec-type": "ngram-simple"}, "takes no draft model"),
    ({"spec-type": "draft-simple"}, "needs a draft model"),
    ({"spec-type": "ngram-simple,draft-simple", "md": DRAFT}, "several types (ngram-simple, draft-simple)"),
    ({"spec-type": "ngram-simple", "spec-default": True}, "several types"),
    ({"spec-default": True, "spec-ngram-mod-n-max": 8}, "contradict"),
    ({"spec-type": "ngram-map-k"}, "does not tune the type 'ngram-map-k'"),
    ({"spec-type": "ngram"}, "no speculation type 'ngram'"),
    ({"spec-draft-n-max": 4}, "'spec-draft-n-max' would be silently ignored"),
    ({"spec-type": "ngram-simple", "spec-draft-n-max": 4}, "'spec-draft-n-max' has no effect with ngram-simple"),
    ({"spec-type": "ngram-mod", "spec-ngram-simple-size-n": 4}, "has no effect with ngram-mod"),
    ({"spec-type": "draft-simple", "md": DRAFT, "draft-p-split": 0.2}, "'spec-draft-p-split' has no effect"),
    ({"spec-type": "ngram-simple", "spec-ngram-simple-size-m": 4}, "never drafts"),
    ({"spec-type": "ngram-mod", "spec-ngram-mod-n-max": 16}, "depth 16 never drafts"),
    ({"hfd": "user/model"}, "downloads a draft model"),
    ({"port": 9000}, "'port' is not set here"),
    ({"m": "/other.gguf"}, "'model' is not set here"),
    ({"hf": "user/model"}, "another model"),
    ({"version": True}, "does not serve"),
    ({"gpt-oss-20b-default": True}, "at once"),
    ({"fit": True}, "fit on"),
    ({"alias": "other"}, "would not answer to the model id 'm'"),
    ({"np": 0}, "'parallel' must be at least 1"),
    ({"ctk": "q8_0", "ctv": "q8_0", "fa": "off"}, "needs flash attention"),
    ({"draft-max": 4}, "has removed"),
)


@pytest.mark.parametrize(("args", "message"), REFUSED_SERVICES, ids=str)
def test_services_that_contradict_themselves_are_refused(args: Settings, message: str) -> None:
    with pytest.raises(InputError) as refused:
        baseline(service(args))
    assert message in refused.value.message


def test_flags_hidden_in_the_environment_are_refused() -> None:
    with pytest.raises(InputError, match=r"LLAMA_ARG_SPEC_TYPE sets 'spec-type'") as refused:
        baseline(service({}, {"LLAMA_ARG_SPEC_TYPE": "ngram-simple"}))
    assert "service.args" in refused.value.advice


def test_an_alias_that_includes_the_model_id_is_kept() -> None:
    argv = launch(service({"a": "n,m"}), Candidate()).argv
    assert argv[argv.index("--alias") + 1] == "n,m"
    assert argv.count("--alias") == 1


N = Method.NGRAM
REFUSED_CANDIDATES: tuple[tuple[Candidate, str], ...] = (
    (Candidate(Speculation(Method.DRAFT, 3)), "needs a draft model"),
    (Candidate(Speculation(N, 3, draft_model=DRAFT)), "takes no draft model"),
    (Candidate(Speculation(Method.NONE, draft_model=DRAFT)), "no depth and no draft model"),
    (Candidate(Speculation(Method.SUFFIX, 3)), "no speculation method 'suffix'"),
    (Candidate(Speculation(Method.EAGLE, 3, draft_model=DRAFT)), "no speculation method 'eagle'"),
    (Candidate(Speculation(N, 1025)), "1 to 1024, got 1025"),
    (Candidate(Speculation(N, 4, topk=2)), "topk must be 1"),
    (Candidate(Speculation(N, 4, settings={"spec-ngram-simple-size-n": 8})), "never drafts"),
    (Candidate(Speculation(N, 4, settings={"spec-ngram-simple-size-m": 8})), "set by the speculation's method"),
    (Candidate(Speculation(N, 4, settings={"spec-draft-n-max": 8})), "no effect with ngram-simple"),
    (Candidate(Speculation(N, 4, settings={"spec-ngram-simple-min-hits": 2})), "never reads it"),
    (Candidate(Speculation(N, 4), {"spec-draft-p-min": 0.5}), "no effect with ngram-simple"),
    (Candidate(knobs={"spec-draft-p-min": 0.5}), "silently ignored"),
    (Candidate(Speculation(Method.NGRAM_POOL, 4, settings={"spec-ngram-mod-n-min": 5})), "never drafts"),
    (Candidate(Speculation(Method.DRAFT, 3, draft_model=DRAFT, settings={"spec-draft-n-min": 4})), "never drafts"),
    (
        Candidate(Speculation(Method.DRAFT, 3, draft_model=DRAFT, settings={"spec-synth-rates": "0.5,0.5"})),
        "names 2 positions, depth 3",
    ),
    (Candidate(Speculation(Method.DRAFT, 3, draft_model=DRAFT, settings={"spec-synth-len": 4.5})), "depth + 1 = 4"),
    (Candidate(knobs={"port": 1}), "not a knob to tune"),
    (Candidate(knobs={"verbosity": 1}), "not a knob to tune"),
    (Candidate(knobs={"spec-default": True}), "not a knob to tune"),
    (Candidate(knobs={"t": 2}), "'t' is called 'threads'"),
    (Candidate(knobs={"threads": -1}), "leaves the number"),
    (Candidate(knobs={"ctx-size": 2000}), "would round 'ctx-size' 2000 to 2048"),
    (Candidate(Speculation(N, 600), {"ctx-size": 1024}), "leaves 512 tokens for each of 2 slots"),
    (Candidate(knobs={"batch-size": 8192}), "would be cut to the context, 4096"),
    (Candidate(knobs={"ubatch-size": 4096}), "would be cut to batch-size, 2048"),
)


@pytest.mark.parametrize(("candidate", "message"), REFUSED_CANDIDATES, ids=[c.label for c, _ in REFUSED_CANDIDATES])
def test_candidates_that_cannot_work_are_refused(candidate: Candidate, message: str) -> None:
    with pytest.raises(InputError) as refused:
        launch(SERVICE, candidate)
    assert message in refused.value.message


def test_a_port_that_is_still_to_be_chosen_is_refused() -> None:
    with pytest.raises(InputError, match=r"service\.port"):
        launch(replace(SERVICE, port=0), Candidate())


def test_a_schedule_is_refused() -> None:
    candidate = Candidate(Speculation(Method.DRAFT, 3, draft_model="/d.gguf", schedule=((1, 3), (4, 1))))
    with pytest.raises(InputError, match="same depth at every load"):
        launch(Service("llama.cpp", "/bin/s", "/m.gguf", {}, {}, "127.0.0.1", 8080, "m"), candidate)
