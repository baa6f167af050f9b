from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Service, Translation
from spectune.domain.errors import InputError
from spectune.domain.knobs import Settings
from spectune.engines.vllm import VLLM
from spectune.engines.vllm.speckeys import KEYS, SHAPE

SERVICE = Service("vllm", "/opt/bin/python", "/models/q", {"tp": 2}, {}, "127.0.0.1", 8000, "/models/q", 900.0)
OLD, MID, NEW = VLLM(version="0.26.0"), VLLM(version="0.32.0"), VLLM(version="0.33.0")
DRAFT = "/models/d"
SCHEDULE = "num_speculative_tokens_per_batch_size"


def service(args: Settings, env: Mapping[str, str] | None = None) -> Service:
    return replace(SERVICE, args=args, env=env or {})


def config(speculation: Speculation, engine: VLLM = MID, args: Settings | None = None) -> dict[str, object]:
    """The configuration of speculation on the command line."""
    argv = engine.launch(service(args or {}), Candidate(speculation)).argv
    loaded: dict[str, object] = json.loads(argv[argv.index("--speculative-config") + 1])
    return loaded


def test_the_whole_launch() -> None:
    made = MID.launch(SERVICE, Candidate(Speculation(Method.MTP, 3), {"max-num-seqs": 32}))
    assert made.argv == (
        "/opt/bin/python",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        "/models/q",
        "--host",
        "127.0.0.1",
        "--port",
        "8000",
        "--tensor-parallel-size",
        "2",
        "--max-num-seqs",
        "32",
        "--enable-prompt-tokens-details",
        "--per-request-spec-decode-metrics",
        "summary",
        "--speculative-config",
        '{"method": "mtp", "num_speculative_tokens": 3}',
    )
    assert made.env == {"VLLM_SERVER_DEV_MODE": "1", "VLLM_LOGGING_COLOR": "0"}
    assert made.url == "http://127.0.0.1:8000"
    assert made.ready_path == "/health"
    assert made.probe_paths == (
        "/health",
        "/version",
        "/v1/models",
        "/server_info?config_format=json",
        "/load",
        "/metrics",
    )
    assert made.counters_path == "/metrics"
    assert (made.model_id, made.ready_timeout_s) == ("/models/q", 900.0)
    assert made.unset == ("VLLM_*",)
    assert made.headers == {}
    assert made.translations == ()


def test_metrics_of_each_request_are_asked_under_speculation_alone() -> None:
    flag = "--per-request-spec-decode-metrics"
    speculating = Candidate(Speculation(Method.NGRAM, 3))
    assert flag not in MID.launch(SERVICE, Candidate()).argv
    assert flag in MID.launch(SERVICE, speculating).argv
    assert flag not in OLD.launch(SERVICE, speculating).argv
    own = service({"per-request-spec-decode-metrics": "detailed", "disable-log-stats": True})
    assert flag not in MID.launch(own, Candidate()).argv
    assert MID.launch(own, speculating).argv == MID.launch(service({}), speculating).argv


@pytest.mark.parametrize(
    ("binary", "entry", "words"),
    [
        ("/opt/bin/python3", (), ("-m", "vllm.entrypoints.openai.api_server", "--model", "/models/q")),
        ("/opt/bin/vllm", (), ("serve", "/models/q", "--host")),
        ("/opt/bin/vllm", ("serve",), ("serve", "/models/q", "--host")),
        ("/opt/bin/python3", ("-m", "spectune.sim.vllm"), ("-m", "spectune.sim.vllm", "--model", "/models/q")),
    ],
)
def test_the_entry(binary: str, entry: tuple[str, ...], words: tuple[str, ...]) -> None:
    argv = MID.launch(replace(SERVICE, binary=binary, entry=entry), Candidate()).argv
    assert argv[: len(words) + 1] == (binary, *words)


