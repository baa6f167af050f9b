from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectune.domain.candidate import Method
from spectune.domain.deployment import Capacity, Counters, Evidence, ListenerOwner, Page, Seen
from spectune.domain.knobs import Settings
from spectune.engines.llamacpp import LlamaCpp
from tests.engines.llamacpp.recorded import STARTED, started

MIB = 1 << 20


def read(name: str, pages: bool = True) -> Seen:
    return LlamaCpp().read(started(name, pages))


@dataclass(frozen=True)
class Case:
    """What a recorded server really ran, known from the command line it was started with."""

    name: str
    speculating: bool
    method: Method | None
    depth: int | None
    settings: Settings = field(default_factory=dict)
    pages: bool = True


DRAFT, NGRAM, POOL, NONE = Method.DRAFT, Method.NGRAM, Method.NGRAM_POOL, Method.NONE
SMALL = {"ctx-size": 4096, "parallel": 2, "kv-unified": False, "threads": 1, "cache-ram": 8192}
CASES = (
    Case("none", False, NONE, 0, SMALL),
    Case("draft", True, DRAFT, 4, {**SMALL, "spec-draft-n-max": 4, "spec-draft-n-min": 0}),
    Case(
        "draft-settings",
        True,
        DRAFT,
        6,
        {"spec-draft-n-min": 2, "spec-draft-p-min": 0.25, "spec-draft-type-k": "q8_0", "cache-type-k": "f16"},
    ),
    Case("ngram", True, NGRAM, 3, {**SMALL, "spec-ngram-simple-size-n": 3, "spec-ngram-simple-size-m": 3}),
    Case("pool", True, POOL, 8, {"spec-ngram-mod-n-match": 24, "spec-ngram-mod-n-min": 1}),
    Case("pool-short", True, POOL, 8, {"spec-ngram-mod-n-match": 6}),
    Case(
        "knobs",
        False,
        NONE,
        0,
        {
            "ctx-size": 2048,
            "parallel": 4,
            "flash-attn": "on",
            "cache-type-k": "q8_0",
            "cache-type-v": "q8_0",
            "batch-size": 256,
            "ubatch-size": 64,
            "threads": 1,
            "threads-batch": 2,
            "cache-ram": 0,
        },
    ),
    Case("auto", True, NGRAM, 3, {"ctx-size": 8192, "parallel": 4, "kv-unified": True}),
    Case("synth", True, DRAFT, 4),
    Case("smollm2-draft", True, DRAFT, 3, {"threads": 2, "ctx-size": 2048}),
    Case("smollm2-ngram", True, NGRAM, 8, {"spec-ngram-simple-size-n": 4}),
    # Accepted by llama-server, healthy, and not speculating.
    Case("draft-unused", False, NONE, 0),
    Case("draft-refused", False, NONE, 0),
    Case("draft-absent", False, NONE, 0),
    Case("vocabulary-differs", False, NONE, 0, {"parallel": 4, "kv-unified": True}, pages=False),
    # Speculation that spectune has no word for.
    Case("map-k", True, None, None),
    Case("chain", True, None, None),
)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_recorded_servers(case: Case) -> None:
    seen = read(case.name, case.pages)
    assert (seen.speculating, seen.method, seen.depth) == (case.speculating, case.method, case.depth)
    assert {name: seen.settings[name] for name in case.settings} == case.settings
    assert seen.settings.keys() <= seen.sources.keys()


@pytest.mark.parametrize("case", [case for case in CASES if case.pages], ids=lambda case: case.name)
def test_the_log_alone_tells_the_same(case: Case) -> None:
    whole, alone = read(case.name), read(case.name, pages=False)
    assert (alone.speculating, alone.method, alone.depth) == (whole.speculating, whole.method, whole.depth)
    assert alone.settings == whole.settings
    assert alone.model == whole.model
    assert alone.capacity == whole.capacity
    assert (alone.model_id, alone.version, alone.counters) == (None, None, None)


def test_every_recorded_server_is_expected() -> None:
    assert {case.name for case in CASES} | {"verbosity-3", "synth-verbosity-3"} == set(STARTED)


def test_at_low_verbosity_little_is_known() -> None:
    seen = read("verbosity-3", pages=False)
    assert (seen.speculating, seen.method, seen.depth) == (None, None, None)
    assert seen.settings == {"parallel": 4, "kv-unified": False}
    assert seen.model == "/models/smollm2"


def test_pages_alone_tell_the_method_but_no_depth() -> None:
    seen = LlamaCpp().read(replace(started("draft"), log=""))
    assert (seen.speculating, seen.method, seen.depth) == (True, DRAFT, None)
    assert seen.settings == {}
    assert seen.sources["method"] == "GET /slots"
    assert seen.capacity == Capacity(max_running=2, context_per_request=2048)


def test_sources_name_where_things_were_read() -> None:
    sources = read("draft").sources
    assert sources["speculating"] == "GET /slots"
    assert sources["depth"] == sources["threads"] == "log"
    assert sources["model"] == "GET /props"


def test_identity() -> None:
    seen = read("smollm2-draft")
    assert seen.model == "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    assert seen.model_id == "tiny"
    assert seen.version is not None
    assert seen.version.startswith("b0-unknown (")


