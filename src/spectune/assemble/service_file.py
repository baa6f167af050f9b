"""A campaign for a unit as it is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from spectune.assemble.host_kit import HostKit
from spectune.assemble.service_text import read_items, read_service, spellings
from spectune.assemble.services import check_editable, managed
from spectune.assemble.ways import connected
from spectune.domain.candidate import Method
from spectune.domain.deployment import Service
from spectune.domain.errors import HostError, InputError
from spectune.domain.knobs import KnobValue
from spectune.domain.ports import Engine
from spectune.domain.redaction import is_secret
from spectune.domain.spec import CampaignSpec, SearchSpec, ServiceSpec, SpeculationSpace, WorkloadSpec
from spectune.hosts.sudo import AskPassword
from spectune.systemd.records import Records
from spectune.units.arguments import Found
from spectune.units.find import find
from spectune.units.flags import Spellings, items

_PORTS = {"sglang": 30000, "llama.cpp": 8080}
"""Where an engine listens that is not told."""
_MODELS = ("model-path", "model")
_ENGINE_VARIABLES = ("SGLANG_", "SGL_", "LLAMA_")
_LEVELS = (1, 4, 16)
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,14})")
_DECIMAL = re.compile(r"-?\d{1,9}\.\d{1,9}")


def spec_from_unit(remote: str, unit: str, name: str, ask: AskPassword | None, edit_unit: bool = False) -> CampaignSpec:
    """A campaign that starts from what a unit runs today.

    Args:
        edit_unit: promote by changing the unit file itself.

    Raises:
        InputError: there is no such unit, or its engine can't be found or tuned there.
        HostError: the host can't be reached, or a campaign was cut off there and not undone.
    """
    with connected(remote, ask) as host:
        here = managed(host, remote, unit)
        texts = read_service(here)
        plan = Records(here).plan()
        if plan is not None:
            again = (
                f"spectune rollback --remote {remote} --unit {unit}" if remote else f"spectune rollback --unit {unit}"
            )
            raise HostError(f"{here.name} is in the middle of a change by {plan.owner}", f"Undo it first: {again}")
        found = find(texts)
        if edit_unit:
            check_editable(here, found)
        if found.engine not in _PORTS:
            raise InputError(f"{here.name} starts {found.engine}, which campaigns can't tune yet")
        environment = texts.environment().values
        env = {
            variable: value
            for variable, value in environment.items()
            if variable.startswith(_ENGINE_VARIABLES) and not is_secret(variable)
        }
        service = _service(found, spellings(found.engine), remote, unit, env)
        engine = HostKit(found.engine, host, here.where, environment).locate(service, lambda text, done: None, False)
        search = SearchSpec(speculation=_spaces(engine.adapter, service))
        service = replace(service, edit_unit=edit_unit)
    return CampaignSpec(name=name, service=service, search=search, workload=WorkloadSpec(concurrency=_LEVELS))


def _service(found: Found, spelled: Spellings, remote: str, unit: str, env: dict[str, str]) -> ServiceSpec:
    if not found.program or any(step.startswith(("docker ", "podman ")) for step in found.path):
        raise InputError(
            f"the engine runs in a container ({found.where}), where spectune can't ask it for its version and flags",
            "Write the campaign file by hand, with service.binary and service.entry of an engine on the host.",
        )
    args = settings([arg.text for arg in found.args], spelled)
    positional = next((item.values[0] for item in items([a.text for a in found.args], spelled) if not item.name), "")
    model = next((str(args[name]) for name in _MODELS if name in args), positional)
    if not model:
        raise InputError(f"{found.where} names no model", "Write it into the unit as a flag.")
    host, port = str(args.get("host", "127.0.0.1")), int(args.get("port", _PORTS[found.engine]))
    rest = {name: value for name, value in args.items() if name not in {*_MODELS, "host", "port"}}
    return ServiceSpec(
        engine="sglang" if found.engine == "sglang" else "llama.cpp",
        binary=found.program[0],
        entry=shlex.join(found.program[1:]),
        model=model,
        args=rest,
        env=env,
        host=host,
        port=port,
        remote=remote,
        unit=unit,
    )


def settings(words: Sequence[str], spelled: Spellings) -> dict[str, KnobValue]:
    """Arguments as settings; of a flag given several times the last counts, as engines have it."""
    found: dict[str, KnobValue] = {}
    for item in read_items(words, spelled):
        off = spelled.is_off(item.spelling.lstrip("-"))
        found[item.name] = False if off else _value(" ".join(item.values)) if item.values else True
    return found


def _value(text: str) -> KnobValue:
    """A number where it is written as one, text otherwise."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return text


def _spaces(engine: Engine, service: ServiceSpec) -> tuple[SpeculationSpace, ...]:
    """The method that the service uses already, at all usual depths; drafts from the prompt where it uses none."""
    now = Service(
        engine=service.engine,
        binary=service.binary,
        model=service.model,
        args=service.args,
        env=service.env,
        host=service.host,
        port=service.port,
        model_id=str(service.args.get("served-model-name", service.model)),
        entry=tuple(shlex.split(service.entry)),
    )
    speculation = engine.baseline(now).speculation
    if speculation.method is Method.NONE:
        return (SpeculationSpace(Method.NGRAM, depths=(2, 4, 8)),)
    depths = tuple(sorted({1, 2, 3, 4, speculation.depth}))
    return (SpeculationSpace(speculation.method, depths, speculation.draft_model),)
