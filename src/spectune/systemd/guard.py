"""The guard around everything that changes a service: lock, plan on the host, and the way back at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from spectune.domain.drain import DrainSpec
from spectune.domain.errors import HostError, InputError, SpectuneError
from spectune.domain.service_state import Endpoint, FileState, Plan, Promotion, Purpose, Snapshot, Winner
from spectune.systemd.draining import ReadBusy, drain
from spectune.systemd.lock import Lock, held, owner_line
from spectune.systemd.readiness import FetchPage, Journal
from spectune.systemd.records import Records
from spectune.systemd.transaction import Restorer, Say, digest, snapshot
from spectune.systemd.unit import ManagedUnit


@dataclass(frozen=True, slots=True)
class Caller:
    """Who changes a service.

    Attributes:
        who: user and machine, for people.
        token: this process's alone; letters and digits.
    """

    who: str
    token: str


@dataclass(frozen=True, slots=True)
class Drain:
    """How the service is spared.

    Attributes:
        busy: tells what it has to do.
    """

    rule: DrainSpec = field(default_factory=DrainSpec)
    busy: ReadBusy = lambda: None


@dataclass(frozen=True, slots=True)
class Undone:
    """What a rollback has done.

    Attributes:
        words: for people.
        promotion: the one that is undone; None where something that was cut off was put back.
    """

    words: str
    promotion: Promotion | None = None


class ServiceGuard:
    """Args:
    fetch: a page of the service's endpoint.
    say: hears what is done.
    drain: when the service may be stopped; None: at once.
    """

    def __init__(
        self,
        unit: ManagedUnit,
        endpoint: Endpoint,
        fetch: FetchPage,
        journal: Journal,
        caller: Caller,
        say: Say,
        drain: Drain | None = None,
    ) -> None:
        self.unit = unit
        self.records = Records(unit)
        self._endpoint = endpoint
        self._caller = caller
        self._say = say
        self._drain = drain or Drain()
        self._restorer = Restorer(unit, fetch, journal, say)
        self._lock: Lock | None = None
        self._plan: Plan | None = None

    @contextmanager
    def around(self, purpose: Purpose = Purpose.CAMPAIGN) -> Iterator[Plan]:
        """Inside, the service may be changed; at the end, however it comes, it is put back, unless `promote` was
        called. What a killed run has left is put back first.

        Raises:
            InputError: the unit can't be worked on.
            HostError: it is busy, or somebody else changes it; or it can't be put back, and then the plan stays on
                the host.
        """
        self.unit.found()
        with self._locked(purpose):
            self._finish_interrupted()
            self._await_quiet(self._drain.rule)
            plan = Plan(
                id=self._caller.token,
                purpose=purpose,
                owner=self._owner(purpose),
                back_to=snapshot(self.unit),
                endpoint=self._endpoint,
            )
            self.records.write_plan(plan)
            self._plan = plan
            try:
                yield plan
            finally:
                left, self._plan = self._plan, None
                if left is not None:
                    self._complete(left)

    def check(self) -> None:
        """Makes sure that the service is still ours to change. Raises HostError."""
        if self._lock is not None:
            self._lock.check()

    def rollback(self, busy_too: bool = False) -> Undone:
        """Completes an interrupted change; where there is none, undoes the latest promotion.

        Args:
            busy_too: whatever the service has to do. What was cut off is put back at once in any case.

        Raises:
            InputError: there is nothing to undo, or the promoted file was changed by somebody else since.
            HostError, EngineFailure: it is busy, or can't be put back; the same command goes on from there.
        """
        self.unit.found()
        with self._locked(Purpose.UNDO):
            interrupted = self._finish_interrupted()
            if interrupted:
                return Undone(interrupted)
            promotions = self.records.promotions()
            if not promotions:
                raise InputError(
                    f"there is nothing to undo for {self.unit.name} on {self.unit.where}",
                    "No campaign was cut off there, and nothing is promoted.",
                )
            promotion = promotions[-1]
            plan = self._undo(promotion)
            if not busy_too and promotion.drain.busy_requests is not None:
                self._await_quiet(promotion.drain)
                # Anything may have changed meanwhile.
                plan = self._undo(promotion)
            self.records.write_plan(plan)
            self._complete(plan)
            return Undone(f"{self.unit.name} is as it was before promotion {promotion.number}", promotion)

    def promote(self, winner: Winner, text: str, path: str = "") -> Promotion | None:
        """Makes a changed file stay. Must be called inside `around`; afterwards nothing is put back.

        Args:
            text: the whole file.
            path: the unit file to change; "" for spectune's drop-in.

        Returns:
            What the host remembers; None where exactly this is promoted already.

        Raises:
            EngineFailure, HostError: it does not come up; the block's end puts the service back.
        """
        plan, unit = self._plan, self.unit
        assert plan is not None, "promote outside of around"
        self.check()
        drop_in = _state_of(plan.back_to, unit.drop_in)
        before = _state_of(plan.back_to, path or unit.drop_in)
        promotions = self.records.promotions()
        data = text.encode(errors="surrogateescape")
        if before.data == data and promotions and (promotions[-1].file, promotions[-1].after) == (before.path, data):
            return None
        if path and unit.read(path) != before:
            raise HostError(f"{path} on {unit.where} was changed by somebody else meanwhile", "Promote it again.")
        promotion = Promotion(
            number=promotions[-1].number + 1 if promotions else 1,
            at=unit.clock.now(),
            owner=plan.owner,
            plan=plan.id,
            winner=winner,
            before=before,
            folder_made=plan.back_to.folder_made,
            after=data,
            exec_start_before=plan.back_to.exec_start,
            exec_start=(),
            endpoint=self._endpoint,
            others=digest(_others(plan.back_to, before.path)),
            drain=self._drain.rule,
        )
        # On the host before the service changes; while the plan is there it counts for nothing.
        self.records.write_promotion(promotion)
        unit.stop(self._endpoint.port)
        if path:
            unit.put_back(drop_in, plan.back_to.folder_made)
        unit.write(before.path, promotion.after, before.mode, before.owner or None)
        unit.reload()
        for warning in unit.verify():
            self._say(f"systemd-analyze verify: {warning}")
        state = self._restorer.bring_up(plan) if plan.back_to.running else unit.show()
        promotion = replace(promotion, exec_start=state.exec_start)
        self.records.write_promotion(promotion)
        self.records.remove_plan()
        self._plan = None
        return promotion

    @contextmanager
    def _locked(self, purpose: Purpose) -> Iterator[None]:
        self.records.prepare()
        with held(self.unit, self._owner(purpose), self._caller.token) as self._lock:
            try:
                yield
            finally:
                self._lock = None

    def _owner(self, purpose: Purpose) -> str:
        at = datetime.fromtimestamp(self.unit.clock.now(), UTC).strftime("%Y-%m-%d %H:%M UTC")
        return owner_line(self._caller.who, purpose.value, at)

    def _await_quiet(self, rule: DrainSpec) -> None:
        """Waits until the service may be stopped. One that does not run is spared nothing. Raises HostError."""
        if rule.busy_requests is not None and self.unit.show().active == "active":
            drain(rule, self._drain.busy, self.unit.clock, f"{self.unit.name} on {self.unit.where}", self._say)

    def _finish_interrupted(self) -> str:
        plan = self.records.plan()
        if plan is None:
            return ""
        done = f"{self.unit.name} is as it was before {plan.owner}, which was cut off"
        self._say(f"{self.unit.name} on {self.unit.where} was left in the middle of a change by {plan.owner}")
        self._restorer.complete(plan, self.records)
        return done

    def _complete(self, plan: Plan) -> None:
        try:
            if self._lock is not None:
                there = self.records.plan()
                # Where somebody has finished this plan already, a lock that is gone is theirs, given back.
                self._lock.check(may_be_gone=there is not None and there.id == plan.id)
            self._restorer.complete(plan, self.records)
        except SpectuneError as error:
            again = f"spectune rollback --unit {self.unit.name}"
            advice = f"The way back is kept on {self.unit.where}. Once that is mended, run: {again}"
            raise HostError(f"{self.unit.name} could not be put back: {error.message}", advice) from error

    def _undo(self, promotion: Promotion) -> Plan:
        unit = self.unit
        now = snapshot(unit)
        current = next((file for file in now.files if file.path == promotion.file), None)
        if current is None or current.data != promotion.after:
            raise InputError(
                f"{promotion.file} on {unit.where} is not what was promoted any more; somebody has changed it",
                f"Look at it, then edit or delete it by hand; what it replaced is in {self.records.folder}"
                f"/promoted-{promotion.number}.",
            )
        files = tuple(promotion.before if file.path == promotion.file else file for file in now.files)
        # Where other files were changed since, nobody knows what they will make of the command line.
        same = digest(_others(now, promotion.file)) == promotion.others
        exec_start = promotion.exec_start_before if same else ()
        back_to = replace(now, files=files, folder_made=promotion.folder_made, exec_start=exec_start)
        owner = self._owner(Purpose.UNDO)
        return Plan(self._caller.token, Purpose.UNDO, owner, back_to, self._endpoint, promotion.number)


def _state_of(state: Snapshot, path: str) -> FileState:
    return next(file for file in state.files if file.path == path)


def _others(state: Snapshot, path: str) -> tuple[FileState, ...]:
    return tuple(file for file in state.files if file.path != path)
