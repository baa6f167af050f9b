from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Counters, Page, Seen, Service
from spectune.domain.knobs import KnobValue
from spectune.engines.sglang import SGLang
from tests.engines.sglang.recorded import STARTED, evidence, server_info_b, stamped, started

ENGINE = SGLang()
GIB = 1 << 30

READ: dict[str, tuple[Method, int]] = {
    "none": (Method.NONE, 0),
    "ngram": (Method.NGRAM, 7),
    "mtp1": (Method.MTP, 1),
    "mtp3-simulated": (Method.MTP, 3),
    "tp2-122b-mtp3-simulated": (Method.MTP, 3),
}
SETTINGS: dict[str, dict[str, KnobValue | None]] = {
    "none": {
        "speculative-algorithm": None,
        "max-running-requests": 4096,
        "mem-fraction-static": 0.903,
        "attention-backend": "triton",
        "chunked-prefill-size": 8192,
        "tp-size": 1,
        "enable-metrics": True,
        "random-seed": 627920464,
    },
    "ngram": {
        "speculative-algorithm": "NGRAM",
        "speculative-num-steps": 0,
        "speculative-eagle-topk": 10,
        "speculative-num-draft-tokens": 8,
        "speculative-ngram-max-bfs-breadth": 10,
        "speculative-ngram-match-type": "BFS",
        "max-running-requests": 48,
    },
    "mtp1": {
        "speculative-algorithm": "EAGLE",
        "speculative-num-steps": 1,
        "speculative-eagle-topk": 1,
        "speculative-num-draft-tokens": 2,
        "speculative-attention-mode": "prefill",
        "speculative-adaptive": False,
        "mem-fraction-static": 0.8,
        "cuda-graph-max-bs-decode": 64,
        "mamba-radix-cache-strategy": "extra_buffer",
        "max-running-requests": 48,
    },
    "mtp3-simulated": {"speculative-num-steps": 3, "speculative-num-draft-tokens": 4, "max-running-requests": 48},
    "tp2-122b-mtp3-simulated": {
        "speculative-num-steps": 3,
        "tp-size": 2,
        "mem-fraction-static": 0.93,
        "context-length": 32768,
        "cuda-graph-max-bs-decode": 32,
        "max-running-requests": 9,
    },
}
CAPACITY: dict[str, tuple[int, int, int, int]] = {
    # KV tokens, requests at a time, context of a request, requests that a graph covers
    "none": (5_842_101, 4096, 8192, 256),
    "ngram": (5_842_101, 48, 8192, 48),
    "mtp1": (11_174_683, 48, 262_144, 48),
    "mtp3-simulated": (11_912_419, 48, 262_144, 48),
    "tp2-122b-mtp3-simulated": (625_332, 9, 32_768, 9),
}
MEMORY: dict[str, dict[str, float]] = {
    # GiB on all GPUs; of two alike where both tell, twice rank 0 where only it does.
    "none": {"weights": 0.27, "kv": 125.36, "graphs": 0.46 + 0.14},
    "ngram": {"weights": 0.27, "kv": 125.36, "graphs": 0.49 + 0.16},
    "mtp1": {
        "weights": 38.07,
        "draft weights": 5.26,
        "kv": 21.31 * 2 + 10.66 * 2,
        "state": 0.40 + 22.57 + 2.30 + 0.03,
        "graphs": 0.38 + 0.36,
    },
    "mtp3-simulated": {
        "weights": 38.07,
        "draft weights": 5.26,
        "kv": 22.72 * 2 + 11.36 * 2,
        "state": 0.31 + 17.55 + 4.59 + 0.04,
        "graphs": 0.68 + 0.43 + 0.55,
    },
    "tp2-122b-mtp3-simulated": {
        "weights": 2 * 112.72,
        "draft weights": 2 * 2.64,
        "kv": 2 * (3.58 * 2 + 0.30 * 2),
        "state": 2 * (0.06 + 3.45 + 2.81 + 0.02),
        "graphs": 2 * (0.17 + 0.11 + 0.10),
    },
}
COUNTERS: dict[str, Counters] = {
    "none": Counters(816, 79, 1, 0, 0, 0),
    "ngram": Counters(816, 79, 1, 112, 112 * 7, 816 - 4 - 112),
    "mtp1": Counters(816, 108, 0, 812, 812, 0),
    "mtp3-simulated": Counters(816, 108, 0, 333, 333 * 3, 816 - 4 - 333),
    "tp2-122b-mtp3-simulated": Counters(816, 108, 0, 256, 256 * 3, 816 - 4 - 256),
}
ADJUSTED: dict[str, tuple[str, ...]] = {
    "none": (),
    "ngram": ("max-running-requests-reset", "mixed-chunk-off-ngram"),
    "mtp1": ("old-spelling", "max-running-requests-reset"),
    "mtp3-simulated": ("old-spelling", "max-running-requests-reset", "draft-tokens-adjusted"),
    "tp2-122b-mtp3-simulated": ("old-spelling", "max-running-requests-reduced"),
}
NOTED: dict[str, tuple[str, ...]] = {
    "none": (),
    "ngram": (),
    "mtp1": (
        "prompts are computed without CUDA graphs",
        "MoE kernels: default configuration for E=256, N=1024 on NVIDIA H200, none is tuned for Triton 3.6.0",
        "MoE kernels: no tuned configuration of the down projection for E=256, N=1024 on NVIDIA H200",
    ),
    "mtp3-simulated": (
        "prompts are computed without CUDA graphs",
        "MoE kernels: default configuration for E=256, N=1024 on NVIDIA H200, none is tuned for Triton 3.6.0",
        "MoE kernels: no tuned configuration of the down projection for E=256, N=1024 on NVIDIA H200",
    ),
    "tp2-122b-mtp3-simulated": (
        "all-reduce fusion: on by SGLang's own choice (SM90/SM10X, Qwen3_5MoeForConditionalGeneration)",
        "prompts are computed without CUDA graphs",
        "MoE kernels: no tuned configuration of the down projection for E=256, N=512 on NVIDIA H200",
        "MoE kernels: default configuration for E=256, N=512 on NVIDIA H200, none is tuned for Triton 3.6.0",
    ),
}


