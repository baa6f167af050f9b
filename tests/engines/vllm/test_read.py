from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.candidate import Method
from spectune.domain.deployment import Capacity, Counters, Evidence, ListenerOwner, Meaning
from spectune.domain.knobs import KnobValue
from spectune.engines.vllm import VLLM
from tests.engines.vllm.recorded import INFO, STARTED, evidence, gpu_info, page, stamped, started, warned

ENGINE = VLLM()
GIB = 1 << 30

SPECULATION: dict[str, tuple[Method, int]] = {
    "base": (Method.NONE, 0),
    "draft": (Method.DRAFT, 3),
    "dynamic": (Method.NGRAM, 3),
    "eagle": (Method.EAGLE, 2),
    "lengthy": (Method.NGRAM, 2),
    "ngram": (Method.NGRAM, 3),
}
KV_TOKENS = {
    "base": 46_592,
    "draft": 23_296,
    "dynamic": 699_008,
    "eagle": 465_920,
    "lengthy": 699_008,
    "ngram": 46_592,
}
DUMMY = {"dynamic", "eagle", "lengthy"}
CHANGED: dict[str, set[str]] = {
    "base": set(),
    "draft": {"scheduled-tokens-set", "cpu-openmp", "sampling-parameters"},
    "dynamic": {"async-scheduling-off", "scheduled-tokens-set", "cpu-openmp", "sampling-parameters"},
    "eagle": {"scheduled-tokens-set", "cpu-openmp", "sampling-parameters"},
    "lengthy": {"async-scheduling-off", "scheduled-tokens-set", "cpu-openmp", "sampling-parameters"},
    "ngram": {"async-scheduling-off", "scheduled-tokens-set", "cpu-openmp", "sampling-parameters"},
}


def test_every_recorded_start_is_in_the_tables() -> None:
    assert set(STARTED) == set(SPECULATION) == set(KV_TOKENS) == set(CHANGED)


@pytest.mark.parametrize("name", STARTED)
def test_recorded_logs(name: str) -> None:
    seen = ENGINE.read(started(name, pages=False))
    method, depth = SPECULATION[name]
    assert (seen.speculating, seen.method, seen.depth) == (method is not Method.NONE, method, depth)
    assert seen.sources["method"] == "log"
    assert (seen.model, seen.version) == ("/models/smollm2", "0.32.0")
    assert seen.capacity == Capacity(KV_TOKENS[name], 4, 2048, GIB, None, {"kv": GIB})
    assert seen.warnings == ()
    assert {a.name for a in seen.adjustments if a.meaning is Meaning.CHANGED} == CHANGED[name]
    assert not [a for a in seen.adjustments if a.meaning is Meaning.INVALID]
    assert seen.settings["enforce-eager"] is True
    assert seen.settings["max-num-seqs"] == 4
    assert seen.settings["enable-prefix-caching"] is True
    assert seen.settings["dtype"] == "bfloat16"
    assert seen.settings["model-runner"] == "V1"
    assert seen.settings["compilation-config.cudagraph_mode"] == "none"
    assert seen.settings.get("async-scheduling") is (False if "async-scheduling-off" in CHANGED[name] else None)
    assert seen.invented_text is (name in DUMMY)
    assert (seen.invalid_output is not None) is (name in DUMMY)
    assert seen.notes == ("Using LBHNC KV cache layout.",)
    assert seen.counters is None


def test_recorded_schedule() -> None:
    seen = ENGINE.read(started("dynamic"))
    assert seen.settings["num_speculative_tokens_per_batch_size"] == "[[1, 1, 3], [2, 4, 1]]"


def test_the_pages_of_the_ngram_server() -> None:
    seen = ENGINE.read(started("ngram"))
    assert (seen.speculating, seen.method, seen.depth) == (True, Method.NGRAM, 3)
    assert (seen.model, seen.model_id, seen.version) == ("/models/smollm2", "smol", "0.32.0")
    assert seen.capacity == Capacity(46_592, 4, 2048, GIB, None, {"kv": GIB})
    assert seen.counters == Counters(1088, 844, 1280, 362, 1086, 573, (236, 186, 151))
    expected: dict[str, KnobValue] = {
        "async-scheduling": False,
        "enable-prefix-caching": True,
        "compilation-config.cudagraph_mode": "none",
        "model-runner": "V1",
        "max-num-batched-tokens": 2048,
        "max-num-scheduled-tokens": 2048,
        "max-num-seqs": 4,
        "scheduling-policy": "fcfs",
        "kv-cache-dtype": "auto",
        "block-size": 128,
        "gpu-memory-utilization": 0.92,
        "optimization-level": 2,
        "speculative-config.method": "ngram",
        "prompt_lookup_max": 4,
        "prompt_lookup_min": 2,
        "rejection_sample_method": "standard",
    }
    assert {name: seen.settings[name] for name in expected} == expected
    assert not {"model", "host", "port", "master-port", "master-addr", "hf-token"} & seen.settings.keys()
    assert seen.sources["depth"] == seen.sources["prompt_lookup_max"] == "GET /server_info"
    assert seen.sources["model-runner"] == "log"
    assert seen.sources["capacity"] == "GET /metrics"
    assert seen.invalid_output is None


