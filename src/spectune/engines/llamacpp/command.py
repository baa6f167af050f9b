"""From a service and a candidate to a command line, and from a service's own command line to its candidate."""

from __future__ import annotations

from collections.abc import Mapping

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Launch, Service
from spectune.domain.errors import InputError
from spectune.domain.knobs import KnobValue, Settings
from spectune.engines.common.checks import check_port, refuse
from spectune.engines.llamacpp.knobs import CANONICAL, FLAGS, KNOBS, is_speculative
from spectune.engines.llamacpp.methods import (
    OTHER_TYPES,
    POOL_MATCH,
    POOL_MAX,
    POOL_MIN,
    SIZE_N,
    SYNTH,
    TYPES,
    SpecType,
    check_effective,
    spelled,
)
from spectune.engines.llamacpp.settings import arguments, canonical

PROBE_PATHS = ("/v1/models", "/props", "/slots", "/metrics")
COUNTERS_PATH = "/metrics"

_ARGS = "service.args"
_OF_SERVICE: Mapping[str, str] = {"model": "service.model", "host": "service.host", "port": "service.port"}
_OTHER_MODEL = frozenset({"model-url", "docker-repo", "hf-repo", "hf-file", "models-dir", "models-preset"})
_NOT_A_SERVER = frozenset({"help", "version", "cache-list", "completion-bash", "list-devices"})
_PRESETS = frozenset(
    flag.name for flag in FLAGS.values() if flag.takes == 0 and flag.name.endswith(("-default", "-spec"))
)
_OBSERVING = frozenset(
    {
        "metrics",
        "slots",
        "ui",
        "verbose",
        "verbosity",
        "log-disable",
        "log-jsonl",
        "log-colors",
        "log-prefix",
        "log-timestamps",
    }
)
"""Flags about what the server shows. Every launch sets them alike, so that it can be read; the service's own don't
count."""

_OBSERVED = ("--metrics", "--slots", "--no-webui", "-lv", "4")
"""At verbosity 4 llama-server tells the effective depth and sizes, which no page does. It is some 300 lines at start
and 30 a request, none per token."""

_NUMBERED = frozenset({"ctx-size", "parallel", "threads", "threads-batch"})
"""Knobs whose values below 1 mean that llama-server chooses, which can't be verified against what was asked."""

_PAD = 256
"""llama.cpp rounds the context of a slot up to this."""

_AUTO_SLOTS = 4

