"""From a service and a candidate to a command line, and from a service's own command line to its candidate."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Launch, Service, Translation
from spectune.domain.knobs import KnobValue, Settings
from spectune.engines.common.checks import refuse
from spectune.engines.sglang.constraints import check, check_flags, check_port
from spectune.engines.sglang.flags import FlagTable, older
from spectune.engines.sglang.knobs import is_speculative
from spectune.engines.sglang.methods import (
    ADAPTIVE,
    ADAPTIVE_FILE,
    ALGORITHM,
    BREADTH,
    BREADTH_DEFAULT,
    DRAFT_PATH,
    STEPS,
    TOKENS,
    TOPK,
    recognised,
    spelled,
)
from spectune.engines.sglang.schedule import BatchSteps, adaptive_config, first_steps
from spectune.engines.sglang.settings import arguments, canonical

READY_PATH, COUNTERS_PATH = "/health", "/metrics"
_PATHS = ("/health", "/v1/models", "/model_info", "/server_info", "/v1/loads", "/metrics")
_OLD_PATHS = ("/get_model_info", "/get_server_info")
"""What versions before the recorded ones may answer instead; the recorded ones write a line of log for each call."""

SIMULATED = "simulated-acceptance"
"""Weight version that every launch with simulated acceptance tells, so that the pages show it: SGLang's own log and
pages don't."""

_ARGS = "service.args"
_OF_SERVICE: Mapping[str, str] = {"model-path": "service.model", "host": "service.host", "port": "service.port"}
_NOT_TUNED: Mapping[str, str] = {
    "config": "reads more settings from a file, unseen",
    "decoupled-spec-role": "splits drafting and verifying over servers",
}
_OBSERVING = frozenset({"enable-metrics", "log-level"})
"""Flags about what the server shows. Every launch sets them alike, so that it can be read: metrics on, log at info."""

_NO_SINGLE_FLAG = re.compile(r"[{<]")
_NAME = "served-model-name"
_WEIGHTS = "weight-version"
_DEFAULT_ENTRY = ("-m", "sglang.launch_server")
_SIMULATING = "SGLANG_SIMULATE_ACC_"
_UNSET = (
    "SGLANG_SIMULATE_*",
    "SGLANG_TEST_*",
    "SGLANG_ENABLE_*",
    "SGLANG_OPT_*",
    "SGLANG_FORCE_*",
    "SGLANG_HACK_*",
    "SGLANG_RAGGED_*",
    "SGLANG_LOG*",
    "SGLANG_MOE_CONFIG_DIR",
    "SGLANG_RECORD_STEP_TIME",
    "SGLANG_GRPC_PORT",
    "SGL_FORCE_SHUTDOWN",
)
"""Variables that change acceptance, kernels, limits or what the log says. Those of the shell that happens to start a
campaign must not; what a service needs of them stands in service.env. Variables about the installation (caches, which
libraries there are) are inherited."""


def baseline(service: Service, table: FlagTable) -> Candidate:
    """See the port. The knobs are empty: what is not speculation stays in the service's args.

    Raises:
        InputError: as the port says; settings that SGLang would silently ignore are refused too.
    """
    args = _service_args(service, table)
    speculation = recognised(
        {name: value for name, value in args.items() if is_speculative(name)}, _ARGS, service.model
    )
    candidate = Candidate(speculation)
    launch(service, candidate, table)
    return candidate


def launch(service: Service, candidate: Candidate, table: FlagTable) -> Launch:
    """See the port. Settings are the service's, without its speculation, then the candidate's."""
    args = _service_args(service, table)
    knobs = canonical(candidate.knobs, "candidate", table, exact=True)
    _check_candidate(knobs, table)
    check_port(service.port, table, service.env)
    scheduled, files = by_load(candidate.speculation, service.folder)
    server = {name: value for name, value in args.items() if not is_speculative(name)}
    server |= {name: value for name, value in knobs.items() if not is_speculative(name)}
    speculation = replace(
        scheduled,
        settings=canonical(scheduled.settings, "candidate's speculation", table, exact=True),
    )
    flags = spelled(speculation, {name: value for name, value in knobs.items() if is_speculative(name)}, service.model)
    check_flags(flags, table)
    check(server, speculation, flags, table)
    server |= _identity(service, server)
    argv = [service.binary, *_entry(service), "--model-path", service.model]
    argv += ["--host", service.host, "--port", str(service.port)]
    for name, value in {**server, **flags}.items():
        argv += arguments(name, value, table)
    old = _OLD_PATHS if older(table.version, table.recorded) else ()
    return Launch(
        argv=(*argv, "--enable-metrics"),
        env=dict(service.env),
        url=service.url,
        ready_path=READY_PATH,
        probe_paths=(*_PATHS, *old),
        counters_path=COUNTERS_PATH,
        model_id=service.model_id,
        ready_timeout_s=service.ready_timeout_s,
        headers=_authorization(server.get("api-key")),
        unset=_UNSET,
        translations=translations(service, speculation, flags),
        files=files,
    )


