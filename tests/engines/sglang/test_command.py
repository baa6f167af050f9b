from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Service, Translation
from spectune.domain.errors import InputError
from spectune.domain.knobs import Settings
from spectune.engines.sglang import SGLang
from spectune.engines.sglang.command import simulates

SERVICE = Service("sglang", "/opt/bin/python", "/models/q", {"tp-size": 2}, {}, "127.0.0.1", 30000, "/models/q", 900.0)
A, B = SGLang(version="0.5.15"), SGLang(version="0.5.23")
DRAFT = "/models/d"
TOKENS = "speculative-num-draft-tokens"


def service(args: Settings, env: Mapping[str, str] | None = None) -> Service:
    return replace(SERVICE, args=args, env=env or {})


def line(args: Settings, candidate: Candidate | None = None, engine: SGLang = B) -> str:
    """The launch's own part of the command line: what follows the port."""
    argv = engine.launch(service(args), candidate or Candidate()).argv
    return " ".join(argv[argv.index("--port") + 2 :])


def test_the_whole_launch() -> None:
    made = B.launch(SERVICE, Candidate(Speculation(Method.MTP, 3), {"max-running-requests": 32}))
    assert " ".join(made.argv) == (
        "/opt/bin/python -m sglang.launch_server --model-path /models/q --host 127.0.0.1 --port 30000 "
        "--tp-size 2 --max-running-requests 32 --speculative-algorithm NEXTN --speculative-num-steps 3 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --enable-metrics"
    )
    assert made.env == {}
    assert made.url == "http://127.0.0.1:30000"
    assert made.ready_path == "/health"
    assert made.probe_paths == ("/health", "/v1/models", "/model_info", "/server_info", "/v1/loads", "/metrics")
    assert made.counters_path == "/metrics"
    assert (made.model_id, made.ready_timeout_s) == ("/models/q", 900.0)
    assert {"SGLANG_SIMULATE_*", "SGLANG_TEST_*", "SGLANG_MOE_CONFIG_DIR"} <= set(made.unset)
    assert made.headers == {}


@pytest.mark.parametrize(
    ("binary", "entry", "words"),
    [
        ("/opt/bin/python3", (), ("-m", "sglang.launch_server", "--model-path")),
        ("/opt/bin/sglang", (), ("serve", "--model-path")),
        ("/opt/bin/sglang", ("serve", "--model-type", "llm"), ("serve", "--model-type", "llm", "--model-path")),
        ("/opt/bin/python3", ("-m", "spectune.sim.sglang"), ("-m", "spectune.sim.sglang", "--model-path")),
    ],
)
def test_the_entry(binary: str, entry: tuple[str, ...], words: tuple[str, ...]) -> None:
    argv = B.launch(replace(SERVICE, binary=binary, entry=entry), Candidate()).argv
    assert argv[: len(words) + 1] == (binary, *words)


def test_older_versions_are_asked_for_their_old_pages_too() -> None:
    paths = SGLang(version="0.5.11").launch(SERVICE, Candidate()).probe_paths
    assert {"/get_model_info", "/get_server_info", "/server_info"} <= set(paths)