_ENV = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Idle OpenMP threads spin by default; on busy cores that has made decoding ten times slower."""


def baseline(service: Service) -> Candidate:
    """See the port. The knobs are empty: what is not speculation stays in the service's args.

    Raises:
        InputError: as the port says; settings that llama-server would silently ignore are refused too.
    """
    args = _service_args(service)
    settings = {name: value for name, value in args.items() if is_speculative(name) and name not in SYNTH}
    candidate = Candidate(_recognised(settings))
    launch(service, candidate)
    return candidate


def launch(service: Service, candidate: Candidate) -> Launch:
    """See the port. Settings are the service's, without its speculation, then the candidate's."""
    if candidate.speculation.schedule:
        raise InputError("candidate: llama.cpp drafts to the same depth at every load", "Leave the schedule out.")
    args = _service_args(service)
    knobs = canonical(candidate.knobs, "candidate", exact=True)
    _check_candidate(knobs)
    server = _resolved({name: value for name, value in args.items() if not is_speculative(name)})
    server |= {name: value for name, value in knobs.items() if not is_speculative(name)}
    synth = {name: args[name] for name in SYNTH & args.keys()}
    if candidate.speculation.method is Method.NONE:
        # A server told to simulate acceptance without drafts exits.
        synth = {}
    speculative = {name: value for name, value in knobs.items() if is_speculative(name)}
    speculation = spelled(candidate.speculation, synth | speculative)
    _check_server(server, knobs, candidate.speculation.depth)
    server["ctx-size"] = _rounded_context(server)
    if server.get("cache-ram") == 0:
        # llama-server would switch it off itself, with a warning.
        server["cache-idle-slots"] = False
    check_port(service.port)
    alias = _alias(service, server.pop("alias", service.model_id))
    argv = [service.binary, "--model", service.model, "--host", service.host, "--port", str(service.port)]
    argv += ["--alias", alias]
    for name, value in {**server, "fit": "off", **speculation}.items():
        argv += arguments(name, value)
    return Launch(
        argv=(*argv, *_OBSERVED),
        env={**_ENV, **service.env},
        url=service.url,
        ready_path="/health",
        probe_paths=PROBE_PATHS,
        counters_path=COUNTERS_PATH,
        model_id=service.model_id,
        ready_timeout_s=service.ready_timeout_s,
        headers=_authorization(server.get("api-key")),
        unset=("LLAMA_ARG_*",),  # would add to the command line unseen
        keep_alive=False,  # it promises keep-alive after a stream, and closes the connection
    )


def _authorization(keys: KnobValue | None) -> dict[str, str]:
    """The header for a server that asks for a key; of several keys, separated by commas, any will do."""
    return {"Authorization": f"Bearer {str(keys).split(',')[0].strip()}"} if keys is not None else {}


def _service_args(service: Service) -> dict[str, KnobValue]:
    """The service's settings by canonical name, without those that every launch sets."""
    _check_env(service.env)
    args = canonical(service.args, _ARGS)
    for name in args:
        if name in _OF_SERVICE:
            refuse(_ARGS, f"'{name}' is not set here", f"Set {_OF_SERVICE[name]} instead.")
        if name in _OTHER_MODEL:
            refuse(_ARGS, f"'{name}' names another model than service.model", "Give a local file as service.model.")
        if name in _NOT_A_SERVER:
            refuse(_ARGS, f"with '{name}' llama-server does not serve", "Remove it.")
        if name in _PRESETS - {"spec-default"}:
            refuse(_ARGS, f"'{name}' sets model, port and more at once", "Write its settings out.")
    if args.get("fit") == "on":
        refuse(
            _ARGS,
            "with fit on, llama-server changes context and layers by itself, so trials would differ",
            "Remove 'fit' and state ctx-size and n-gpu-layers.",
        )
    return {name: value for name, value in args.items() if name not in _OBSERVING | {"fit"}}


def _check_env(env: Mapping[str, str]) -> None:
    flags = {flag.env: flag.name for flag in FLAGS.values() if flag.env}
    for variable in env:
        if variable.startswith("LLAMA_ARG_"):
            name = flags.get(variable)
            setting = f"sets '{CANONICAL[name]}'" if name else "sets a flag"
            raise InputError(
                f"service.env: {variable} {setting} behind the command line's back", f"Write it into {_ARGS} instead."
            )


def _recognised(settings: Settings) -> Speculation:
    """The speculation that a service's own speculative settings amount to."""
    if settings.get("spec-draft-hf"):
        refuse(_ARGS, "'spec-draft-hf' downloads a draft model", "Give a local file as spec-draft-model.")
    kind = _only_type(settings)
    draft_model = settings.get("spec-draft-model")
    if kind is None:
        if draft_model is not None:
            refuse(
                _ARGS,
                "the draft model would be silently ignored: llama-server drafts with it only when told how",
                "Add spec-type: draft-simple, or remove spec-draft-model.",
            )
        for name in settings.keys() - {"spec-type", "spec-default"}:
            refuse(_ARGS, f"'{name}' would be silently ignored without spec-type", "Add spec-type or remove it.")
        return Speculation()
    shape = {"spec-type", "spec-default", "spec-draft-model", kind.depth}
    own = {name: value for name, value in settings.items() if name not in shape}
    check_effective(own, kind, _ARGS)
    default = KNOBS[kind.depth].default
    assert isinstance(default, int)
    return Speculation(
        method=kind.method,
        depth=int(settings.get(kind.depth, default)),
        draft_model=None if draft_model is None else str(draft_model),
        settings={**_engine_defaults(kind), **own},
    )