def by_load(speculation: Speculation, folder: str) -> tuple[Speculation, dict[str, str]]:
    """A schedule in SGLang's own terms: adaptive speculation, with its file."""
    if not speculation.schedule:
        return speculation, {}
    rows = [BatchSteps(requests, depth) for requests, depth in speculation.schedule]
    text = adaptive_config(rows)
    path = f"{folder}/spectune-adaptive-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    settings = {**speculation.settings, ADAPTIVE: True, ADAPTIVE_FILE: path}
    return replace(speculation, depth=first_steps(rows), settings=settings, schedule=()), {path: text}


def translations(service: Service, speculation: Speculation, flags: Settings) -> tuple[Translation, ...]:
    """What reads back differently from how it was asked, and means the same."""
    match speculation.method:
        case Method.NONE:
            return ()
        case Method.NGRAM:
            breadth = flags.get(BREADTH, BREADTH_DEFAULT)
            steps = int(flags[TOKENS]) // max(int(breadth), 1)
            return (
                Translation(TOPK, None, breadth, "NGRAM reports its tree's breadth as topk"),
                Translation(STEPS, None, steps, "NGRAM reports draft tokens / breadth as steps, and does not use it"),
            )
        case Method.DFLASH:
            return (
                Translation("speculative-dflash-block-size", None, flags[TOKENS], "the block size is the draft tokens"),
                Translation(STEPS, None, 1, "DFLASH drafts a block in one step"),
                Translation(TOPK, None, 1, "DFLASH drafts a block in one step"),
            )
        case method:
            found: tuple[Translation, ...] = ()
            if method is Method.MTP:
                found = (
                    Translation(ALGORITHM, "NEXTN", "EAGLE", "NEXTN is SGLang's other name for EAGLE"),
                    Translation(ALGORITHM, "NEXTN", "FROZEN_KV_MTP", "some MTP heads run under this name"),
                    Translation(DRAFT_PATH, None, service.model, "the MTP layers are in the model itself"),
                )
            if speculation.topk == 1:
                because = "with topk 1 draft tokens are always steps + 1"
                found = (*found, Translation(TOKENS, None, speculation.depth + 1, because))
            return found


def _authorization(key: KnobValue | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key is not None else {}


def _entry(service: Service) -> tuple[str, ...]:
    """Words between program and flags: "serve" for SGLang's own program, else a module for a Python interpreter."""
    if service.entry:
        return service.entry
    return ("serve",) if PurePosixPath(service.binary).name == "sglang" else _DEFAULT_ENTRY


def _identity(service: Service, server: Settings) -> dict[str, KnobValue]:
    """The name under which the model is served, and the mark of simulated acceptance."""
    name = server.get(_NAME)
    if name is not None and str(name) != service.model_id:
        refuse(
            "service",
            f"SGLang serves '{name}' ({_NAME}), not the model id '{service.model_id}'",
            "Make the two the same.",
        )
    found: dict[str, KnobValue] = {}
    if name is None and service.model_id != service.model:
        found[_NAME] = service.model_id
    if simulates(service.env):
        found[_WEIGHTS] = SIMULATED
    return found


def simulates(env: Mapping[str, str]) -> bool:
    """Whether variables make the server invent which drafts are accepted; a length below 0 switches it off."""
    length = env.get(f"{_SIMULATING}LEN")
    if length is None:
        return False
    try:
        return float(length) >= 0
    except ValueError:
        return True


def _service_args(service: Service, table: FlagTable) -> dict[str, KnobValue]:
    """The service's settings by canonical name, without those that every launch sets."""
    args = canonical(service.args, _ARGS, table)
    for name, value in args.items():
        if name in _OF_SERVICE:
            refuse(_ARGS, f"'{name}' is not set here", f"Set {_OF_SERVICE[name]} instead.")
        if name in _NOT_TUNED and value != "null":
            refuse(_ARGS, f"'{name}' {_NOT_TUNED[name]}", "Write the settings out, or remove it.")
    return {name: value for name, value in args.items() if name not in _OBSERVING}


def _check_candidate(knobs: Settings, table: FlagTable) -> None:
    for name in knobs:
        instead = table.flags[name].deprecated
        if instead and not _NO_SINGLE_FLAG.search(instead):
            # It reads back under the other name, or not at all.
            refuse("candidate", f"'{name}' is an old spelling", f"Write '{instead}'.")
        if name in _OF_SERVICE or name in _OBSERVING or name in _NOT_TUNED or name in {_NAME, _WEIGHTS, "api-key"}:
            refuse("candidate", f"'{name}' is not a knob to tune", "Remove it.")