@pytest.mark.parametrize(
    ("speculation", "expected"),
    [
        (Speculation(Method.NGRAM, 3), {"method": "ngram", "num_speculative_tokens": 3}),
        (
            Speculation(Method.NGRAM, 3, settings={"speculative-config.method": "ngram_gpu", "prompt_lookup_max": 4}),
            {"method": "ngram_gpu", "num_speculative_tokens": 3, "prompt_lookup_max": 4},
        ),
        (
            Speculation(Method.SUFFIX, 8, settings={"suffix_decoding_max_cached_requests": 0}),
            {"method": "suffix", "num_speculative_tokens": 8, "suffix_decoding_max_cached_requests": 0},
        ),
        (
            Speculation(
                Method.DRAFT,
                4,
                draft_model=DRAFT,
                settings={"speculative-config.quantization": "fp8", "draft_tensor_parallel_size": 1},
            ),
            {
                "method": "draft_model",
                "model": DRAFT,
                "num_speculative_tokens": 4,
                "quantization": "fp8",
                "draft_tensor_parallel_size": 1,
            },
        ),
        (
            Speculation(Method.EAGLE, 2, draft_model=DRAFT, settings={"disable_eagle_block_drop": True}),
            {"method": "eagle", "model": DRAFT, "num_speculative_tokens": 2, "disable_eagle_block_drop": True},
        ),
        (
            Speculation(Method.EAGLE3, 3, draft_model=DRAFT, settings={SCHEDULE: "[[1,4,3],[5,8,1]]"}),
            {"method": "eagle3", "model": DRAFT, "num_speculative_tokens": 3, SCHEDULE: [[1, 4, 3], [5, 8, 1]]},
        ),
        (
            Speculation(Method.MTP, 1, settings={"rejection_sample_method": "block"}),
            {"method": "mtp", "num_speculative_tokens": 1, "rejection_sample_method": "block"},
        ),
        (Speculation(Method.MTP, 1, draft_model=DRAFT), {"method": "mtp", "model": DRAFT, "num_speculative_tokens": 1}),
        (
            Speculation(
                Method.DFLASH, 15, draft_model=DRAFT, settings={"draft_load_config": '{"load_format":"dummy"}'}
            ),
            {
                "method": "dflash",
                "model": DRAFT,
                "num_speculative_tokens": 15,
                "draft_load_config": {"load_format": "dummy"},
            },
        ),
        (
            Speculation(
                Method.NGRAM,
                3,
                settings={"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": "[0.9, 0.5, 0]"},
            ),
            {
                "method": "ngram",
                "num_speculative_tokens": 3,
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_rates": [0.9, 0.5, 0],
            },
        ),
    ],
    ids=lambda value: value.label if isinstance(value, Speculation) else None,
)
@pytest.mark.parametrize("engine", [OLD, MID, NEW], ids=["0.26", "0.32", "0.33"])
def test_speculation_and_back(engine: VLLM, speculation: Speculation, expected: dict[str, object]) -> None:
    assert config(speculation, engine) == expected
    own = service({"speculative-config": json.dumps(expected)})
    back = engine.baseline(own)
    assert back.knobs == {}
    assert engine.launch(own, back).argv == engine.launch(service({}), Candidate(speculation)).argv


def test_settings_of_speculation_may_be_knobs() -> None:
    inside = Candidate(Speculation(Method.NGRAM, 3, settings={"prompt_lookup_max": 4}))
    outside = Candidate(Speculation(Method.NGRAM, 3), {"prompt_lookup_max": 4})
    assert MID.launch(SERVICE, inside).argv == MID.launch(SERVICE, outside).argv


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, Speculation()),
        ({"speculative-config": "null"}, Speculation()),
        ({"sc": '{"model":"ngram","num-speculative-tokens":4}'}, Speculation(Method.NGRAM, 4)),
        ({"sc": '{"model":"[ngram]","method":"ngram","num_speculative_tokens":4}'}, Speculation(Method.NGRAM, 4)),
        (
            {"sc": '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":3,"prompt_lookup_min":null}'},
            Speculation(Method.NGRAM, 4, settings={"prompt_lookup_max": 3}),
        ),
        ({"sc": '{"method":"suffix"}'}, Speculation(Method.SUFFIX, 24)),
        ({"sc": '{"method":"qwen3_next_mtp","num_speculative_tokens":2.0}'}, Speculation(Method.MTP, 2)),
        (
            {"spec-method": "eagle3", "spec-model": DRAFT, "spec-tokens": "3"},
            Speculation(Method.EAGLE3, 3, draft_model=DRAFT),
        ),
        (
            {"spec-tokens": 3, "sc": '{"method":"draft_model","model":"/models/d"}'},
            Speculation(Method.DRAFT, 3, draft_model=DRAFT),
        ),
        (
            {
                "speculative-config.method": "ngram_gpu",
                "speculative-config.num-speculative-tokens": "3",
                "speculative_config.prompt_lookup_max": "4",
            },
            Speculation(Method.NGRAM, 3, settings={"speculative-config.method": "ngram_gpu", "prompt_lookup_max": 4}),
        ),
    ],
    ids=str,
)
def test_the_services_own_speculation(args: Settings, expected: Speculation) -> None:
    assert MID.baseline(service(args)).speculation == expected