@pytest.mark.parametrize(
    ("speculation", "expected"),
    [
        (Speculation(Method.MTP, 1), "NEXTN --speculative-num-steps 1 --speculative-eagle-topk 1 --{t} 2"),
        (
            Speculation(Method.MTP, 2, draft_model="/models/q"),
            (
                "NEXTN --speculative-draft-model-path /models/q --speculative-num-steps 2 --speculative-eagle-topk 1 "
                "--{t} 3"
            ),
        ),
        (
            Speculation(Method.EAGLE, 3, draft_model=DRAFT),
            "EAGLE --speculative-draft-model-path {d} --speculative-num-steps 3 --speculative-eagle-topk 1 --{t} 4",
        ),
        (
            Speculation(Method.EAGLE3, 3, 4, DRAFT, {TOKENS: 8}),
            "EAGLE3 --speculative-draft-model-path {d} --speculative-num-steps 3 --speculative-eagle-topk 4 --{t} 8",
        ),
        # Without a number a tree has depth * topk nodes, or as many as there are.
        (
            Speculation(Method.EAGLE3, 3, 4, DRAFT),
            "EAGLE3 --speculative-draft-model-path {d} --speculative-num-steps 3 --speculative-eagle-topk 4 --{t} 13",
        ),
        (
            Speculation(Method.EAGLE3, 1, 4, DRAFT),
            "EAGLE3 --speculative-draft-model-path {d} --speculative-num-steps 1 --speculative-eagle-topk 4 --{t} 5",
        ),
        (
            Speculation(Method.DRAFT, 5, draft_model=DRAFT, settings={"speculative-draft-model-quantization": "fp8"}),
            (
                "STANDALONE --speculative-draft-model-path {d} --speculative-num-steps 5 --speculative-eagle-topk 1 "
                "--{t} 6 --speculative-draft-model-quantization fp8"
            ),
        ),
        (Speculation(Method.NGRAM, 7), "NGRAM --{t} 8"),
        (
            Speculation(Method.NGRAM, 7, settings={"speculative-ngram-max-bfs-breadth": 1}),
            "NGRAM --{t} 8 --speculative-ngram-max-bfs-breadth 1",
        ),
        (
            Speculation(Method.DFLASH, 15, draft_model=DRAFT),
            "DFLASH --speculative-draft-model-path {d} --speculative-num-steps 1 --speculative-eagle-topk 1 --{t} 16",
        ),
        (
            Speculation(
                Method.MTP, 3, settings={"speculative-adaptive": True, "speculative-adaptive-config": "/a.json"}
            ),
            (
                "NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 --{t} 4 --speculative-adaptive "
                "--speculative-adaptive-config /a.json"
            ),
        ),
    ],
    ids=lambda value: value.label if isinstance(value, Speculation) else None,
)
@pytest.mark.parametrize("engine", [A, B], ids=["0.5.15", "0.5.23"])
def test_methods_are_spelled(engine: SGLang, speculation: Speculation, expected: str) -> None:
    words = expected.format(t=TOKENS, d=DRAFT)
    assert line({}, Candidate(speculation), engine) == f"--speculative-algorithm {words} --enable-metrics"


@pytest.mark.parametrize(
    ("args", "speculation"),
    [
        ({}, Speculation()),
        ({"speculative-algorithm": "NONE"}, Speculation()),
        ({"speculative-algorithm": "nextn"}, Speculation(Method.MTP, 3)),
        ({"speculative-algorithm": "EAGLE"}, Speculation(Method.MTP, 3)),
        (
            {"speculative-algorithm": "EAGLE", "speculative-num-steps": 2, "speculative-eagle-topk": 1, TOKENS: 3},
            Speculation(Method.MTP, 2),
        ),
        # SGLang itself adjusts draft tokens to steps + 1.
        (
            {"speculative-algorithm": "NEXTN", "speculative-num-steps": 3, "speculative-eagle-topk": 1, TOKENS: 8},
            Speculation(Method.MTP, 3),
        ),
        (
            {
                "speculative-algorithm": "EAGLE3",
                "speculative-draft-model": DRAFT,
                "speculative-num-steps": 5,
                "speculative-eagle-topk": 4,
                TOKENS: 8,
                "speculative-attention-mode": "decode",
            },
            Speculation(Method.EAGLE3, 5, 4, DRAFT, {"speculative-attention-mode": "decode", TOKENS: 8}),
        ),
        (
            {"speculative-algorithm": "STANDALONE", "speculative-draft-model-path": DRAFT},
            Speculation(Method.DRAFT, 3, draft_model=DRAFT),
        ),
        (
            {"speculative-algorithm": "EAGLE", "speculative-draft-model-path": "/models/q"},
            Speculation(Method.MTP, 3, draft_model="/models/q"),
        ),
        (
            {
                "speculative-algorithm": "NEXTN",
                "speculative-draft-model-path": DRAFT,
                "speculative-num-steps": 1,
                "speculative-eagle-topk": 1,
            },
            Speculation(Method.EAGLE, 1, draft_model=DRAFT),
        ),
        ({"speculative-algorithm": "NGRAM"}, Speculation(Method.NGRAM, 11)),
        ({"speculative-algorithm": "NGRAM", TOKENS: 8}, Speculation(Method.NGRAM, 7)),
        (
            {
                "speculative-algorithm": "DFLASH",
                "speculative-draft-model-path": DRAFT,
                "speculative-dflash-block-size": 16,
            },
            Speculation(Method.DFLASH, 15, draft_model=DRAFT),
        ),
        (
            {"speculative-algorithm": "NEXTN", "speculative-adaptive": True},
            Speculation(Method.MTP, 3, settings={"speculative-adaptive": True}),
        ),
    ],
    ids=str,
)
def test_the_services_own_speculation_is_recognised(args: Settings, speculation: Speculation) -> None:
    baseline = B.baseline(service(args))
    assert baseline == Candidate(speculation)
    again = B.launch(service(args), baseline).argv
    assert again == B.launch(service({}), baseline).argv