def test_every_recording_is_covered() -> None:
    for table in (READ, SETTINGS, CAPACITY, MEMORY, COUNTERS, ADJUSTED, NOTED):
        assert tuple(sorted(table)) == STARTED


@pytest.mark.parametrize("pages", [True, False], ids=["pages", "log only"])
@pytest.mark.parametrize("name", STARTED)
def test_speculation(name: str, pages: bool) -> None:
    seen = ENGINE.read(started(name, pages))
    method, depth = READ[name]
    assert (seen.speculating, seen.method, seen.depth) == (method is not Method.NONE, method, depth)
    where = "GET /server_info" if pages else "log"
    assert {seen.sources[key] for key in ("speculating", "method", "depth", "model", "capacity")} == {where}


@pytest.mark.parametrize("pages", [True, False], ids=["pages", "log only"])
@pytest.mark.parametrize("name", STARTED)
def test_settings(name: str, pages: bool) -> None:
    seen = ENGINE.read(started(name, pages))
    assert {key: seen.settings.get(key) for key in SETTINGS[name]} == SETTINGS[name]
    assert set(seen.settings) <= set(seen.sources)


@pytest.mark.parametrize("name", STARTED)
def test_the_two_shapes_tell_the_same(name: str) -> None:
    page, log = ENGINE.read(started(name)).settings, ENGINE.read(started(name, pages=False)).settings
    only_after_loading = {"context-length", "max-mamba-cache-size", "disable-chunked-prefix-cache"}
    differs = {key for key in page.keys() | log.keys() if page.get(key) != log.get(key)}
    assert differs <= only_after_loading | {"pp-max-micro-batch-size"}


@pytest.mark.parametrize("pages", [True, False], ids=["pages", "log only"])
@pytest.mark.parametrize("name", STARTED)
def test_room(name: str, pages: bool) -> None:
    capacity = ENGINE.read(started(name, pages)).capacity
    told = (capacity.kv_tokens, capacity.max_running, capacity.context_per_request, capacity.graph_requests)
    assert told == CAPACITY[name]
    assert {part: size / GIB for part, size in capacity.memory.items()} == pytest.approx(MEMORY[name], abs=0.001)
    assert capacity.kv_bytes == capacity.memory["kv"]