def test_the_text_form_of_server_info() -> None:
    seen = ENGINE.read(Evidence("", {"/server_info": page("ngram", "server_info.txt")}, ListenerOwner.OURS))
    assert (seen.speculating, seen.method, seen.depth) == (True, Method.NGRAM, 3)
    assert seen.model == "/models/smollm2"
    assert seen.settings["max-model-len"] == 2048
    assert seen.settings["enable-prefix-caching"] is True
    assert seen.sources["depth"] == "GET /server_info"


def test_metrics_alone_tell_speculation_depth_and_room() -> None:
    whole = started("ngram", log=False)
    seen = ENGINE.read(replace(whole, pages={"/metrics": whole.pages["/metrics"]}))
    assert (seen.speculating, seen.method, seen.depth) == (True, None, 3)
    assert seen.sources["speculating"] == "GET /metrics"
    assert seen.capacity.kv_tokens == 46_592
    without = "\n".join(line for line in whole.pages["/metrics"].body.splitlines() if "spec_decode" not in line)
    seen = ENGINE.read(evidence(pages={"/metrics": without + "\n"}))
    assert (seen.speculating, seen.method, seen.depth) == (False, Method.NONE, 0)
    assert seen.counters == Counters(1088, 844, 1280, 0, 0, 0)


def test_counters_of_all_copies_are_added() -> None:
    lines = (
        'vllm:generation_tokens_total{engine="%s"} 10\nvllm:prompt_tokens_total{engine="%s"} 7\n'
        'vllm:prefix_cache_hits_total{engine="%s"} 3\nvllm:spec_decode_num_drafts_total{engine="%s"} 4\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="%s",position="0"} 2\n'
        'vllm:cache_config_info{engine="%s",kv_cache_size_tokens="1000"} 1\n'
    )
    seen = ENGINE.read(evidence(pages={"/metrics": lines.replace("%s", "0") + lines.replace("%s", "1")}))
    assert seen.counters == Counters(20, 8, 6, 8, 0, 0, (4,))
    assert seen.capacity.kv_tokens == 2000


@pytest.mark.parametrize(
    "body", ["", "not a page", "llamacpp:prompt_tokens_total 3\n", "vllm:generation_tokens_total x"]
)
def test_no_counters(body: str) -> None:
    assert ENGINE.read(evidence(pages={"/metrics": body})).counters is None


