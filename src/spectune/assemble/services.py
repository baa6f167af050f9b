"""Services under systemd: reaching their host and endpoint, and putting deployer, guard and texts together."""

from __future__ import annotations

import getpass
import ipaddress
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

from spectune.assemble.clock import SystemClock
from spectune.assemble.draining import busy_now
from spectune.assemble.host_kit import HostKit, describe, load_average
from spectune.assemble.round_trip import connect_s
from spectune.assemble.service_text import DropIns, read_service, spellings
from spectune.deploy.pages import Pages
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Evidence, Hardware, Launch, Page, Seen, Service
from spectune.domain.errors import EngineFailure, HostLost, InputError
from spectune.domain.hosts import Host, HostAddress
from spectune.domain.knobs import Knob
from spectune.domain.ports import Engine
from spectune.domain.service_state import Endpoint, Purpose
from spectune.domain.spec import ServiceSpec
from spectune.hosts import journal
from spectune.hosts.forward import Forward
from spectune.hosts.local import Local
from spectune.hosts.ssh import Ssh
from spectune.hosts.sudo import AskPassword
from spectune.systemd.deployer import PageSource, SystemdDeployer
from spectune.systemd.guard import Caller, Drain, ServiceGuard
from spectune.systemd.records import Records
from spectune.systemd.unit import DROP_IN, ManagedUnit
from spectune.systemd.unit_file import UnitFile, editable
from spectune.units.arguments import Found
from spectune.units.find import find
from spectune.units.service import ServiceUnit

SSH_CONFIG = "SPECTUNE_SSH_CONFIG"
"""Names an ssh configuration file to use in place of the user's own."""

READY_PATH = "/health"
_USER = "user:"
HERE = "this machine"
"""Where units are that are not on another host."""
_CONTAINERS = ("docker run", "podman run")

Say = Callable[[str], None]


class Way:
    """How the service's endpoint is reached from here; a context manager.

    Args:
        ssh: where requests go through ssh; None where the endpoint is reached directly.
        url: the endpoint as it is reached directly.
        port: of the endpoint on its own host.
    """

    def __init__(self, ssh: Ssh | None, url: str, port: int) -> None:
        self._ssh = ssh
        self._direct = url
        self._port = port
        self._forward: Forward | None = None

    def __enter__(self) -> Way:
        self.mend()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._forward is not None:
            self._forward.__exit__(None, None, None)

    @property
    def url(self) -> str:
        """Base URL to use from here."""
        return self._direct if self._forward is None else f"http://127.0.0.1:{self._forward.port}"

    @property
    def forwards(self) -> bool:
        """Whether it leads through ssh."""
        return self._ssh is not None

    @property
    def direct(self) -> str:
        """Base URL on the endpoint's own host."""
        return self._direct

    def round_trip_s(self) -> float:
        """Seconds that a round trip to the endpoint takes from here; 0 where it can't be told, or stays here."""
        if self._forward is not None:
            return self._forward.latency_s
        return connect_s(self._direct) or 0.0

    @property
    def words(self) -> str:
        """What the way adds to each request, for people; "" where it adds nothing."""
        return "" if self._forward is None else self._forward.words

    @property
    def where(self) -> str:
        return HERE if self._ssh is None else self._ssh.name

    @property
    def lost(self) -> bool:
        return self._forward is not None and not self._forward.is_alive()

    def mend(self) -> None:
        """Opens the way again where its connection was lost. Raises HostError."""
        if self._ssh is None or (self._forward is not None and not self.lost):
            return
        if self._forward is not None:
            self._forward.__exit__(None, None, None)
        self._forward = self._ssh.forward(self._port).__enter__()

    def fetch(self, path: str, timeout_s: float, headers: Mapping[str, str] = MappingProxyType({})) -> Page:
        """One page, over a way that is mended first."""
        self.mend()
        pages = Pages(self.url, SystemClock(), headers)
        try:
            return pages.get(path, timeout_s)
        finally:
            pages.close()

    @contextmanager
    def pages(self, launch: Launch) -> Iterator[PageSource]:
        """Pages of a launch's endpoint, while the way holds."""
        pages = Pages(self.url, SystemClock(), launch.headers)
        try:
            yield _PagesOverWay(pages, self)
        finally:
            pages.close()


@dataclass(frozen=True, slots=True)
class _PagesOverWay:
    """Tells a lost connection from a dead server. See PageSource."""

    source: Pages
    way: Way

    def get(self, path: str, timeout_s: float) -> Page:
        return self._checked({path: self.source.get(path, timeout_s)})[path]

    def get_all(self, paths: Iterable[str]) -> Mapping[str, Page]:
        return self._checked(self.source.get_all(paths))

    def _checked(self, pages: Mapping[str, Page]) -> Mapping[str, Page]:
        if any(not page.status for page in pages.values()) and self.way.lost:
            raise HostLost(f"the connection to {self.way.where} was lost", "The same command goes on from here.")
        return pages


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


@contextmanager
def connected(remote: str, ask: AskPassword | None) -> Iterator[Host]:
    """A host by the name that ssh knows it by; "" is this machine."""
    if not remote:
        yield Local(SystemClock(), ask)
        return
    address = HostAddress(remote, config=os.environ.get(SSH_CONFIG, ""))
    with Ssh(address, SystemClock(), ask) as ssh:
        yield ssh


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


def way_to(host: Host, address: str, port: int) -> Way:
    """Directly where the address means something here, else through ssh."""
    through = host if isinstance(host, Ssh) and _only_from_itself(address) else None
    direct = "127.0.0.1" if address in {"0.0.0.0", "::", ""} else address
    return Way(through, f"http://[{direct}]:{port}" if ":" in direct else f"http://{direct}:{port}", port)


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


def _only_from_itself(address: str) -> bool:
    """Whether an address of the host means nothing here."""
    if address in {"", "localhost"}:
        return True
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return ip.is_loopback or ip.is_unspecified


def _variables(unit: Mapping[str, str], spec: Mapping[str, str]) -> dict[str, str]:
    """Variables with which the engine is asked for its flags: where it is installed, and no secrets."""
    wanted = {name: value for name, value in unit.items() if name in {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"}}
    return {**wanted, **{name: value for name, value in spec.items() if name in {"PYTHONPATH", "LD_LIBRARY_PATH"}}}