@pytest.mark.parametrize("name", STARTED)
def test_room_without_a_log(name: str) -> None:
    capacity = ENGINE.read(started(name, log=False)).capacity
    kv_tokens, running, context, graphs = CAPACITY[name]
    assert (capacity.kv_tokens, capacity.max_running, capacity.graph_requests) == (kv_tokens, running, graphs)
    assert capacity.context_per_request in {context, None}
    assert not capacity.memory


@pytest.mark.parametrize("name", STARTED)
def test_counters(name: str) -> None:
    seen = ENGINE.read(started(name))
    assert seen.counters == COUNTERS[name]
    alone = replace(started(name, log=False), pages={"/metrics": started(name).pages["/metrics"]})
    assert ENGINE.read(alone).counters == COUNTERS[name]


@pytest.mark.parametrize("name", STARTED)
def test_announcements(name: str) -> None:
    seen = ENGINE.read(started(name))
    assert tuple(adjusted.name for adjusted in seen.adjustments) == ADJUSTED[name]
    assert len(seen.notes) == len(NOTED[name])
    assert all(note.startswith(begin) for note, begin in zip(seen.notes, NOTED[name], strict=True))
    assert seen.warnings == ()


@pytest.mark.parametrize("name", STARTED)
def test_identity(name: str) -> None:
    seen = ENGINE.read(started(name))
    path = "/models/q35" if "mtp" in name else "/models/smol"
    assert (seen.model, seen.version) == (path, "0.5.15")
    assert seen.model_id == (None if name == "none" else path)
    assert seen.invalid_output == "the model runs with random weights (load-format dummy)"


def test_the_effective_limit_is_told_not_the_asked_one() -> None:
    body = started("tp2-122b-mtp3-simulated").pages["/server_info"].body
    assert '"max_running_requests":32,' in body
    assert ENGINE.read(started("tp2-122b-mtp3-simulated")).settings["max-running-requests"] == 9


class TestTheOtherVersion:
    """0.5.23, as far as its shapes are known."""

    def test_server_info(self) -> None:
        seen = ENGINE.read(evidence(server_info=server_info_b()))
        assert (seen.speculating, seen.method, seen.depth) == (True, Method.MTP, 3)
        assert (seen.version, seen.model, seen.invalid_output) == ("0.5.23", "/models/q", None)
        assert seen.settings["cuda-graph-bs-decode"] == "1 2 4"
        assert seen.settings["context-length"] == 32768
        assert "schedule-conservativeness" not in seen.settings
        assert seen.settings["max-running-requests"] == 16
        assert (seen.capacity.kv_tokens, seen.capacity.max_running, seen.capacity.graph_requests) == (400_000, 16, 8)

    def test_secrets_are_left_out(self) -> None:
        assert "secret-key" not in repr(ENGINE.read(evidence(server_info=server_info_b())))

    @pytest.mark.parametrize(("together", "limit"), [(True, 64), (False, 16)])
    def test_copies_add_up(self, together: bool, limit: int) -> None:
        """With DP attention the limit asked is that of all copies together."""
        seen = ENGINE.read(evidence(server_info=server_info_b({"enable_dp_attention": together}, 4)))
        assert (seen.capacity.kv_tokens, seen.capacity.max_running) == (1_600_000, 64)
        assert seen.capacity.graph_requests == 32
        assert seen.settings["max-running-requests"] == limit

    def test_the_log(self) -> None:
        log = stamped(
            "server_args={'model_path': '/m', 'speculative_algorithm': 'EAGLE3', 'speculative_num_steps': 2, "
            "'speculative_draft_model_path': '/d', 'dp_size': 1, 'load_format': 'auto'}",
            "Load weight end. elapsed=1.00 s, type=LlamaForCausalLM, quant=fp8, avail mem=9.00 GB, mem usage=2.50 GB.",
            "Load weight end. elapsed=1.00 s, type=LlamaForCausalLMEagle3, avail mem=9.00 GB, mem usage=0.50 GB.",
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1000, KV size: 3.25 GB",
            "Capture target verify cuda graph begin. backend=full, num_tokens_per_req=3, avail mem=9.00 GB",
            "Capture target verify cuda graph end. elapsed=1.00 s, bs=[1, 2, 4], mem usage=0.25 GB, avail mem=8.0 GB.",
            "max_total_num_tokens=1000, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=7, "
            "context_len=4096, available_gpu_mem=5.00 GB",
        )
        seen = ENGINE.read(evidence(log))
        assert (seen.method, seen.depth, seen.model) == (Method.EAGLE3, 2, "/m")
        assert seen.settings["max-running-requests"] == 7
        capacity = seen.capacity
        assert (capacity.kv_tokens, capacity.max_running, capacity.context_per_request) == (1000, 7, 1000)
        assert capacity.graph_requests == 4
        expected = {"weights": 2.5, "draft weights": 0.5, "kv": 3.25, "graphs": 0.25}
        assert capacity.memory == {part: int(size * GIB) for part, size in expected.items()}

    def test_loads(self) -> None:
        rows = [{"dp_rank": rank, "max_total_num_tokens": 100, "max_running_requests": 5} for rank in (0, 1)]
        seen = ENGINE.read(evidence(v1_loads={"version": "0.5.23", "loads": rows}))
        assert (seen.capacity.kv_tokens, seen.capacity.max_running, seen.version) == (200, 10, "0.5.23")
        assert seen.sources["capacity"] == "GET /v1/loads"