NGRAM = '{"method":"ngram","num_speculative_tokens":3'


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"sc": "[1]"}, "must be a JSON object"),
        ({"sc": "{}"}, "without a method"),
        ({"sc": '{"model":"/models/d","num_speculative_tokens":3}'}, "without a method vLLM chooses one"),
        ({"sc": '{"method":"ngrm","num_speculative_tokens":3}'}, "vLLM has no method 'ngrm'"),
        ({"sc": '{"method":"medusa","num_speculative_tokens":3}'}, "does not tune vLLM's method 'medusa'"),
        ({"sc": '{"method":7,"num_speculative_tokens":3}'}, "vLLM has no method '7'"),
        ({"sc": '{"method":"eagle","num_speculative_tokens":3}'}, "method eagle needs a draft model"),
        ({"sc": '{"method":"ngram"}'}, "without 'num_speculative_tokens' vLLM does not start"),
        ({"sc": '{"method":"mtp"}'}, "number of MTP layers"),
        ({"sc": '{"method":"mtp","num_speculative_tokens":0}'}, "whole number of at least 1, got 0"),
        ({"sc": '{"method":"mtp","num_speculative_tokens":1.5}'}, "whole number of at least 1, got 1.5"),
        ({"sc": '{"method":"mtp","num_speculative_tokens":1e999}'}, "whole number of at least 1, got inf"),
        ({"sc": '{"method":"mtp","num_speculative_tokens":true}'}, "whole number of at least 1, got True"),
        ({"sc": NGRAM + ',"tensor_parallel_size":1}'}, "'tensor_parallel_size' ends vLLM at start"),
        ({"sc": NGRAM + ',"lookup":1}'}, "knows no key 'lookup'"),
        ({"sc": NGRAM + ',"prompt_lookup_min":6,"prompt_lookup_max":5}'}, "'prompt_lookup_min' 6 is above"),
        ({"sc": NGRAM + ',"prompt_lookup_min":"x"}'}, "must be a whole number"),
        ({"sc": NGRAM + ',"suffix_decoding_max_tree_depth":6}'}, "has no effect with ngram"),
        ({"sc": NGRAM + "}", "spec-method": "ngram"}, "are mutually exclusive"),
        ({"spec-tokens": 3}, "without a method"),
        ({"prompt_lookup_max": 3}, "without a method"),
        ({"model": "/m"}, "'model' is not set here"),
        ({"port": 8000}, "'port' is not set here"),
        ({"config": "/etc/vllm.yaml"}, "reads more settings from a file"),
        ({"headless": True}, "without an endpoint"),
        ({"served-model-name": "other"}, "not the model id"),
        ({"enforce-eager": True, "max-cudagraph-capture-size": 8}, "has no effect with enforce-eager"),
    ],
    ids=str,
)
def test_what_a_service_must_not_have(args: Settings, message: str) -> None:
    with pytest.raises(InputError) as refused:
        MID.baseline(service(args))
    assert message in refused.value.message


any_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=2)),
    max_leaves=6,
)
a_method = st.sampled_from(["ngram", "ngram_gpu", "suffix", "eagle", "mtp", "deepseek_mtp", "draft_model"])