def test_a_gpu_server() -> None:
    log = (
        stamped("Using V2 Model Runner", "Using FLASH_ATTN attention backend out of potential backends: []")
        + stamped("Model loading took 15.5 GiB memory and 3.1 seconds", who="Worker_TP0")
        + stamped("Model loading took 15.25 GiB memory and 3.1 seconds", who="Worker_TP1")
        + stamped("Available KV cache memory: 50.5 GiB", who="Worker_TP0")
        + stamped("Graph capturing finished in 7 secs, took 0.5 GiB", who="Worker_TP0")
    )
    seen = ENGINE.read(evidence(log, {INFO: gpu_info()}))
    assert (seen.speculating, seen.method, seen.depth) == (True, Method.MTP, 3)
    parts = {"weights": round(30.75 * GIB), "kv": round(101 * GIB), "graphs": GIB}
    assert seen.capacity == Capacity(400_000, 64, 32768, round(101 * GIB), 256 // 4, parts)
    assert seen.settings["async-scheduling"] is True
    assert seen.settings["compilation-config.cudagraph_mode"] == "full_and_piecewise"
    assert seen.settings["cudagraph-capture-sizes"] == "4 8 16 256"
    assert seen.settings["model-runner"] == "V2"
    assert len(seen.notes) == 1


@pytest.mark.parametrize(
    ("mode", "name", "requests"),
    [
        (0, "none", 0),
        (1, "piecewise", 64),
        (2, "full", 64),
        ([2, 0], "full_decode_only", 64),
        ([2, 1], "full_and_piecewise", 64),
        ("PIECEWISE", "piecewise", 64),
        (9, None, 64),
        ({"x": 1}, None, 64),
    ],
    ids=str,
)
def test_graph_modes(mode: object, name: str | None, requests: int) -> None:
    seen = ENGINE.read(evidence("", {INFO: gpu_info({"compilation_config": {"cudagraph_mode": mode}})}))
    assert seen.settings.get("compilation-config.cudagraph_mode") == name
    assert seen.capacity.graph_requests == requests


def test_workers_may_change_the_graph_mode_later() -> None:
    log = stamped(
        "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend Foo (support: X); "
        "setting cudagraph_mode=PIECEWISE",
        level="WARNING",
        who="Worker",
    )
    seen = ENGINE.read(evidence(log, {INFO: gpu_info()}))
    assert seen.settings["compilation-config.cudagraph_mode"] == "piecewise"
    assert seen.sources["compilation-config.cudagraph_mode"] == "log"
    assert seen.sources["max-num-seqs"] == "GET /server_info"
    assert [a.name for a in seen.adjustments] == ["graphs-changed"]


def test_graphs_that_are_off_stay_off() -> None:
    log = warned("Overriding cudagraph_mode from FULL to PIECEWISE.")
    seen = ENGINE.read(evidence(log, {INFO: gpu_info({"compilation_config": {"cudagraph_mode": 0}})}))
    assert seen.settings["compilation-config.cudagraph_mode"] == "none"
    assert seen.sources["compilation-config.cudagraph_mode"] == "GET /server_info"


def test_several_copies() -> None:
    changes: dict[str, dict[str, object]] = {"parallel_config": {"data_parallel_size": 2}}
    seen = ENGINE.read(evidence("", {INFO: gpu_info(changes)}))
    assert seen.capacity == Capacity(800_000, 128, 32768, None, 128, {})
    log = "".join(
        stamped(f"GPU KV cache size: {tokens} tokens", who=f"EngineCore_DP{i}")
        for i, tokens in enumerate(("1,000", "1,100"))
    )
    changes["cache_config"] = {"kv_cache_size_tokens": None}
    assert ENGINE.read(evidence(log, {INFO: gpu_info(changes)})).capacity.kv_tokens == 2100


@pytest.mark.parametrize(
    "lines",
    [
        ("GPU KV cache size: 46,592 tokens, Maximum concurrency for 2,048 tokens per request: 22.75x",),
        ("GPU KV cache size: 46,592 tokens", "Maximum concurrency for 2,048 tokens per request: 22.75x"),
        ("GPU + host KV cache size: 46592 tokens, Maximum concurrency for 2048 tokens per request: 22.75x",),
    ],
    ids=["0.32", "0.26", "two pools"],
)
@pytest.mark.parametrize("who", ["EngineCore", ""])
def test_kv_lines(lines: tuple[str, ...], who: str) -> None:
    capacity = ENGINE.read(evidence(stamped(*lines, who=who))).capacity
    assert (capacity.kv_tokens, capacity.context_per_request) == (46_592, 2048)


def test_colours_are_taken_off() -> None:
    line = stamped("GPU KV cache size: 46,592 tokens").replace("(", "\x1b[0;36m(").replace(") ", ")\x1b[0;0m ", 1)
    assert ENGINE.read(evidence(line)).capacity.kv_tokens == 46_592


@pytest.mark.parametrize(
    ("changes", "words", "invented"),
    [
        ({}, None, False),
        ({"load_config": {"load_format": "dummy"}}, "random weights (load-format", True),
        ({"speculative_config": {"rejection_sample_method": "synthetic"}}, "invents acceptance", True),
        ({"speculative_config": {"draft_load_config": {"load_format": "dummy"}}}, "the draft model runs", False),
        ({"speculative_config": {"draft_load_config": {"load_format": "auto"}}}, None, False),
    ],
)
def test_output_that_is_not_real(changes: dict[str, dict[str, object]], words: str | None, invented: bool) -> None:
    seen = ENGINE.read(evidence("", {INFO: gpu_info(changes)}))
    assert seen.invented_text is invented
    if words is None:
        assert seen.invalid_output is None
    else:
        assert seen.invalid_output is not None
        assert words in seen.invalid_output


def test_a_simulated_server() -> None:
    seen = ENGINE.read(evidence("", {"/version": {"version": "0.32.0+sim"}}))
    assert seen.version == "0.32.0+sim"
    assert seen.invalid_output == "this is a simulated server (version 0.32.0+sim)"
    assert not seen.invented_text


def test_speculation_without_having_been_asked() -> None:
    """A model in the speculators' format switches it on by itself."""
    assert ENGINE.read(evidence("", {INFO: gpu_info()})).speculating is True
    off = ENGINE.read(evidence("", {INFO: gpu_info({"speculative_config": None})}))
    assert (off.speculating, off.method, off.depth) == (False, Method.NONE, 0)
    assert off.capacity.graph_requests == 256


def test_fewer_requests_than_are_let_in() -> None:
    changes = {"scheduler_config": {"max_num_active_seqs": 10}}
    assert ENGINE.read(evidence("", {INFO: gpu_info(changes)})).capacity.max_running == 10


def test_notes() -> None:
    info = gpu_info({"speculative_config": {"rejection_sample_method": "fly"}})
    notes = ENGINE.read(evidence("", {INFO: info, "/load": {"server_load": 2}})).notes
    assert notes == (
        "rejection_sample_method fly is lossy: answers are not those of the model alone",
        "2 requests were in flight when the settings were read",
    )
    assert ENGINE.read(evidence("", {INFO: gpu_info(), "/load": {"server_load": 0}})).notes == ()
    suffix = {"speculative_config": {"method": "suffix", "suffix_decoding_max_cached_requests": 10000}}
    (note,) = ENGINE.read(evidence("", {INFO: gpu_info(suffix)})).notes
    assert "remembers up to 10000 answers" in note
    suffix["speculative_config"]["suffix_decoding_max_cached_requests"] = 0
    assert ENGINE.read(evidence("", {INFO: gpu_info(suffix)})).notes == ()


@pytest.mark.parametrize(
    ("log", "warnings"),
    [
        (warned("Something is slow"), ("Something is slow",)),
        (warned("Something is slow", "Something is slow"), ("Something is slow",)),
        (stamped("Something is slow"), ()),
        (warned("[shutdown] Process manager: force killing remaining processes count=1"), ()),
        (warned("Found ulimit of 20000 and failed to automatically increase"), ()),
        ("WARNING: not from vLLM\n", ()),
    ],
)
def test_warnings(log: str, warnings: tuple[str, ...]) -> None:
    assert ENGINE.read(evidence(log)).warnings == warnings


@given(
    st.dictionaries(
        st.sampled_from(
            ["speculative_config", "compilation_config", "cache_config", "parallel_config", "model_config"]
        ),
        st.one_of(
            st.none(),
            st.integers(),
            st.dictionaries(
                st.sampled_from(
                    [
                        "method",
                        "num_speculative_tokens",
                        "cudagraph_mode",
                        "cudagraph_capture_sizes",
                        "kv_cache_size_tokens",
                        "data_parallel_size",
                        "max_model_len",
                        "draft_load_config",
                        "num_speculative_tokens_per_batch_size",
                    ]
                ),
                st.recursive(
                    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
                    lambda inner: st.lists(inner, max_size=3),
                    max_leaves=5,
                ),
            ),
        ),
    )
)
def test_of_any_configuration_only_what_it_says_is_read(sections: dict[str, object]) -> None:
    seen = ENGINE.read(evidence("", {INFO: {"vllm_config": sections, "vllm_env": []}}))
    told = sections.get("speculative_config")
    config = told if isinstance(told, dict) else {}
    assert seen.speculating == (bool(config) if "speculative_config" in sections else None)
    if seen.depth:
        assert seen.depth == int(config["num_speculative_tokens"])
    assert set(seen.settings) <= set(seen.sources)
    assert (seen.version, seen.counters, seen.warnings, seen.invalid_output) == (None, None, (), None)


@given(
    st.text(alphabet=st.sampled_from("GPUKV cahesiz:0123456789,.tokn-{}='()\n"))
    | st.integers(0, 10**20).map("{} tokens".format)
    | st.integers(0, 10**20).map("{:,} tokens".format)
)
def test_of_any_log_only_what_it_says_is_read(text: str) -> None:
    seen = ENGINE.read(evidence(stamped(f"GPU KV cache size: {text}", f"non-default args: {{{text}")))
    tokens = seen.capacity.kv_tokens
    assert tokens is None or any(f"{form} tokens" in text for form in (f"{tokens}", f"{tokens:,}"))
    assert (seen.speculating, seen.depth, seen.version, seen.counters) == (None, None, None, None)
