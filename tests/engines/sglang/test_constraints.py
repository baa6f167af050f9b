from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Service
from spectune.domain.errors import InputError
from spectune.domain.knobs import Settings
from spectune.engines.sglang import SGLang

SERVICE = Service("sglang", "/opt/bin/python", "/models/q", {}, {}, "127.0.0.1", 30000, "/models/q")
OLD, NEW = SGLang(version="0.5.15"), SGLang(version="0.5.23")
DRAFT = "/models/d"
TREE = Speculation(Method.EAGLE3, 3, 4, DRAFT, {"speculative-num-draft-tokens": 8})
MTP, NGRAM = Speculation(Method.MTP, 3), Speculation(Method.NGRAM, 7)
STANDALONE = Speculation(Method.DRAFT, 3, draft_model=DRAFT)
DFLASH = Speculation(Method.DFLASH, 15, draft_model=DRAFT)


def also(speculation: Speculation, settings: Settings) -> Speculation:
    return replace(speculation, settings={**speculation.settings, **settings})


def adaptive(settings: Settings | None = None) -> Speculation:
    return also(MTP, {"speculative-adaptive": True, **(settings or {})})


REJECTION: Settings = {"speculative-use-rejection-sampling": True}

BLOCKS: Settings = {"speculative-use-block-verification": True}
Row = tuple[SGLang, Speculation, Settings, str]

REFUSED: tuple[Row, ...] = (
    (NEW, TREE, {"page-size": 64, "attention-backend": "fa4"}, "'page-size' 64 needs attention-backend fa3"),
    (NEW, TREE, {"attention-backend": "trtllm_mha"}, "trtllm_mha drafts chains only"),
    (NEW, NGRAM, {"page-size": 64}, "NGRAM with breadth 10 and 'page-size' 64"),
    (NEW, NGRAM, {"page-size": 64, "attention-backend": "fa3"}, "works with attention-backend flashinfer alone"),
    (OLD, NGRAM, {"enable-dp-attention": True}, "ngram does not work with DP attention"),
    (OLD, STANDALONE, {"enable-dp-attention": True}, "draft does not work with DP attention"),
    (NEW, STANDALONE, {"attn-dp-size": 4}, "draft does not work with DP attention"),
    (OLD, DFLASH, {"enable-dp-attention": True, "enable-dp-lm-head": True}, "dflash does not work with DP attention"),
    (NEW, DFLASH, {"attn-dp-size": 2}, "dflash does not work with DP attention"),
    (NEW, DFLASH, {"pp-size": 2}, "DFLASH needs 'pp-size' 1"),
    (OLD, MTP, {"enable-lora": True}, "works with NGRAM alone"),
    (OLD, MTP, {"mamba-radix-cache-strategy": "extra_buffer_lazy"}, "extra_buffer_lazy does not work"),
    (NEW, NGRAM, {"mamba-track-interval": 4}, "'mamba-track-interval' 4 is below the 8 draft tokens"),
    (NEW, adaptive(), {"enable-dp-attention": True}, "because of DP attention"),
    (NEW, adaptive(), {"enable-two-batch-overlap": True}, "because of enable-two-batch-overlap"),
    (NEW, adaptive(), {"enable-pdmux": True}, "because of enable-pdmux"),
    (NEW, adaptive({"enable-multi-layer-eagle": True}), {}, "because of enable-multi-layer-eagle"),
    (NEW, also(TREE, {"speculative-adaptive": True}), {}, "because of topk 4"),
    (NEW, also(MTP, {"speculative-adaptive-config": "/a.json"}), {}, "is ignored without speculative-adaptive"),
    (NEW, also(TREE, REJECTION), {}, "needs topk 1"),
    (NEW, also(MTP, {**REJECTION, "speculative-accept-threshold-acc": 0.9}), {}, "threshold-acc' 1.0, got 0.9"),
    (NEW, also(TREE, BLOCKS), {}, "'speculative-use-block-verification' needs topk 1"),
    (OLD, also(MTP, REJECTION), {"enable-deterministic-inference": True}, "deterministic inference here"),
    (OLD, also(MTP, {**REJECTION, "enable-multi-layer-eagle": True}), {}, "enable-multi-layer-eagle here"),
    (NEW, also(MTP, {"speculative-draft-sink-size": 4}), {}, "needs speculative-draft-window-size"),
    (NEW, also(DFLASH, {"speculative-draft-window-size": 8}), {}, "is below DFLASH's block of 16"),
    (NEW, also(NGRAM, {"speculative-ngram-external-corpus-path": "/c"}), {}, "sam-budget of at least 1"),
    (NEW, also(NGRAM, {"speculative-ngram-external-sam-budget": 8}), {}, "is above the depth 7"),
)
ALLOWED: tuple[tuple[SGLang, Speculation, Settings], ...] = (
    (NEW, TREE, {"page-size": 64, "attention-backend": "flashinfer"}),
    (NEW, TREE, {"page-size": 1, "attention-backend": "fa4"}),
    (NEW, MTP, {"page-size": 64, "attention-backend": "trtllm_mha"}),
    (NEW, NGRAM, {"page-size": 64, "attention-backend": "flashinfer"}),
    (NEW, also(NGRAM, {"speculative-ngram-max-bfs-breadth": 1}), {"page-size": 64}),
    (NEW, MTP, {"attn-dp-size": 4}),
    (NEW, DFLASH, {"enable-dp-attention": True, "enable-dp-lm-head": True}),
    (OLD, NGRAM, {"enable-lora": True}),
    (NEW, MTP, {"enable-lora": True}),
    (NEW, MTP, {"mamba-radix-cache-strategy": "extra_buffer_lazy"}),
    (NEW, MTP, {"mamba-track-interval": 4}),
    (NEW, adaptive({"speculative-adaptive-config": "/a.json"}), {}),
    (NEW, also(MTP, REJECTION), {"enable-deterministic-inference": True}),
    (NEW, also(DFLASH, BLOCKS), {}),
    (NEW, Speculation(), {"disable-cuda-graph": True}),
    (NEW, also(DFLASH, {"speculative-draft-window-size": 16}), {}),
    (NEW, also(NGRAM, {"speculative-ngram-external-sam-budget": 7}), {}),
    (NEW, Speculation(), {"page-size": 64, "enable-dp-attention": True}),
)


