"""The state of a service under systemd: what is seen, what is to be put back, and what was promoted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spectune.domain.drain import DrainSpec


@dataclass(frozen=True, slots=True)
class FileState:
    """A file of the host as it is, or is to be.

    Attributes:
        data: None where there is no such file.
        mode: permission bits.
        owner: "user:group" as numbers.
    """

    path: str
    data: bytes | None
    mode: int = 0o644
    owner: str = ""


@dataclass(frozen=True, slots=True)
class UnitState:
    """What systemd says about a unit.

    Attributes:
        name: its own name; differs from the asked one where that is an alias.
        load: "loaded", "not-found", "masked", "bad-setting", "error".
        active, sub, result: as `systemctl show` spells them.
        enabled: "enabled", "disabled", "static", ...
        main_pid: 0 where nothing runs.
        exit_code: of the last main process; negative for a signal; None where it has not ended.
        invocation: id of the latest start; empty where it never ran.
        restarts: how often systemd has restarted it by itself since the last start that was asked for.
        control_group: path below the root of control groups; empty where there is none.
        fragment: path of the unit file; empty where there is none.
        drop_ins: paths, in the order in which they count.
        exec_start: the command line of each ExecStart=, variables not yet replaced, words joined by spaces.
        needs_reload: files are newer than what systemd has read.
        active_since: seconds since the epoch; None where it does not run.
        stop_timeout_s: how long systemd waits before SIGKILL; None for ever.
    """

    name: str
    load: str
    active: str
    sub: str
    result: str = "success"
    enabled: str = ""
    main_pid: int = 0
    exit_code: int | None = None
    invocation: str = ""
    restarts: int = 0
    control_group: str = ""
    fragment: str = ""
    drop_ins: tuple[str, ...] = ()
    exec_start: tuple[str, ...] = ()
    needs_reload: bool = False
    active_since: float | None = None
    stop_timeout_s: float | None = 90.0
    description: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        """Whether it is up, or systemd is about to bring it up."""
        return self.active in {"active", "activating", "reloading"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a service answers, as seen on its own host.

    Attributes:
        contained: the engine runs in a container, whose processes are not the unit's: who listens can't be told.
        address: that it listens on.
        ready_path: answers 200 when the model is loaded.
        ready_timeout_s: longest time without a sign of progress.
    """

    port: int
    ready_path: str
    ready_timeout_s: float
    contained: bool = False
    address: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A service before anything was changed.

    Attributes:
        files: the unit file, every drop-in, and spectune's own drop-in, present or not.
        folder_made: spectune's drop-in had no folder yet.
        running: it was up and is to be started again.
        exec_start: see UnitState; what must be in force again at the end; empty where that is not known.
        invocation: id of the start that was running; tells whether anything has happened since.
    """

    unit: str
    files: tuple[FileState, ...]
    folder_made: bool
    enabled: str
    running: bool
    exec_start: tuple[str, ...]
    taken_at: float
    invocation: str


class Purpose(StrEnum):
    """Why a service is being changed."""

    CAMPAIGN = "campaign"
    PROMOTION = "promotion"
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is written on the host before its first change: how to put things back, whoever does it.

    Attributes:
        id: unique.
        owner: who made it, for people.
        back_to: the state to put back. For an undo that is the state before the promotion.
        undoes: number of the promotion that is gone once this plan is completed; 0 for none.
    """

    id: str
    purpose: Purpose
    owner: str
    back_to: Snapshot
    endpoint: Endpoint
    undoes: int = 0


@dataclass(frozen=True, slots=True)
class Winner:
    """What is to be promoted, and where it comes from.

    Attributes:
        words: why it is promoted although spectune would refuse; empty where it would not.
    """

    campaign: str
    candidate: str
    label: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Promotion:
    """A winner in the real service, as the host remembers it.

    Attributes:
        number: 1, 2, ... on this host and unit.
        plan: id of the plan under which it was written.
        before: the file that it replaced: spectune's drop-in, or the unit file that it changed.
        folder_made: see Snapshot.
        after: what was written there.
        exec_start_before, exec_start: what was in force before, and is since.
        others: digest of the unit's other files at that time.
        drain: when the service may be stopped to undo it.
    """

    number: int
    at: float
    owner: str
    plan: str
    winner: Winner
    before: FileState
    folder_made: bool
    after: bytes
    exec_start_before: tuple[str, ...]
    exec_start: tuple[str, ...]
    endpoint: Endpoint
    others: str = ""
    drain: DrainSpec = field(default_factory=DrainSpec)

    @property
    def file(self) -> str:
        """Path of what was written."""
        return self.before.path
