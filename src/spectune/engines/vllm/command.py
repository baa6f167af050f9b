"""From a service and a candidate to a command line, and from a service's own command line to its candidate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Launch, Service, Translation
from spectune.domain.knobs import KnobValue, Settings
from spectune.engines.common.checks import refuse
from spectune.engines.vllm.constraints import check, check_server
from spectune.engines.vllm.flags import FlagTable
from spectune.engines.vllm.knobs import is_speculative
from spectune.engines.vllm.methods import recognised, spelled
from spectune.engines.vllm.schedule import BatchDepth, schedule
from spectune.engines.vllm.settings import arguments, canonical
from spectune.engines.vllm.speckeys import GRAPH_MODE, SCHEDULE, SPECULATIVE

READY_PATH, COUNTERS_PATH, INFO_PATH = "/health", "/metrics", "/server_info?config_format=json"
PROBE_PATHS = ("/health", "/version", "/v1/models", INFO_PATH, "/load", "/metrics")

DEV_MODE = "VLLM_SERVER_DEV_MODE"
"""With it the server has /server_info, which is where the effective settings come from. It also lets every client reset
caches and put the server to sleep, so that it is for trials alone: a promoted service must not have it, and what is
promoted is the command line, not this environment."""

_ENV = {DEV_MODE: "1", "VLLM_LOGGING_COLOR": "0"}
_UNSET = ("VLLM_*",)
"""vLLM reads some two hundred variables that change kernels, runner, limits and ports; those of the shell that happens
to start a campaign must not. What a service needs (VLLM_CPU_KVCACHE_SPACE, say) stands in service.env."""

_ARGS = "service.args"
_OF_SERVICE: Mapping[str, str] = {"model": "service.model", "host": "service.host", "port": "service.port"}
_NOT_TUNED: Mapping[str, str] = {
    "config": "reads more settings from a file, unseen",
    "headless": "starts a server without an endpoint",
    "grpc": "starts a server without the HTTP endpoint",
    "uds": "listens on a socket file instead of a port",
}
_PER_REQUEST = "per-request-spec-decode-metrics"
_CACHED = "enable-prompt-tokens-details"
_OBSERVING = frozenset({_PER_REQUEST, _CACHED, "disable-log-stats"})
"""Flags about what the server shows. Every launch sets them alike, so that it can be read: counters on, cached tokens
in each answer's usage. Acceptance in each answer is switched on under speculation alone: without, vLLM would not start
with it."""

_NAME = "served-model-name"
_DEFAULT_ENTRY = ("-m", "vllm.entrypoints.openai.api_server")
_SERVE = "serve"


def baseline(service: Service, table: FlagTable) -> Candidate:
    """See the port. The knobs are empty: what is not speculation stays in the service's args.

    Raises:
        InputError: as the port says; settings that vLLM would silently ignore are refused too.
    """
    args = _service_args(service, table)
    own = {name: value for name, value in args.items() if is_speculative(name)}
    candidate = Candidate(recognised(own, _ARGS, table))
    launch(service, candidate, table)
    return candidate


def by_load(speculation: Speculation, server: Settings) -> Speculation:
    """A schedule in vLLM's own terms; beyond its last range vLLM keeps the last depth."""
    if not speculation.schedule:
        return speculation
    last = speculation.schedule[-1][0]
    told = server.get("max-num-seqs", last)
    largest = max(last, told) if isinstance(told, int) else last
    rows = [BatchDepth(requests, depth) for requests, depth in speculation.schedule]
    settings = {**speculation.settings, SCHEDULE: schedule(rows, largest)}
    return replace(speculation, settings=settings, schedule=())