@pytest.mark.parametrize(
    ("changes", "method", "depth"),
    [
        ({"speculative_algorithm": None}, Method.NONE, 0),
        ({"speculative_algorithm": "NEXTN"}, Method.MTP, 3),
        ({"speculative_algorithm": "FROZEN_KV_MTP"}, Method.MTP, 3),
        ({"speculative_algorithm": "FROZEN_KV_MTP", "speculative_draft_model_path": "/models/d"}, Method.EAGLE, 3),
        ({"speculative_draft_model_path": "/models/q"}, Method.MTP, 3),
        ({"speculative_draft_model_path": "/models/d"}, Method.EAGLE, 3),
        ({"speculative_algorithm": "STANDALONE", "speculative_num_steps": 5}, Method.DRAFT, 5),
        ({"speculative_algorithm": "DFLASH", "speculative_num_draft_tokens": 16}, Method.DFLASH, 15),
        ({"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 12}, Method.NGRAM, 11),
        ({"speculative_algorithm": "DSPARK"}, None, None),
    ],
    ids=str,
)
def test_methods(changes: dict[str, object], method: Method | None, depth: int | None) -> None:
    seen = ENGINE.read(evidence(server_info=server_info_b(changes)))
    assert (seen.method, seen.depth) == (method, depth)
    assert seen.speculating is (method is not Method.NONE)


def test_a_start_that_was_asked_is_read_back_as_asked() -> None:
    """What launching spells, reading names alike, whatever the draft model is made of."""
    service = Service("sglang", "/opt/bin/python", "/models/q", {}, {}, "127.0.0.1", 30000, "/models/q")
    for asked in (
        Speculation(Method.MTP, 2),
        Speculation(Method.MTP, 2, draft_model="/models/q"),
        Speculation(Method.EAGLE, 2, draft_model="/models/d-NextN"),
        Speculation(Method.EAGLE3, 2, 4, "/models/d"),
        Speculation(Method.DRAFT, 5, draft_model="/models/d"),
        Speculation(Method.NGRAM, 7),
        Speculation(Method.DFLASH, 15, draft_model="/models/d"),
    ):
        argv = ENGINE.launch(service, Candidate(asked)).argv
        given = {word[2:].replace("-", "_"): argv[at + 1] for at, word in enumerate(argv[:-1]) if word[:2] == "--"}
        told = {key: int(value) if value.isdigit() else value for key, value in given.items()}
        if told["speculative_algorithm"] == "NEXTN":
            told["speculative_algorithm"] = "EAGLE"
        seen = ENGINE.read(evidence(server_info=server_info_b({"speculative_draft_model_path": None, **told})))
        assert (seen.method, seen.depth) == (asked.method, asked.depth)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"load_format": "dummy"}, "random weights"),
        ({"speculative_draft_load_format": "dummy"}, "draft model runs with random weights"),
        ({"speculative_draft_load_format": "dummy", "speculative_algorithm": None}, None),
        ({"weight_version": "simulated-acceptance"}, "SGLANG_SIMULATE_ACC_LEN"),
        ({"version": "0.5.15+sim"}, "simulated server"),
    ],
    ids=str,
)
def test_output_that_is_not_real(changes: dict[str, object], words: str | None) -> None:
    body = {**server_info_b(changes), **{key: value for key, value in changes.items() if key == "version"}}
    told = ENGINE.read(evidence(server_info=body)).invalid_output
    assert told is None if words is None else words in (told or "")