EAGLE3: Settings = {"speculative-algorithm": "EAGLE3", "speculative-draft-model-path": DRAFT}


@pytest.mark.parametrize(
    ("args", "message", "advice"),
    [
        ({"speculative-num-steps": 3}, "silently ignored without speculative-algorithm", ""),
        ({"speculative-algorithm": "EAGLES"}, "no speculative algorithm 'EAGLES'", "NEXTN"),
        ({"speculative-algorithm": "DSPARK"}, "does not tune SGLang's algorithm DSPARK", ""),
        ({"speculative-algorithm": "EAGLE3"}, "needs a draft model", "speculative-draft-model-path"),
        (EAGLE3, "chooses them by the model", "Write out"),
        ({**EAGLE3, "speculative-num-steps": 3}, "a TypeError", "speculative-eagle-topk: 1"),
        ({**EAGLE3, "speculative-eagle-topk": 1}, "'speculative-eagle-topk' without 'speculative-num-steps'", ""),
        ({**EAGLE3, TOKENS: 4}, f"'{TOKENS}' without 'speculative-num-steps'", ""),
        ({**EAGLE3, "speculative-num-steps": 3, "speculative-eagle-topk": 4}, f"topk 4 needs '{TOKENS}'", ""),
        ({**EAGLE3, "speculative-dflash-block-size": 16}, "no effect with EAGLE3", ""),
        ({**EAGLE3, "speculative-num-steps": 3, "speculative-eagle-topk": 1, "speculative-token-map": "/t"},
         "'speculative-token-map' has no effect with EAGLE3", "count:"),
        ({"speculative-algorithm": "NGRAM", "speculative-eagle-topk": 4}, "overwritten under NGRAM", "bfs-breadth"),
        ({"speculative-algorithm": "NGRAM", "speculative-draft-model-path": DRAFT}, "takes no draft model", ""),
        ({"speculative-algorithm": "NGRAM", "speculative-adaptive": True}, "no effect with NGRAM", ""),
        ({"speculative-algorithm": "DFLASH", "speculative-draft-model-path": DRAFT}, "without a block size", ""),
        ({"speculative-algorithm": "DFLASH", "speculative-draft-model-path": DRAFT, TOKENS: 8,
          "speculative-dflash-block-size": 16}, "and differ", "Keep one"),
        ({"speculative-algorithm": "NEXTN", "speculative-adaptive": True, "speculative-adaptive-config": "/a"},
         "known to SGLang alone", "speculative-num-steps"),
        ({"speculative-algorithm": "NEXTN", "speculative-adaptive-config": "/a"}, "ignored without", ""),
        ({"model-path": "/m"}, "'model-path' is not set here", "service.model"),
        ({"host": "::"}, "'host' is not set here", "service.host"),
        ({"config": "/c.yaml"}, "reads more settings from a file", ""),
        ({"served-model-name": "other"}, "serves 'other'", "the same"),
    ],
    ids=str,
)  # fmt: skip
def test_services_that_would_not_work_are_refused(args: Settings, message: str, advice: str) -> None:
    with pytest.raises(InputError) as refused:
        B.baseline(service(args))
    assert message in refused.value.message
    assert advice in refused.value.advice


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (Candidate(Speculation(Method.SUFFIX, 3)), "no method 'suffix'"),
        (Candidate(Speculation(Method.NGRAM_POOL, 3)), "no method 'ngram-pool'"),
        (Candidate(Speculation(Method.MTP, 3, 0)), "topk must be at least 1"),
        (Candidate(Speculation(Method.NGRAM, 3, 2)), "takes no topk"),
        (Candidate(Speculation(Method.DFLASH, 3, 2, DRAFT)), "takes no topk"),
        (Candidate(Speculation(Method.EAGLE3, 3)), "needs a draft model"),
        (Candidate(Speculation(Method.MTP, 3, draft_model=DRAFT)), "mtp drafts with the model's own layers"),
        (Candidate(Speculation(Method.EAGLE, 3, draft_model="/models/q/")), "the draft model is the model itself"),
        (Candidate(Speculation(Method.NGRAM, 3, draft_model=DRAFT)), "takes no draft model"),
        (Candidate(Speculation(Method.MTP, 3, settings={TOKENS: 4})), "is set by the speculation's method"),
        (Candidate(Speculation(Method.MTP, 3, settings={"speculative-num-steps": 4})), "is set by the speculation's"),
        (Candidate(Speculation(Method.EAGLE3, 2, 2, DRAFT, {TOKENS: 8})), "must be 2 to 7 with depth 2 and topk 2"),
        (Candidate(Speculation(), {"speculative-attention-mode": "decode"}), "silently ignored without a speculation"),
        (Candidate(Speculation(Method.MTP, 3, settings={"speculative-ngram-capacity": 9})), "no effect with NEXTN"),
        (Candidate(Speculation(Method.DRAFT, 3, draft_model=DRAFT, settings={"speculative-adaptive": True})),
         "no effect with STANDALONE"),
        (Candidate(knobs={"enable-flashinfer-allreduce-fusion": True}), "is an old spelling"),
        (Candidate(knobs={"port": 3}), "'port' is not a knob"),
        (Candidate(knobs={"enable-metrics": False}), "'enable-metrics' is not a knob"),
        (Candidate(knobs={"tensor-parallel-size": 3}), "is called 'tp-size'"),
    ],
    ids=lambda value: value.label if isinstance(value, Candidate) else None,
)  # fmt: skip
def test_candidates_that_cannot_work_are_refused(candidate: Candidate, message: str) -> None:
    with pytest.raises(InputError, match="candidate") as refused:
        B.launch(SERVICE, candidate)
    assert message in refused.value.message


