"""Effective settings and speculation, put together from what pages and log tell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from spectune.domain.candidate import Method
from spectune.domain.knobs import KnobValue
from spectune.engines.common.pages import simulated
from spectune.engines.common.settings import as_setting
from spectune.engines.vllm.flags import Flag, FlagTable
from spectune.engines.vllm.log import LogFacts
from spectune.engines.vllm.methods import DEPTH, method_named
from spectune.engines.vllm.metrics import Metrics
from spectune.engines.vllm.pages import ServerInfo, whole
from spectune.engines.vllm.speckeys import DRAFT_LOAD, GRAPH_MODE, KEYS, METHOD, REJECTION, REMEMBERED

RUNNER, ASYNC = "model-runner", "async-scheduling"
"""With GRAPH_MODE: settings in which two arms may differ without anybody having asked. The runner is no flag: vLLM
chooses it by model, speculation and the variable VLLM_USE_V2_MODEL_RUNNER."""

LOG = "log"
_NOT_SETTINGS = frozenset({"model", "host", "port", "api-key", "hf-token"})
_OF_ONE_START = ("-port", "-addr", "-address")
"""Flags that end so are chosen anew at each start, and tune nothing."""

_ELSEWHERE: Mapping[str, tuple[str, str]] = {
    "kv-cache-dtype": ("cache_config", "cache_dtype"),
    "attention-backend": ("attention_config", "backend"),
    "scheduling-policy": ("scheduler_config", "policy"),
    "optimization-level": ("", "optimization_level"),
    "performance-mode": ("", "performance_mode"),
}
"""Flags that /server_info reports under another key than their own."""

_IN_LINE = {"max-model-len": "max_seq_len"}
"""Flags that the configuration in the log has under another key than their own."""

_GRAPH_MODES = {0: "none", 1: "piecewise", 2: "full", (2, 0): "full_decode_only", (2, 1): "full_and_piecewise"}
_SIZES = ("cudagraph-capture-sizes", "max-cudagraph-capture-size")


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of a server's configuration, the page before the log.

    Attributes:
        info: the page.
        line: configuration as its text form or the log has it.
        args: settings that were given, from the log.
    """

    info: ServerInfo
    line: Mapping[str, object]
    args: Mapping[str, object]

    @property
    def from_page(self) -> bool:
        return bool(self.info.sections or self.info.line)

    @property
    def compilation(self) -> Mapping[str, object]:
        section = self.info.section("compilation_config")
        nested = self.line.get("compilation_config")
        return section if section is not None else nested if isinstance(nested, dict) else {}

    def number(self, key: str) -> int | None:
        """A whole number that goes by the same key everywhere."""
        found = self.info.find(key)
        return whole(found if found is not None else self.line.get(key, self.args.get(key)))

    @property
    def device(self) -> str | None:
        found = self.info.find("device", "device_config") or self.line.get("device_config")
        return str(found) if found is not None else None


def told_of(info: ServerInfo, log: LogFacts) -> Told:
    return Told(info, info.line or log.config, log.args)


def speculation_of(told: Told, metrics: Metrics | None) -> tuple[bool | None, Mapping[str, object]]:
    """Whether the server speculates (None where nothing tells), and what is told of how.

    The log tells method, model and depth that run, and the rest as it was asked.
    """
    section = told.info.section("speculative_config")
    if section is not None:
        return bool(section), section
    asked = told.args.get("speculative_config")
    given = asked if isinstance(asked, dict) else {}
    if "speculative_config" in told.line:
        live = told.line["speculative_config"]
        if not isinstance(live, dict):
            return False, {}
        return True, {**given, **_renamed(live)}
    if metrics is not None:
        speculates = "drafts" in metrics.totals
        return speculates, given if speculates else {}
    return (True, given) if given else (None, {})


def _renamed(live: Mapping[str, object]) -> dict[str, object]:
    return {DEPTH if key == "num_spec_tokens" else key: value for key, value in live.items()}


def method_of(speculating: bool | None, config: Mapping[str, object]) -> Method | None:
    if speculating is False:
        return Method.NONE
    return method_named(config.get(METHOD)) if speculating else None


def depth_of(speculating: bool | None, config: Mapping[str, object], metrics: Metrics | None) -> int | None:
    """Effective k; under a schedule it is the greatest."""
    if speculating is False:
        return 0
    depth = whole(config.get(DEPTH))
    if depth is None and speculating and metrics is not None and metrics.per_position:
        return len(metrics.per_position)
    return depth if speculating else None