def launch(service: Service, candidate: Candidate, table: FlagTable) -> Launch:
    """See the port. Settings are the service's, without its speculation, then the candidate's."""
    args = _service_args(service, table)
    knobs = canonical(candidate.knobs, "candidate", table, exact=True)
    _check_candidate(knobs)
    server = {name: value for name, value in args.items() if not is_speculative(name)}
    server |= {name: value for name, value in knobs.items() if not is_speculative(name)}
    check_server(service.port, server)
    scheduled = by_load(candidate.speculation, server)
    speculation = replace(
        scheduled,
        settings=canonical(scheduled.settings, "candidate's speculation", table, exact=True),
    )
    config = spelled(speculation, {name: value for name, value in knobs.items() if is_speculative(name)}, table)
    check(server, speculation, config, table)
    key = server.get("api-key", service.env.get("VLLM_API_KEY"))
    server |= _identity(service, server)
    argv = [service.binary, *_beginning(service), "--host", service.host, "--port", str(service.port)]
    for name, value in {**server, **_shown(config, table)}.items():
        argv += arguments(name, value, table)
    if config:
        argv += [f"--{SPECULATIVE}", json.dumps(config)]
    return Launch(
        argv=tuple(argv),
        env={**_ENV, **service.env},
        url=service.url,
        ready_path=READY_PATH,
        probe_paths=PROBE_PATHS,
        counters_path=COUNTERS_PATH,
        model_id=service.model_id,
        ready_timeout_s=service.ready_timeout_s,
        headers=_authorization(key),
        unset=_UNSET,
        translations=translations(server, speculation),
    )


def translations(server: Settings, speculation: Speculation) -> tuple[Translation, ...]:
    """What reads back differently from how it was asked, and means the same."""
    found = [
        Translation("dtype", "auto", None, "the model's own number format"),
        Translation("dtype", "half", "float16", "half is vLLM's other name for float16"),
        Translation("dtype", "float", "float32", "float is vLLM's other name for float32"),
        Translation("max-model-len", "auto", None, "the longest context that fits"),
    ]
    if speculation.method is not Method.NONE and "cudagraph-capture-sizes" in server:
        step = speculation.depth + 1
        because = (
            f"with depth {speculation.depth} a request takes {step} tokens of a step, so sizes are rounded to that"
        )
        found.append(Translation("cudagraph-capture-sizes", server["cudagraph-capture-sizes"], None, because))
    if (mode := server.get(GRAPH_MODE)) is not None:
        found.append(Translation(GRAPH_MODE, mode, str(mode).lower(), "vLLM takes the mode in either case"))
    return tuple(rule for rule in found if rule.name in server)


def _shown(config: Mapping[str, object], table: FlagTable) -> dict[str, KnobValue]:
    """Flags of observation, as far as the version has them."""
    found: dict[str, KnobValue] = {}
    if table.has(_CACHED):
        found[_CACHED] = True
    if config and table.has(_PER_REQUEST):
        found[_PER_REQUEST] = "summary"
    return found


def _authorization(key: KnobValue | None) -> dict[str, str]:
    """The header for a server that asks for a key; of several keys any will do."""
    words = str(key).split() if key is not None else []
    return {"Authorization": f"Bearer {words[0]}"} if words else {}


def _beginning(service: Service) -> tuple[str, ...]:
    """Words between program and flags, the model among them: "serve MODEL" for vLLM's own program, where --model is
    deprecated; else a module for a Python interpreter, and --model."""
    entry = service.entry or ((_SERVE,) if PurePosixPath(service.binary).name == "vllm" else _DEFAULT_ENTRY)
    return (*entry, service.model) if entry[-1] == _SERVE else (*entry, "--model", service.model)


def _identity(service: Service, server: Settings) -> dict[str, KnobValue]:
    """The name under which the model is served."""
    names = server.get(_NAME)
    if names is None:
        return {_NAME: service.model_id} if service.model_id != service.model else {}
    if service.model_id not in str(names).split():
        refuse(
            "service",
            f"vLLM serves '{names}' ({_NAME}), not the model id '{service.model_id}'",
            "Make the two the same.",
        )
    return {}


def _service_args(service: Service, table: FlagTable) -> dict[str, KnobValue]:
    """The service's settings by canonical name, without those that every launch sets."""
    args = canonical(service.args, _ARGS, table)
    for name, value in args.items():
        if name in _OF_SERVICE:
            refuse(_ARGS, f"'{name}' is not set here", f"Set {_OF_SERVICE[name]} instead.")
        if name in _NOT_TUNED and value is not False:
            refuse(_ARGS, f"'{name}' {_NOT_TUNED[name]}", "Write the settings out, or remove it.")
    return {name: value for name, value in args.items() if name not in _OBSERVING}


def _check_candidate(knobs: Settings) -> None:
    for name in knobs:
        if name == SPECULATIVE or name.startswith("spec-"):
            refuse("candidate", f"'{name}' is not a knob", "Give method, depth, draft model and settings instead.")
        if name in _OF_SERVICE or name in _OBSERVING or name in _NOT_TUNED or name in {_NAME, "api-key"}:
            refuse("candidate", f"'{name}' is not a knob to tune", "Remove it.")