def test_what_the_server_shows_is_not_the_services_to_say() -> None:
    assert line({"enable-metrics": False, "log-level": "error"}) == line({})


def test_the_model_is_served_under_its_id() -> None:
    named = replace(SERVICE, model_id="q")
    assert "--served-model-name q" in " ".join(B.launch(named, Candidate()).argv)
    given = replace(named, args={"served-model-name": "q"})
    assert B.launch(given, Candidate()).argv.count("--served-model-name") == 1


def test_a_key_is_sent_along() -> None:
    assert B.launch(service({"api-key": "k"}), Candidate()).headers == {"Authorization": "Bearer k"}


def test_simulated_acceptance_is_marked() -> None:
    made = B.launch(service({"weight-version": "v1"}, {"SGLANG_SIMULATE_ACC_LEN": "2.5"}), Candidate())
    assert made.env == {"SGLANG_SIMULATE_ACC_LEN": "2.5"}
    assert made.argv[made.argv.index("--weight-version") + 1] == "simulated-acceptance"
    assert "--weight-version" not in B.launch(service({}), Candidate()).argv


@pytest.mark.parametrize(
    ("value", "expected"), [("2.5", True), ("0", True), ("-1", False), ("-1.0", False), ("x", True)]
)
def test_simulation_is_recognised(value: str, expected: bool) -> None:
    assert simulates({"SGLANG_SIMULATE_ACC_LEN": value}) is expected
    assert not simulates({"SGLANG_SIMULATE_ACC_METHOD": "multinomial"})