def settings_of(
    told: Told, log: LogFacts, config: Mapping[str, object], method: Method | None, table: FlagTable
) -> dict[str, KnobValue]:
    """Effective settings by canonical name. Secrets are left out."""
    found: dict[str, KnobValue] = {}
    for flag in table.flags.values():
        if flag.kind == "json" or flag.name in _NOT_SETTINGS or flag.name.endswith(_OF_ONE_START):
            continue
        value = _plain(_value(flag, told), flag.many)
        if value is not None:
            found[flag.name] = value
    for name in _SIZES:
        value = _plain(told.compilation.get(name.replace("-", "_")), many=name == _SIZES[0])
        if value is not None:
            found[name] = value
    if ASYNC not in found and log.async_scheduling is not None:
        found[ASYNC] = log.async_scheduling
    if mode := graph_mode(told, log):
        found[GRAPH_MODE] = mode
    if runner := _runner(told, log):
        found[RUNNER] = runner
    return found | _speculative(config, method)


def _value(flag: Flag, told: Told) -> object:
    if told.info.sections:
        section, key = _ELSEWHERE.get(flag.name, (None, flag.key))
        return told.info.find(key) if section is None else told.info.find(key, section)
    return told.line.get(_IN_LINE.get(flag.name, flag.key), told.args.get(flag.key))


def _speculative(config: Mapping[str, object], method: Method | None) -> dict[str, KnobValue]:
    found: dict[str, KnobValue] = {}
    for key in KEYS:
        value = config.get(key.key)
        if value is None or method not in key.methods:
            continue
        plain = json.dumps(value, default=str) if key.json else _plain(value, many=False)
        if plain is not None:
            found[key.name] = plain
    return found


def _plain(value: object, many: bool) -> KnobValue | None:
    return value.removeprefix("torch.") if isinstance(value, str) else as_setting(value, many)


def graph_mode(told: Told, log: LogFacts) -> str | None:
    """Mode of CUDA graphs in vLLM's words, lower case. Workers may change it after the configuration was made, which
    only the log tells; graphs that are off stay off."""
    configured = _configured_mode(told)
    return configured if configured == "none" else log.graph_mode or configured


def _configured_mode(told: Told) -> str | None:
    mode = told.compilation.get("cudagraph_mode")
    if isinstance(mode, str):
        return mode.lower()
    key = tuple(mode) if isinstance(mode, list) and all(isinstance(part, int) for part in mode) else mode
    return _GRAPH_MODES.get(key) if isinstance(key, (int, tuple)) else None


def _runner(told: Told, log: LogFacts) -> str | None:
    if log.runner is not None:
        return log.runner
    wanted = told.info.env.get("VLLM_USE_V2_MODEL_RUNNER")
    return None if wanted is None else "V2" if wanted else "V1"


def invalid_output_of(told: Told, config: Mapping[str, object], version: str | None) -> str | None:
    """Why the server's output or acceptance is not real; None where nothing says so."""
    if made_up := simulated(version):
        return made_up
    if config.get(REJECTION) == "synthetic":
        return f"vLLM invents acceptance ({REJECTION} synthetic): tokens are not the model's"
    if _load_format(told) == "dummy":
        return "the model runs with random weights (load-format dummy)"
    own = config.get(DRAFT_LOAD)
    if isinstance(own, dict) and own.get("load_format") == "dummy":
        return f"the draft model runs with random weights ({DRAFT_LOAD}): acceptance is not real"
    return None


def invents_text(told: Told, config: Mapping[str, object]) -> bool:
    """Whether the text is none of the model's. A draft with random weights leaves it as it is."""
    return config.get(REJECTION) == "synthetic" or _load_format(told) == "dummy"


def _load_format(told: Told) -> object:
    found = told.info.find("load_format", "load_config")
    return found if found is not None else told.line.get("load_format", told.args.get("load_format"))


def sources_of(settings: Mapping[str, KnobValue], where: str, told: Told, log: LogFacts) -> dict[str, str]:
    """Where each setting was read: the configuration, or a line of the log about it alone."""
    only_log = {
        RUNNER: log.runner is not None,
        GRAPH_MODE: log.graph_mode is not None and settings.get(GRAPH_MODE) != _configured_mode(told),
        ASYNC: where == LOG,
    }
    return {name: LOG if only_log.get(name) else where for name in settings}


def notes_of(config: Mapping[str, object], log: LogFacts, load: int | None) -> tuple[str, ...]:
    """Facts worth keeping that are no settings."""
    found = list(log.notes)
    if config.get(REJECTION) == "fly":
        found.append(f"{REJECTION} fly is lossy: answers are not those of the model alone")
    remembered = config.get(REMEMBERED)
    if config.get(METHOD) == "suffix" and remembered:
        found.append(
            f"suffix remembers up to {remembered} answers: a prompt that comes again is drafted from its answer"
        )
    if load:
        found.append(f"{load} requests were in flight when the settings were read")
    return tuple(found)