@given(
    st.fixed_dictionaries(
        {"method": st.one_of(a_method, any_json), "num_speculative_tokens": st.one_of(st.integers(1, 9), any_json)},
        optional={"model": st.one_of(st.just("/models/d"), any_json)},
    ),
    st.dictionaries(st.sampled_from(sorted({key.key for key in KEYS} - SHAPE)), any_json, max_size=2),
)
@example({"method": ["ngram"]}, {})
@example({"model": ["ngram"]}, {})
def test_any_configuration_is_recognised_or_refused(shape: dict[str, object], keys: dict[str, object]) -> None:
    own = service({"speculative-config": json.dumps({**keys, **shape})})
    try:
        found = MID.baseline(own)
    except InputError:
        return
    assert found.speculation.depth == shape["num_speculative_tokens"] or shape["method"] == "suffix"
    assert MID.launch(own, found).argv == MID.launch(service({}), found).argv


@pytest.mark.parametrize("name", ["served-model-name", "api-key", "model", "port", "disable-log-stats", "config"])
def test_what_is_no_knob(name: str) -> None:
    with pytest.raises(InputError, match=f"'{name}' is not a knob"):
        MID.launch(SERVICE, Candidate(knobs={name: True if name == "disable-log-stats" else 8}))


@pytest.mark.parametrize("knobs", [{"speculative-config": "{}"}, {"spec-tokens": 3}], ids=str)
def test_speculation_is_no_knob(knobs: Settings) -> None:
    with pytest.raises(InputError, match="is not a knob") as refused:
        MID.launch(SERVICE, Candidate(knobs=knobs))
    assert "method, depth" in refused.value.advice


@pytest.mark.parametrize(
    ("model_id", "args", "words"),
    [
        ("/models/q", {}, None),
        ("q", {}, ("q",)),
        ("q", {"served-model-name": "a q"}, ("a", "q")),
    ],
)
def test_the_name_of_the_model(model_id: str, args: Settings, words: tuple[str, ...] | None) -> None:
    argv = MID.launch(replace(SERVICE, model_id=model_id, args=args), Candidate()).argv
    if words is None:
        assert "--served-model-name" not in argv
    else:
        at = argv.index("--served-model-name")
        assert argv[at + 1 : at + 1 + len(words)] == words


@pytest.mark.parametrize(
    ("args", "env", "key"),
    [({"api-key": "k1 k2"}, {}, "k1"), ({}, {"VLLM_API_KEY": "k3"}, "k3"), ({}, {}, None)],
)
def test_the_api_key(args: Settings, env: Mapping[str, str], key: str | None) -> None:
    headers = MID.launch(service(args, env), Candidate()).headers
    assert headers == ({"Authorization": f"Bearer {key}"} if key else {})


def test_the_services_variables_win() -> None:
    env = {"VLLM_SERVER_DEV_MODE": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
    assert MID.launch(service({}, env), Candidate()).env == {**env, "VLLM_LOGGING_COLOR": "0"}


def test_translations() -> None:
    args: Settings = {"dtype": "half", "max-model-len": "auto", "cudagraph-capture-sizes": "1 2 4"}
    plain = MID.launch(service(args), Candidate()).translations
    assert {rule.name for rule in plain} == {"dtype", "max-model-len"}
    rules = MID.launch(service(args), Candidate(Speculation(Method.MTP, 3))).translations
    because = "with depth 3 a request takes 4 tokens of a step, so sizes are rounded to that"
    assert Translation("cudagraph-capture-sizes", "1 2 4", None, because) in rules
    graphs: Settings = {"compilation-config.cudagraph_mode": "FULL_DECODE_ONLY"}
    (rule,) = MID.launch(service(graphs), Candidate()).translations
    assert (rule.asked, rule.seen) == ("FULL_DECODE_ONLY", "full_decode_only")


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_ports(port: int) -> None:
    with pytest.raises(InputError, match=r"service\.port"):
        MID.launch(replace(SERVICE, port=port), Candidate())


def test_a_schedule_is_a_key_of_the_speculative_config() -> None:
    service = Service("vllm", "/venv/bin/python", "/m", {"max-num-seqs": 32}, {}, "127.0.0.1", 8000, "/m")
    speculation = Speculation(Method.DRAFT, 3, draft_model="/d", schedule=((1, 3), (8, 1)))
    argv = VLLM(version="0.33.0").launch(service, Candidate(speculation)).argv
    config = json.loads(argv[argv.index("--speculative-config") + 1])
    assert config["num_speculative_tokens"] == 3
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 7, 3], [8, 32, 1]]