def test_an_adaptive_depth_hides_what_was_drafted() -> None:
    metrics = started("mtp3-simulated").pages["/metrics"].body
    counters = ENGINE.read(
        evidence(server_info=server_info_b({"speculative_adaptive": True}), metrics=metrics)
    ).counters
    assert counters is not None
    assert (counters.drafts, counters.drafted, counters.accepted) == (333, None, 479)


def test_counters_of_several_processes_add_up() -> None:
    metrics = "".join(
        f"# TYPE sglang:{name} counter\n" + "".join(f'sglang:{name}{{rank="{rank}"}} {value}\n' for rank in (0, 1))
        for name, value in (
            ("generation_tokens_total", 100.0),
            ("prompt_tokens_total", 50.0),
            ("cached_tokens_total", 20.0),
            ("num_requests_total", 2.0),
            ("spec_verify_calls_total", 40.0),
        )
    )
    metrics += '# TYPE sglang:spec_num_draft_tokens gauge\nsglang:spec_num_draft_tokens{rank="0"} 4.0\n'
    assert ENGINE.read(evidence(metrics=metrics)).counters == Counters(200, 60, 40, 80, 240, 116)


@pytest.mark.parametrize("body", ["", "x", "# TYPE a counter\na_total 1\n", "sglang:prompt_tokens_total{ 3"])
def test_pages_of_others_have_no_counters(body: str) -> None:
    assert ENGINE.read(evidence(metrics=body)).counters is None


def test_a_page_that_is_not_there_is_not_read() -> None:
    gone = started("mtp1")
    pages = {path: Page(503, page.body) for path, page in gone.pages.items()}
    seen = ENGINE.read(replace(gone, log="", pages=pages))
    assert seen == Seen()


def test_old_pages_are_read() -> None:
    pages = started("mtp1").pages
    moved = {"/get_server_info": pages["/server_info"], "/server_info": Page(404, "")}
    assert ENGINE.read(replace(started("mtp1", log=False), pages=moved)).depth == 1


@pytest.mark.parametrize("name", STARTED)
@settings(max_examples=25, deadline=None)
@given(junk=st.lists(st.tuples(st.floats(0, 1), st.text(max_size=60)), max_size=5))
def test_unknown_lines_change_nothing(name: str, junk: list[tuple[float, str]]) -> None:
    """Whatever else a log holds, stamped or not, what is known is still read."""
    lines = started(name).log.split("\n")
    for number, (place, text) in enumerate(junk):
        line = text.replace("\r", " ").replace("\n", " ")
        lines.insert(int(place * len(lines)), stamped("?" + line).rstrip("\n") if number % 2 else "?" + line)
    seen, plain = ENGINE.read(evidence("\n".join(lines))), ENGINE.read(started(name, pages=False))
    assert seen.settings == plain.settings
    assert seen.capacity == plain.capacity
    assert (seen.method, seen.depth, seen.notes) == (plain.method, plain.depth, plain.notes)
    assert {a.name for a in plain.adjustments} <= {a.name for a in seen.adjustments}


@pytest.mark.parametrize("name", STARTED)
@settings(max_examples=25, deadline=None)
@given(cut=st.floats(0, 1))
def test_a_log_may_break_off_anywhere(name: str, cut: float) -> None:
    """What is told by then is told right: a value that the end cuts through is not taken."""
    log = started(name).log
    seen, whole = ENGINE.read(evidence(log[: int(cut * len(log))])), ENGINE.read(evidence(log))
    from_later_lines = {"max-running-requests"}
    for key in seen.settings.keys() - from_later_lines:
        assert seen.settings[key] == whole.settings[key]
    assert seen.depth in {None, whole.depth}


def test_lines_about_steps_are_passed_over() -> None:
    log = stamped("Decode batch, #running-req: 1, disabled ignored fallback", "INFO:     GET /disabled")
    assert ENGINE.read(evidence(log)) == Seen()
