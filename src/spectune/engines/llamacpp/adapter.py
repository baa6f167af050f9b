"""The adapter: llama-server behind the engine port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Capacity, Evidence, Launch, Seen, Service
from spectune.domain.errors import EngineFailure
from spectune.domain.knobs import Knob, KnobValue
from spectune.engines.common.pages import first
from spectune.engines.llamacpp import command, failures
from spectune.engines.llamacpp.knobs import KNOBS
from spectune.engines.llamacpp.log import LogFacts, read_log, settings_of
from spectune.engines.llamacpp.methods import TYPES
from spectune.engines.llamacpp.pages import (
    PropsFacts,
    SlotFacts,
    read_counters,
    read_model_id,
    read_props,
    read_slots,
)

_SLOTS, _PROPS, _LOG = "GET /slots", "GET /props", "log"


class LlamaCpp:
    """llama.cpp's llama-server, release b11434. Implements spectune.domain.ports.Engine; keeps no state."""

    @property
    def name(self) -> str:
        return "llama.cpp"

    @property
    def knobs(self) -> Mapping[str, Knob]:
        return KNOBS

    def baseline(self, service: Service) -> Candidate:
        return command.baseline(service)

    def launch(self, service: Service, candidate: Candidate) -> Launch:
        return command.launch(service, candidate)

    def read(self, evidence: Evidence) -> Seen:
        """Pages are believed before the log. Whether speculation runs comes from /slots, which is the only page that
        tells; its sizes are only in the log."""
        pages = evidence.pages
        log, slots, props = read_log(evidence.log), read_slots(pages.get("/slots")), read_props(pages.get("/props"))
        speculating, where = _speculating(slots, log)
        sources: dict[str, str] = {} if speculating is None else {"speculating": where}
        method = _method(speculating, slots, log, sources)
        settings = dict(settings_of(log))
        depth = _depth(method, log, settings, sources)
        sources |= dict.fromkeys(settings, _LOG)
        model = props.model or log.model
        if model:
            sources["model"] = _PROPS if props.model else _LOG
        capacity = _capacity(slots, props, log, speculating)
        if capacity != Capacity():
            sources["capacity"] = _LOG if log.slots is not None else _PROPS if props.slots is not None else _SLOTS
        return Seen(
            speculating=speculating,
            method=method,
            depth=depth,
            settings=settings,
            sources=sources,
            model=model,
            model_id=read_model_id(pages.get("/v1/models")),
            version=props.version,
            capacity=capacity,
            warnings=_warnings(log, speculating),
            counters=read_counters(pages.get(command.COUNTERS_PATH)),
            invalid_output=log.simulated,
            invented_text=log.simulated is not None,
        )

    def diagnose(self, failure: EngineFailure) -> EngineFailure:
        return failures.diagnose(failure)


def _speculating(slots: SlotFacts | None, log: LogFacts) -> tuple[bool | None, str]:
    if slots is not None:
        return slots.speculating, _SLOTS
    return log.live, _LOG


def _method(speculating: bool | None, slots: SlotFacts | None, log: LogFacts, sources: dict[str, str]) -> Method | None:
    """The one method that is live; None when several are, or one that spectune has no word for."""
    if speculating is None:
        return None
    if not speculating:
        sources["method"] = sources["speculating"]
        return Method.NONE
    types: Sequence[str] = log.types
    where = _LOG
    if not types and slots is not None:
        types, where = slots.types, _SLOTS
    if len(types) != 1 or types[0] not in TYPES:
        return None
    sources["method"] = where
    return TYPES[types[0]].method


def _depth(
    method: Method | None, log: LogFacts, settings: Mapping[str, KnobValue], sources: dict[str, str]
) -> int | None:
    depth: KnobValue | None = None
    if method is Method.NONE:
        sources["depth"] = sources["method"]
        return 0
    if method is not None:
        flag = next(kind.depth for kind in TYPES.values() if kind.method is method)
        depth = settings.get(flag, log.simulated_depth)
    if not isinstance(depth, int):
        return None
    sources["depth"] = _LOG
    return depth


def _capacity(slots: SlotFacts | None, props: PropsFacts, log: LogFacts, speculating: bool | None) -> Capacity:
    """A draft model's cache is freed again when speculation does not come up."""
    kv_bytes = log.target_kv_bytes
    if kv_bytes is not None and speculating is not False:
        kv_bytes += log.draft_kv_bytes
    return Capacity(
        kv_tokens=log.kv_tokens,
        max_running=first(log.slots, props.slots, slots.count if slots else None),
        context_per_request=first(log.slot_context, props.slot_context, slots.context if slots else None),
        kv_bytes=kv_bytes,
    )


def _warnings(log: LogFacts, speculating: bool | None) -> tuple[str, ...]:
    """A draft model that is loaded and then not used leaves no trace but the line that announces it."""
    if speculating is False and log.draft_line:
        return (*log.warnings, log.draft_line)
    return log.warnings
