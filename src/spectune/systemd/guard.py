"""The guard around everything that changes a service: lock, plan on the host, and the way back at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from spectune.domain.errors import HostError, InputError, SpectuneError
from spectune.domain.service_state import Endpoint, FileState, Plan, Promotion, Purpose, Snapshot, Winner
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


class ServiceGuard:
    """Args:
    fetch: a page of the service's endpoint.
    say: hears what is done.
    """

    def __init__(
        self,
        unit: ManagedUnit,
        endpoint: Endpoint,
        fetch: FetchPage,
        journal: Journal,
        caller: Caller,
        say: Say,
    ) -> None:
        self.unit = unit
        self.records = Records(unit)
        self._endpoint = endpoint
        self._caller = caller
        self._say = say
        self._restorer = Restorer(unit, fetch, journal, say)
        self._lock: Lock | None = None
        self._plan: Plan | None = None

    @contextmanager
    def around(self, purpose: Purpose = Purpose.CAMPAIGN) -> Iterator[Plan]:
        """Inside, the service may be changed; at the end, however it comes, it is put back, unless `promote` was
        called. What a killed run has left is put back first.

        Raises:
            InputError: the unit can't be worked on.
            HostError: somebody else changes it; or it can't be put back, and then the plan stays on the host.
        """
        self.unit.found()
        with self._locked(purpose):
            self._finish_interrupted()
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

    def rollback(self) -> str:
        """Completes an interrupted change; where there is none, undoes the latest promotion.

        Returns:
            What was done, for people.

        Raises:
            InputError: there is nothing to undo, or the promoted drop-in was changed by somebody else since.
            HostError, EngineFailure: it can't be put back; the same command goes on from there.
        """
        self.unit.found()
        with self._locked(Purpose.UNDO):
            interrupted = self._finish_interrupted()
            if interrupted:
                return interrupted
            promotions = self.records.promotions()
            if not promotions:
                raise InputError(
                    f"there is nothing to undo for {self.unit.name} on {self.unit.where}",
                    "No campaign was cut off there, and nothing is promoted.",
                )
            plan = self._undo(promotions[-1])
            self.records.write_plan(plan)
            self._complete(plan)
            return f"{self.unit.name} is as it was before promotion {plan.undoes}"

    def promote(self, winner: Winner, text: str) -> Promotion | None:
        """Makes a drop-in stay. Must be called inside `around`; afterwards nothing is put back.

        Returns:
            What the host remembers; None where exactly this is promoted already.

        Raises:
            EngineFailure, HostError: it does not come up; the block's end puts the service back.
        """
        plan, unit = self._plan, self.unit
        assert plan is not None, "promote outside of around"
        self.check()
        before = next(file for file in plan.back_to.files if file.path == unit.drop_in)
        promotions = self.records.promotions()
        if before.data == text.encode() and promotions and promotions[-1].after == before.data:
            return None
        promotion = Promotion(
            number=promotions[-1].number + 1 if promotions else 1,
            at=unit.clock.now(),
            owner=plan.owner,
            plan=plan.id,
            winner=winner,
            before=before,
            folder_made=plan.back_to.folder_made,
            after=text.encode(),
            exec_start_before=plan.back_to.exec_start,
            exec_start=(),
            endpoint=self._endpoint,
            others=digest(_others(plan.back_to, unit)),
        )
        # On the host before the service changes; while the plan is there it counts for nothing.
        self.records.write_promotion(promotion)
        unit.stop(self._endpoint.port)
        unit.write(unit.drop_in, promotion.after)
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
        current = next(file for file in now.files if file.path == unit.drop_in)
        if current.data != promotion.after:
            raise InputError(
                f"{unit.drop_in} on {unit.where} is not what was promoted any more; somebody has changed it",
                f"Look at it, then edit or delete it by hand; what it replaced is in {self.records.folder}"
                f"/promoted-{promotion.number}.",
            )
        files = tuple(promotion.before if file.path == unit.drop_in else file for file in now.files)
        # Where other files were changed since, nobody knows what they will make of the command line.
        same = digest(_others(now, unit)) == promotion.others
        exec_start = promotion.exec_start_before if same else ()
        back_to = replace(now, files=files, folder_made=promotion.folder_made, exec_start=exec_start)
        owner = self._owner(Purpose.UNDO)
        return Plan(self._caller.token, Purpose.UNDO, owner, back_to, self._endpoint, promotion.number)


def _others(state: Snapshot, unit: ManagedUnit) -> tuple[FileState, ...]:
    return tuple(file for file in state.files if file.path != unit.drop_in)
