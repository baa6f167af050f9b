"""Services under systemd: reaching their host and endpoint, and putting deployer, guard and texts together."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace

from spectune.assemble.clock import SystemClock
from spectune.assemble.draining import busy_now
from spectune.assemble.host_kit import HostKit, describe, load_average
from spectune.assemble.service_text import DropIns, read_service, spellings
from spectune.assemble.ways import HERE, Way, connected, way_to
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Evidence, Hardware, Launch, Seen, Service
from spectune.domain.errors import EngineFailure, InputError
from spectune.domain.hosts import Host
from spectune.domain.knobs import Knob
from spectune.domain.ports import Engine
from spectune.domain.service_state import Endpoint, Purpose
from spectune.domain.spec import ServiceSpec
from spectune.hosts import journal
from spectune.hosts.sudo import AskPassword
from spectune.systemd.deployer import SystemdDeployer
from spectune.systemd.guard import Caller, Drain, ServiceGuard
from spectune.systemd.records import Records
from spectune.systemd.unit import DROP_IN, ManagedUnit
from spectune.systemd.unit_file import UnitFile, editable
from spectune.units.arguments import Found
from spectune.units.find import find
from spectune.units.service import ServiceUnit

READY_PATH = "/health"
_USER = "user:"
_CONTAINERS = ("docker run", "podman run")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reached:
    """An engine whose endpoint is reached at another address than it listens on. See Engine."""

    engine: Engine
    way: Way

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def knobs(self) -> Mapping[str, Knob]:
        return self.engine.knobs

    def baseline(self, service: Service) -> Candidate:
        return self.engine.baseline(service)

    def launch(self, service: Service, candidate: Candidate) -> Launch:
        return replace(self.engine.launch(service, candidate), url=self.way.url)

    def read(self, evidence: Evidence) -> Seen:
        return self.engine.read(evidence)

    def diagnose(self, failure: EngineFailure) -> EngineFailure:
        return self.engine.diagnose(failure)


@dataclass(frozen=True, slots=True)
class Site:
    """A service on its host.

    Attributes:
        kit: finds engine and model there.
        texts: the unit's texts, as drop-ins are written for them.
        contained: the engine runs in a container.
    """

    host: Host
    unit: ManagedUnit
    way: Way
    kit: HostKit
    texts: DropIns
    guard: ServiceGuard
    contained: bool
    say: Say

    def hardware(self) -> Hardware:
        return describe(self.host, self.unit.where)

    def load_average(self) -> float:
        return load_average(self.host)

    def gpu_memory(self) -> int | None:
        """Bytes in use on the GPUs that the service sees; None where there is none."""
        return self.kit.gpu_memory()

    def deployer(self, port: int, say: Callable[[str, str], None]) -> SystemdDeployer:
        """Deploys to the unit, as long as the guard's lock is ours."""

        def before_change() -> None:
            self.way.mend()
            self.guard.check()

        return SystemdDeployer(
            self.unit,
            port,
            self.texts,
            self.way.pages,
            self.journal,
            contained=self.contained,
            before_change=before_change,
            say=say,
        )

    def journal(self, invocation: str) -> str:
        """The log of one start."""
        return journal.read(self.host, self.unit.name, invocation, sudo=self.unit.sudo)


def managed(host: Host, remote: str, unit: str) -> ManagedUnit:
    """A unit as campaign files name it."""
    name = unit.removeprefix(_USER)
    return ManagedUnit(host, name, SystemClock(), remote or HERE, user=name != unit)


@contextmanager
def site(service: ServiceSpec, ask: AskPassword | None, say: Say) -> Iterator[Site]:
    """The service of a campaign file, reached; nothing is changed.

    Raises:
        InputError: there is no such unit, its command line can't be found, or the file lacks its port.
        HostError: the host can't be reached.
    """
    if not service.port:
        raise InputError("service.port must be the port of the unit", "Write the port that the service listens on.")
    with ExitStack() as stack:
        host = stack.enter_context(connected(service.remote, ask))
        unit = managed(host, service.remote, service.unit)
        texts = settled_texts(read_service(unit), unit)
        found = find(texts)
        if found.engine != service.engine:
            raise InputError(f"{unit.name} starts {found.engine}, and service.engine is {service.engine}")
        if service.edit_unit:
            check_editable(unit, found)
        way = stack.enter_context(way_to(host, service.host, service.port))
        contained = any(step.startswith(_CONTAINERS) for step in found.path)
        guard = ServiceGuard(
            unit,
            Endpoint(service.port, READY_PATH, service.ready_timeout_s, contained, service.host),
            way.fetch,
            lambda invocation: journal.read(host, unit.name, invocation, sudo=unit.sudo),
            caller(),
            say,
            Drain(service.drain, lambda: busy_now(texts, way.fetch)),
        )
        kit = HostKit(service.engine, host, unit.where, _variables(texts.environment().values, service.env))
        drop_ins = DropIns(texts, spellings(service.engine))
        yield Site(host, unit, way, kit, drop_ins, guard, contained, say)


def check_editable(unit: ManagedUnit, found: Found) -> UnitFile:
    """The file that holds a unit's command line, where it may be edited. Raises InputError."""
    assert found.entry is not None
    if found.entry.file == DROP_IN:
        raise InputError(
            f"{unit.name} has a promoted drop-in of spectune, which would override a change of the unit file",
            "Undo it first with spectune rollback, or leave --edit-unit out (service.edit_unit: false).",
        )
    return editable(unit, unit.found(), found.entry.file)


def caller() -> Caller:
    """This process, for locks and plans."""
    return Caller(f"{getpass.getuser()}@{socket.gethostname()} pid {os.getpid()}", secrets.token_hex(8))


def around(found: Site | None) -> AbstractContextManager[object]:
    """The guard around a campaign; nothing where it has servers of its own."""
    return ExitStack() if found is None else found.guard.around(Purpose.CAMPAIGN)


def settled_texts(texts: ServiceUnit, unit: ManagedUnit) -> ServiceUnit:
    """A unit's texts as they are once what was cut off there is put back."""
    records = Records(unit)
    plan = records.plan()
    if plan is None:
        return texts
    fragment = unit.show().fragment
    own = next((file.data for file in plan.back_to.files if file.path == unit.drop_in), None)
    texts = texts.without(DROP_IN) if own is None else texts.with_file(DROP_IN, _text(own))
    for promotion in records.promotions():
        if promotion.plan != plan.id or promotion.file == unit.drop_in or promotion.before.data is None:
            continue
        name = unit.name if promotion.file == fragment else promotion.file.rpartition("/")[2]
        if texts.text_of(name) == _text(promotion.after):
            texts = texts.with_file(name, _text(promotion.before.data))
    return texts


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _variables(unit: Mapping[str, str], spec: Mapping[str, str]) -> dict[str, str]:
    """Variables with which the engine is asked for its flags: where it is installed, and no secrets."""
    wanted = {name: value for name, value in unit.items() if name in {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"}}
    return {**wanted, **{name: value for name, value in spec.items() if name in {"PYTHONPATH", "LD_LIBRARY_PATH"}}}