@pytest.mark.parametrize(
    ("name", "capacity"),
    [
        ("none", Capacity(4096, 2, 2048, MIB)),
        # The draft's own cache counts while it is in use.
        ("draft", Capacity(4096, 2, 2048, MIB + MIB // 2)),
        ("draft-unused", Capacity(4096, 2, 2048, MIB)),
        ("auto", Capacity(8192, 4, 8192, 2 * MIB)),
        ("knobs", Capacity(2048, 4, 512, round(0.27 * MIB))),
        ("smollm2-draft", Capacity(2048, 2, 1024, 48 * MIB)),
    ],
)
def test_capacity(name: str, capacity: Capacity) -> None:
    assert read(name).capacity == capacity


def test_counters() -> None:
    assert read("draft").counters == Counters(120, 76, 26, 82, 316, 34, (10, 8, 8, 8))
    assert read("none").counters == Counters(120, 76, 26, 0, 0, 0, ())


@pytest.mark.parametrize(
    "page",
    [
        None,
        Page(0, ""),
        Page(501, '{"error":{"code":501}}'),
        Page(200, ""),
        Page(200, "<html>"),
        Page(200, "other_metric 1\n"),
        Page(200, "llamacpp:tokens_predicted_total NaN\n"),
    ],
    ids=str,
)
def test_no_counters(page: Page | None) -> None:
    pages = {} if page is None else {"/metrics": page}
    assert LlamaCpp().read(Evidence("", pages, ListenerOwner.OURS)).counters is None


def test_positions_with_a_gap_are_not_guessed() -> None:
    body = 'llamacpp:tokens_predicted_total 5\nllamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 2\n'
    counters = LlamaCpp().read(Evidence("", {"/metrics": Page(200, body)}, ListenerOwner.OURS)).counters
    assert counters == Counters(output_tokens=5)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", ()),
        ("draft", ()),
        ("pool-short", ("ngram_mod n_match=6 is too small",)),
        ("draft-unused", ("loading draft model '/models/draft.gguf'",)),
        ("draft-refused", ("failed to initialize speculative decoding context: draft model is not eagle3", "loading")),
        ("draft-absent", ("draft-simple requires a draft context",)),
        ("vocabulary-differs", ("vocabs are not compatible", "failed to initialize", "loading draft model")),
        ("knobs", ("no usable GPU found", "one possible reason", "consult docs", "requires --cache-ram")),
    ],
)
def test_warnings(name: str, words: tuple[str, ...]) -> None:
    warnings = read(name).warnings
    assert len(warnings) == len(words)
    for warning, word in zip(warnings, words, strict=True):
        assert word in warning
        assert not warning.startswith("0.")


@pytest.mark.parametrize("name", ["synth", "synth-verbosity-3"])
def test_simulated_acceptance_is_invalid_output(name: str) -> None:
    invalid = read(name, pages=False).invalid_output
    assert invalid is not None
    assert "generated output is not valid" in invalid
    assert read("draft").invalid_output is None


def test_a_request_warning_is_told_once() -> None:
    line = "0.01.000.00{} W slot   operator(): id  {} | task {} | failed to find free space in the KV cache\n"
    log = "".join(line.format(n, n, n + 10) for n in range(4))
    warnings = LlamaCpp().read(Evidence(log, {}, ListenerOwner.OURS)).warnings
    assert warnings == ("slot   operator(): failed to find free space in the KV cache",)


def slots(*flags: object, types: str | None = None) -> Evidence:
    params = {} if types is None else {"params": {"speculative.types": types}}
    body = json.dumps([{"id": i, "n_ctx": 512, "speculative": flag, **params} for i, flag in enumerate(flags)])
    return Evidence("", {"/slots": Page(200, body)}, ListenerOwner.OURS)


@pytest.mark.parametrize(
    ("evidence", "speculating", "method"),
    [
        (slots(True, True), True, None),
        (slots(True, True, types="none,draft-simple"), True, DRAFT),
        (slots(True, types="none,draft-simple,ngram-mod"), True, None),
        (slots(False, False, types="none,draft-simple"), False, NONE),
        (slots(True, False), None, None),
        (slots(1, 1), None, None),
        (slots(), None, None),
    ],
    ids=str,
)
def test_slots_decide(evidence: Evidence, speculating: bool | None, method: Method | None) -> None:
    seen = LlamaCpp().read(evidence)
    assert (seen.speculating, seen.method) == (speculating, method)


def test_slots_are_believed_before_the_log() -> None:
    seen = LlamaCpp().read(replace(started("draft", pages=False), pages=slots(False).pages))
    assert (seen.speculating, seen.method, seen.depth) == (False, NONE, 0)


def test_text_of_a_template_is_not_a_log_line() -> None:
    log = started("none", pages=False).log
    forged = log + "spec common_specu: adding speculative implementation 'ngram-mod'\n"
    assert LlamaCpp().read(Evidence(forged, {}, ListenerOwner.OURS)).method is NONE


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_log_with_pieces_cut_out_never_raises(data: st.DataObject) -> None:
    log = started(data.draw(st.sampled_from(STARTED)), pages=False).log
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), min_size=2, max_size=8)))
    torn = "".join(log[a:b] for a, b in zip(cuts[::2], cuts[1::2], strict=False))
    seen = LlamaCpp().read(Evidence(torn, {}, ListenerOwner.OURS))
    assert seen.model is None or seen.model in torn
    assert set(seen.settings) <= set(seen.sources)
    assert (seen.version, seen.counters) == (None, None)