def allowed(candidate: Speculation, name: str, asked: object, seen: object) -> bool:
    rules: tuple[Translation, ...] = B.launch(SERVICE, Candidate(candidate)).translations
    return any(r.name == name and r.asked in {None, asked} and r.seen in {None, seen} and r.because for r in rules)


def test_translations() -> None:
    assert allowed(Speculation(Method.MTP, 3), "speculative-algorithm", "NEXTN", "EAGLE")
    assert allowed(Speculation(Method.MTP, 3), TOKENS, 8, 4)
    assert not allowed(Speculation(Method.MTP, 3), TOKENS, 8, 5)
    assert not allowed(Speculation(Method.EAGLE3, 3, draft_model=DRAFT), "speculative-algorithm", "EAGLE3", "EAGLE")
    assert not allowed(Speculation(Method.EAGLE3, 3, 2, DRAFT), TOKENS, 8, 4)
    assert allowed(Speculation(Method.NGRAM, 7), "speculative-eagle-topk", 1, 10)
    assert allowed(Speculation(Method.NGRAM, 19), "speculative-num-steps", 1, 2)
    assert allowed(Speculation(Method.DFLASH, 7, draft_model=DRAFT), "speculative-num-steps", 7, 1)
    assert B.launch(SERVICE, Candidate()).translations == ()


def test_flags_that_the_installed_server_lacks_are_refused() -> None:
    installed = SGLang(frozenset({"tp-size", "speculative-algorithm", "speculative-num-draft-tokens"}), "0.5.23")
    assert installed.launch(SERVICE, Candidate(Speculation(Method.NGRAM, 3)))
    with pytest.raises(InputError, match="has no flag 'speculative-num-steps', which this speculation needs"):
        installed.launch(SERVICE, Candidate(Speculation(Method.MTP, 3)))


def test_a_schedule_is_adaptive_speculation_with_a_file() -> None:
    service = Service(
        "sglang", "/venv/bin/python", "/models/m", {}, {}, "127.0.0.1", 30000, "/models/m", folder="/etc/x"
    )
    schedule = ((1, 3), (16, 1), (64, 0))
    launch = SGLang().launch(service, Candidate(Speculation(Method.MTP, 3, schedule=schedule)))
    [(path, text)] = launch.files.items()
    assert path.startswith("/etc/x/spectune-adaptive-")
    assert launch.argv[launch.argv.index("--speculative-adaptive-config") + 1] == path
    assert "--speculative-adaptive" in launch.argv
    assert launch.argv[launch.argv.index("--speculative-num-steps") + 1] == "3"
    assert {batch: entry["candidate_steps"] for batch, entry in json.loads(text).items()} == {
        "1": [3], "16": [1], "64": [0],
    }  # fmt: skip
    other = SGLang().launch(service, Candidate(Speculation(Method.MTP, 3, schedule=((1, 3), (16, 2)))))
    assert list(other.files) != [path]
    with pytest.raises(InputError):
        SGLang().launch(service, Candidate(Speculation(Method.NGRAM, 3, schedule=schedule)))
