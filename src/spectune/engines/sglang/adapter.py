"""The adapter: SGLang's server behind the engine port."""

from __future__ import annotations

from collections.abc import Mapping

from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Capacity, Evidence, Launch, Seen, Service
from spectune.domain.errors import EngineFailure
from spectune.domain.knobs import Knob
from spectune.engines.common.pages import simulated
from spectune.engines.sglang import command, failures
from spectune.engines.sglang.effective import (
    capacity_of,
    depth_of,
    invalid_output_of,
    method_of,
    settings_of,
)
from spectune.engines.sglang.flags import table
from spectune.engines.sglang.knobs import knobs
from spectune.engines.sglang.log import read_log
from spectune.engines.sglang.pages import read_counters, read_loads, read_model, read_server_info

_INFO, _LOADS, _LOG, _MODELS = "GET /server_info", "GET /v1/loads", "log", "GET /v1/models"


class SGLang:
    """SGLang's server, 0.5.11 and later. Implements spectune.domain.ports.Engine; keeps no state but the flags.

    Args:
        flags: those that the installed server lists in its own --help (see `parse_help`); None takes the recorded
            list of the nearest known version.
        version: of the installed server ("0.5.15"); None takes the newest recorded one, or the one that fits `flags`.
    """

    def __init__(self, flags: frozenset[str] | None = None, version: str | None = None) -> None:
        self._table = table(flags, version)
        self._knobs = knobs(self._table)

    @property
    def name(self) -> str:
        return "sglang"

    @property
    def knobs(self) -> Mapping[str, Knob]:
        return self._knobs

    def baseline(self, service: Service) -> Candidate:
        return command.baseline(service, self._table)

    def launch(self, service: Service, candidate: Candidate) -> Launch:
        return command.launch(service, candidate, self._table)

    def read(self, evidence: Evidence) -> Seen:
        """Pages are believed before the log; memory by part, graphs and adjustments are only in the log."""
        pages = evidence.pages
        log = read_log(evidence.log)
        info = read_server_info(pages.get("/server_info"), pages.get("/get_server_info"))
        loads = read_loads(pages.get("/v1/loads"))
        model = read_model(pages.get("/v1/models"), pages.get("/model_info"), pages.get("/get_model_info"))
        args = info.args or log.args
        where = _INFO if info.args else _LOG
        speculating, method = method_of(args)
        depth = depth_of(args, method)
        settings = settings_of(args, info, log, self._table)
        capacity = capacity_of(args, info, log, loads, model)
        path = args.get("model_path")
        served = path if isinstance(path, str) and path else model.model
        version = info.version or loads.version
        told = {"speculating": speculating, "method": method, "depth": depth}
        sources = {key: where for key, value in told.items() if value is not None}
        sources |= dict.fromkeys(settings, where)
        if served:
            sources["model"] = where if path else _MODELS
        if capacity != Capacity():
            sources["capacity"] = _INFO if info.args else _LOADS if loads.kv_tokens is not None else _LOG
        invalid = invalid_output_of(args, version, model)
        adaptive = bool(args.get("speculative_adaptive")) and method is not Method.NONE
        return Seen(
            speculating=speculating,
            method=method,
            depth=depth,
            settings=settings,
            sources=sources,
            model=served,
            model_id=model.model_id,
            version=version,
            capacity=capacity,
            warnings=log.warnings,
            counters=read_counters(pages.get(command.COUNTERS_PATH), adaptive),
            adjustments=log.adjustments,
            notes=log.notes,
            invalid_output=invalid,
            invented_text=invalid is not None and not simulated(version),
        )

    def diagnose(self, failure: EngineFailure) -> EngineFailure:
        return failures.diagnose(failure)
