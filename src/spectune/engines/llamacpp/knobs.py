"""The knobs of llama-server that matter to speed, memory and speculation, with the defaults of release b11434."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spectune.domain.knobs import Knob, KnobKind, KnobValue
from spectune.engines.llamacpp.flags import Flag, load

_CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_ON_OFF_AUTO = ("on", "off", "auto")
_NGRAM_SIZE = (1, 1024)


def _switch(name: str, default: bool | None, about: str) -> Knob:
    return Knob(name, KnobKind.SWITCH, default, about=about)


def _integer(name: str, default: int | None, about: str, low: float | None = None, high: float | None = None) -> Knob:
    return Knob(name, KnobKind.INTEGER, default, low, high, about=about)


def _number(name: str, default: float | None, about: str, low: float | None = None, high: float | None = None) -> Knob:
    return Knob(name, KnobKind.NUMBER, default, low, high, about=about)


def _choice(name: str, default: str | None, choices: tuple[str, ...], about: str) -> Knob:
    return Knob(name, KnobKind.CHOICE, default, choices=choices, about=about)


def _text(name: str, default: KnobValue | None, about: str) -> Knob:
    return Knob(name, KnobKind.TEXT, default, about=about)


_SERVER = (
    _integer("threads", -1, "threads that generate; -1 takes all cores", low=-1),
    _integer("threads-batch", None, "threads that read prompts; as threads when not given", low=-1),
    _text("cpu-mask", "", "cores to run on, hexadecimal"),
    _text("cpu-range", "", "cores to run on, first-last"),
    _integer("cpu-strict", 0, "pin each thread to one core", 0, 1),
    _integer("prio", 0, "scheduling priority, -1 low to 3 realtime", -1, 3),
    _integer("poll", 50, "how hard idle threads spin, in percent", 0, 100),
    _text("cpu-mask-batch", None, "cores for prompt threads, hexadecimal"),
    _text("cpu-range-batch", None, "cores for prompt threads, first-last"),
    _integer("cpu-strict-batch", None, "pin each prompt thread to one core", 0, 1),
    _integer("prio-batch", 0, "scheduling priority of prompt threads", 0, 3),
    _integer("poll-batch", None, "whether idle prompt threads spin", 0, 1),
    _integer("ctx-size", 0, "tokens of KV cache over all slots; 0 takes the model's own context", low=0),
    _integer("parallel", -1, "slots, that is requests at a time; -1 is 4 slots on one shared cache", low=-1),
    _switch("kv-unified", None, "one KV cache shared by all slots instead of equal shares; on when parallel is auto"),
    _integer("kv-unified-per-slot", None, "context limit of a slot on a shared KV cache", low=1),
    _integer("batch-size", 2048, "most tokens submitted at a time", low=1),
    _integer("ubatch-size", 512, "most tokens computed at a time", low=1),
    _choice("cache-type-k", "f16", _CACHE_TYPES, "number format of cached keys"),
    _choice("cache-type-v", "f16", _CACHE_TYPES, "number format of cached values"),
    _choice("flash-attn", "auto", _ON_OFF_AUTO, "fused attention kernel"),
    _text("n-gpu-layers", "auto", "layers on the GPU: a number, auto or all"),
    _choice("split-mode", "layer", ("none", "layer", "row", "tensor"), "how the model is split over GPUs"),
    _text("tensor-split", None, "share of each GPU, comma-separated"),
    _integer("main-gpu", 0, "the GPU used when nothing is split", low=0),
    _text("device", None, "GPUs to use, comma-separated"),
    _switch("cpu-moe", False, "keep all expert weights on the CPU"),
    _integer("n-cpu-moe", None, "layers whose expert weights stay on the CPU", low=0),
    _integer("n-cpu-ffn", None, "layers whose dense FFN weights stay on the CPU", low=0),
    _switch("kv-offload", True, "KV cache on the GPU"),
    _switch("op-offload", True, "run operations on host tensors on the GPU"),
    _switch("repack", True, "reorder weights for the CPU's kernels"),
    _choice("load-mode", "auto", ("auto", "none", "mmap", "mlock", "mmap+mlock", "dio"), "how weights are loaded"),
    _choice("numa", None, ("distribute", "isolate", "numactl"), "NUMA placement"),
    _choice("fit", "on", ("on", "off"), "let llama-server change unset settings to fit device memory"),
    _integer("cache-ram", 8192, "MiB of host memory for prompts of idle slots; 0 off, -1 no limit", low=-1),
    _integer("cache-reuse", 0, "shortest chunk reused by shifting the KV cache; 0 off", low=0),
    _switch("cache-prompt", True, "reuse the common prefix of a slot's last prompt"),
    _switch("cache-idle-slots", True, "save idle slots to cache-ram"),
    _number("slot-prompt-similarity", 0.1, "share of a prompt a slot must hold to be chosen for it", 0, 1),
    _integer("ctx-checkpoints", 32, "most context checkpoints per slot", low=0),
    _integer("checkpoint-min-step", 8192, "tokens between context checkpoints", low=0),
    _switch("cont-batching", True, "let requests join a running batch"),
    _switch("context-shift", False, "drop old tokens when the context is full"),
    _switch("swa-full", False, "full-size cache for sliding-window layers"),
    _integer("threads-http", -1, "threads that serve HTTP", low=-1),
    _switch("backend-sampling", False, "sample on the GPU"),
    _switch("warmup", True, "one empty run before serving"),
)

_SPECULATION = (
    _text("spec-type", "none", "speculation methods, comma-separated"),
    _switch("spec-default", False, "ngram-mod with n-match 24, n-min 48, n-max 64"),
    _text("spec-draft-model", None, "draft model file"),
    _text("spec-draft-hf", None, "draft model to download"),
    _integer("spec-draft-n-max", 3, "most tokens drafted per step", 1),
    _integer("spec-draft-n-min", 0, "shorter drafts are dropped", 0),
    _number("spec-draft-p-min", 0.0, "stop drafting below this probability", 0, 1),
    _number("spec-draft-p-split", 0.1, "without effect in llama-server", 0, 1),
    _choice("spec-draft-sampling", "greedy", ("greedy", "probabilistic"), "how drafted tokens are chosen"),
    _switch("spec-draft-backend-sampling", True, "choose drafted tokens on the GPU (eagle3, mtp, dflash)"),
    _text("spec-draft-ngl", "auto", "draft layers on the GPU: a number, auto or all"),
    _text("spec-draft-device", None, "GPUs of the draft model"),
    _choice("spec-draft-type-k", "f16", _CACHE_TYPES, "number format of the draft's cached keys"),
    _choice("spec-draft-type-v", "f16", _CACHE_TYPES, "number format of the draft's cached values"),
    _integer("spec-draft-threads", None, "threads that draft; as threads when not given", low=-1),
    _integer("spec-draft-threads-batch", None, "threads that read prompts for the draft", low=-1),
    _text("spec-draft-override-tensor", None, "where tensors of the draft live"),
    _switch("spec-draft-cpu-moe", False, "keep the draft's expert weights on the CPU"),
    _integer("spec-draft-n-cpu-moe", None, "draft layers whose expert weights stay on the CPU", low=0),
    _integer("spec-ngram-simple-size-n", 12, "tokens that must repeat before a draft is made", *_NGRAM_SIZE),
    _integer("spec-ngram-simple-size-m", 48, "tokens drafted after a match", *_NGRAM_SIZE),
    _integer("spec-ngram-simple-min-hits", 1, "without effect", 1),
    _integer("spec-ngram-mod-n-match", 24, "tokens that must repeat before a draft is made", *_NGRAM_SIZE),
    _integer("spec-ngram-mod-n-min", 48, "shorter drafts are dropped", 0, 1024),
    _integer("spec-ngram-mod-n-max", 64, "most tokens drafted per step", 1, 1024),
    *(
        _integer(f"spec-ngram-{kind}-{size}", default, "n-gram map", *bounds)
        for kind in ("map-k", "map-k4v")
        for size, default, bounds in (("size-n", 12, _NGRAM_SIZE), ("size-m", 48, _NGRAM_SIZE), ("min-hits", 1, (1,)))
    ),
    _text("lookup-cache-static", None, "n-gram file that is read"),
    _text("lookup-cache-dynamic", None, "n-gram file that is read and written"),
    _number("spec-synth-len", None, "simulated tokens per verify step; output is not valid", low=1),
    _text("spec-synth-rates", None, "simulated acceptance by position; output is not valid"),
)

INERT: Mapping[str, str] = {
    "spec-draft-p-split": "llama-server never reads it",
    "spec-ngram-simple-min-hits": "ngram-simple never reads it",
}
"""Flags that llama-server accepts and ignores, with why."""

RENAMED: Mapping[str, str] = {
    "draft-model": "spec-draft-model",
    "spec-draft-conf-min": "spec-draft-p-min",
    "mmap": "load-mode mmap",
    "no-mmap": "load-mode none",
    "mlock": "load-mode mlock",
    "direct-io": "load-mode dio",
}
"""Names from documentation or older releases that this release does not have, with what to write instead."""


def _with_aliases(knob: Knob, flag: Flag) -> Knob:
    aliases = tuple(s.lstrip("-") for s in flag.on if s.lstrip("-") != knob.name)
    return replace(knob, aliases=tuple(dict.fromkeys(aliases)))


FLAGS: Mapping[str, Flag] = {s.lstrip("-"): flag for flag in load() for s in (*flag.on, *flag.off)}
"""Any spelling without dashes -> flag."""

KNOBS: Mapping[str, Knob] = {knob.name: _with_aliases(knob, FLAGS[knob.name]) for knob in (*_SERVER, *_SPECULATION)}
"""Canonical name -> knob."""


def _canonical() -> dict[str, str]:
    names = {name: name for name in KNOBS} | {alias: knob.name for knob in KNOBS.values() for alias in knob.aliases}
    for spelling, flag in FLAGS.items():
        known = next((names[s.lstrip("-")] for s in flag.on if s.lstrip("-") in names), flag.name)
        names.setdefault(spelling, known)
    return names


CANONICAL: Mapping[str, str] = _canonical()
"""Any spelling without dashes, negations included -> canonical name."""


def is_speculative(name: str) -> bool:
    """Whether a canonical name belongs to speculation rather than to the server."""
    return name.startswith(("spec-", "lookup-cache-"))