def _only_type(settings: Settings) -> SpecType | None:
    names = [name.strip() for name in str(settings.get("spec-type", "")).split(",") if name.strip()]
    if "none" in names:
        names = []
    if settings.get("spec-default"):
        clash = sorted({POOL_MATCH, POOL_MIN, POOL_MAX} & settings.keys())
        if clash:
            refuse(_ARGS, f"'spec-default' and '{clash[0]}' contradict each other", "Remove spec-default.")
        names.append("ngram-mod")
    names = list(dict.fromkeys(names))
    if len(names) > 1:
        refuse(
            _ARGS,
            f"'spec-type' names several types ({', '.join(names)}), which llama-server tries in turn",
            "spectune tunes one at a time: keep one of them.",
        )
    if not names:
        return None
    if names[0] in OTHER_TYPES:
        refuse(_ARGS, f"spectune does not tune the type '{names[0]}'", f"It tunes {', '.join(TYPES)}.")
    if names[0] not in TYPES:
        refuse(_ARGS, f"llama-server has no speculation type '{names[0]}'", f"It has none, {', '.join(TYPES)}.")
    return TYPES[names[0]]


def _engine_defaults(kind: SpecType) -> dict[str, KnobValue]:
    """llama-server's defaults, where launching would choose others."""
    names = {Method.NGRAM: (SIZE_N,), Method.NGRAM_POOL: (POOL_MATCH, POOL_MIN)}.get(kind.method, ())
    return {name: default for name in names if (default := KNOBS[name].default) is not None}


def _check_candidate(knobs: Settings) -> None:
    for name, value in knobs.items():
        if name in _OF_SERVICE or name in _OTHER_MODEL | _NOT_A_SERVER | _OBSERVING | _PRESETS | {"fit", "alias"}:
            refuse("candidate", f"'{name}' is not a knob to tune", "Remove it.")
        if name in _NUMBERED and int(value) < 1:
            refuse("candidate", f"'{name}' {value} leaves the number to llama-server", "Name the number to try.")


def _resolved(server: Settings) -> dict[str, KnobValue]:
    """Context, slots and their sharing made explicit, as llama-server itself would set them."""
    auto = int(server.get("parallel", -1)) < 0
    slots = _AUTO_SLOTS if auto else int(server["parallel"])
    per_slot = int(server.get("kv-unified-per-slot", 0))
    return {
        **server,
        "ctx-size": server.get("ctx-size", slots * per_slot),
        "parallel": slots,
        "kv-unified": auto or bool(server.get("kv-unified", False)),
    }


def _check_server(server: Settings, asked: Settings, depth: int) -> None:
    """Refuses combinations that llama-server would refuse, round or cut after minutes of loading.

    Args:
        asked: what the candidate itself names; only that is refused for being rounded or cut.
    """
    slots, context = int(server["parallel"]), int(server["ctx-size"])
    if slots < 1:
        refuse("settings", f"'parallel' must be at least 1, got {slots}")
    if context:
        share = context if server["kv-unified"] else context // slots
        if share < depth + 2:
            refuse(
                "settings",
                f"'ctx-size' {context} leaves {share} tokens for each of {slots} slots, too few to draft {depth}",
                "Raise ctx-size or lower parallel.",
            )
        rounded = _rounded_context(server)
        if "ctx-size" in asked and rounded != context:
            refuse("candidate", f"llama-server would round 'ctx-size' {context} to {rounded}", f"Ask for {rounded}.")
        if int(asked.get("batch-size", 0)) > rounded:
            refuse("candidate", f"'batch-size' {asked['batch-size']} would be cut to the context, {rounded}")
    batch = int(server.get("batch-size", 2048))
    if int(asked.get("ubatch-size", 0)) > batch:
        refuse("candidate", f"'ubatch-size' {asked['ubatch-size']} would be cut to batch-size, {batch}")
    quantised = server.get("cache-type-v", "f16") not in {"f32", "f16", "bf16"}
    if quantised and server.get("flash-attn") == "off":
        refuse(
            "settings",
            f"'cache-type-v' {server['cache-type-v']} needs flash attention, which is off",
            "Set flash-attn to on, or cache-type-v to f16.",
        )


def _rounded_context(server: Settings) -> int:
    """The context llama-server ends up with: each slot's share is rounded up."""
    context, slots = int(server["ctx-size"]), int(server["parallel"])
    if not context:
        return 0
    padded = _up(context)
    return padded if server["kv-unified"] else _up(padded // slots) * slots


def _up(tokens: int) -> int:
    return -(-tokens // _PAD) * _PAD


def _alias(service: Service, given: KnobValue) -> str:
    """The model's names, as the service has them, where they include the one it is asked for."""
    if service.model_id not in str(given).split(","):
        refuse("service", f"llama-server would not answer to the model id '{service.model_id}'", "Name it as alias.")
    return str(given)
