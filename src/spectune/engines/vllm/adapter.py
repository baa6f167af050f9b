"""The adapter: vLLM's server behind the engine port."""

from __future__ import annotations

from collections.abc import Mapping

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity, Evidence, Launch, Seen, Service
from spectune.domain.errors import EngineFailure
from spectune.domain.knobs import Knob
from spectune.engines.vllm import command, failures
from spectune.engines.vllm.effective import (
    LOG,
    depth_of,
    invalid_output_of,
    invents_text,
    method_of,
    notes_of,
    settings_of,
    sources_of,
    speculation_of,
    told_of,
)
from spectune.engines.vllm.flags import table
from spectune.engines.vllm.knobs import knobs
from spectune.engines.vllm.log import read_log
from spectune.engines.vllm.metrics import read_metrics
from spectune.engines.vllm.pages import read_load, read_model, read_server_info, read_version
from spectune.engines.vllm.room import capacity_of

_INFO, _METRICS, _MODELS = "GET /server_info", "GET /metrics", "GET /v1/models"


class VLLM:
    """vLLM's server, 0.20 and later. Implements spectune.domain.ports.Engine; keeps no state but the flags.

    Args:
        flags: those that the installed server lists in its own --help=all (see `parse_help`); None takes the recorded
            list, without what the version is known to lack.
        version: of the installed server ("0.26.0"); None takes the recorded one.
    """

    def __init__(self, flags: frozenset[str] | None = None, version: str | None = None) -> None:
        self._table = table(flags, version)
        self._knobs = knobs(self._table)

    @property
    def name(self) -> str:
        return "vllm"

    @property
    def knobs(self) -> Mapping[str, Knob]:
        return self._knobs

    def baseline(self, service: Service) -> Candidate:
        return command.baseline(service, self._table)

    def launch(self, service: Service, candidate: Candidate) -> Launch:
        return command.launch(service, candidate, self._table)

    def read(self, evidence: Evidence) -> Seen:
        """Pages are believed before the log; what was changed after the configuration was made is only in the log.

        The settings hold, beside flags and keys of speculation, what may differ between two arms without having been
        asked: "async-scheduling", "enable-prefix-caching", "compilation-config.cudagraph_mode", "model-runner".
        """
        pages = evidence.pages
        log = read_log(evidence.log)
        info = read_server_info(pages.get(command.INFO_PATH), pages.get("/server_info"))
        metrics = read_metrics(pages.get(command.COUNTERS_PATH))
        model = read_model(pages.get("/v1/models"))
        told = told_of(info, log)
        where = _INFO if told.from_page else LOG
        speculating, config = speculation_of(told, metrics)
        method, depth = method_of(speculating, config), depth_of(speculating, config, metrics)
        settings = settings_of(told, log, config, method, self._table)
        capacity = capacity_of(told, log, metrics, model, depth)
        path = info.find("model", "model_config") or told.line.get("model")
        served = path if isinstance(path, str) and path else model.model
        version = read_version(pages.get("/version")) or log.version
        by_metrics = speculating is not None and not told.from_page and "speculative_config" not in told.line
        asked = {"speculating": speculating, "method": method, "depth": depth}
        sources = {
            key: _METRICS if by_metrics and metrics else where for key, value in asked.items() if value is not None
        }
        sources |= sources_of(settings, where, told, log)
        if served:
            sources["model"] = where if path else _MODELS
        if capacity != Capacity():
            sources["capacity"] = _METRICS if metrics and metrics.caches else where
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
            counters=metrics.counters if metrics else None,
            adjustments=log.adjustments,
            notes=notes_of(config, log, read_load(pages.get("/load"))),
            invalid_output=invalid_output_of(told, config, version),
            invented_text=invents_text(told, config),
        )

    def diagnose(self, failure: EngineFailure) -> EngineFailure:
        return failures.diagnose(failure)