@pytest.mark.parametrize(("engine", "speculation", "server", "message"), REFUSED, ids=[row[3] for row in REFUSED])
def test_what_the_server_would_trip_over_is_refused(
    engine: SGLang, speculation: Speculation, server: Settings, message: str
) -> None:
    for service, knobs in ((replace(SERVICE, args=server), {}), (SERVICE, server)):
        with pytest.raises(InputError) as refused:
            engine.launch(service, Candidate(speculation, knobs))
        assert message in refused.value.message
        assert refused.value.advice


@pytest.mark.parametrize(("engine", "speculation", "server"), ALLOWED)
def test_what_works_is_launched(engine: SGLang, speculation: Speculation, server: Settings) -> None:
    assert engine.launch(replace(SERVICE, args=server), Candidate(speculation)).argv


@pytest.mark.parametrize(
    ("engine", "port", "env", "works"),
    [
        (OLD, 55535, {}, True),
        (OLD, 55536, {}, False),
        (OLD, 55536, {"SGLANG_GRPC_PORT": "40000"}, True),
        (NEW, 55536, {}, True),
        (NEW, 0, {}, False),
        (NEW, 65536, {}, False),
    ],
)
def test_ports(engine: SGLang, port: int, env: dict[str, str], works: bool) -> None:
    service = replace(SERVICE, port=port, env=env)
    if works:
        assert str(port) in engine.launch(service, Candidate()).argv
    else:
        with pytest.raises(InputError, match=r"service\.port"):
            engine.launch(service, Candidate())
