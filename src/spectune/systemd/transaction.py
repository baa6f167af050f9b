"""Snapshots of a service, and putting one back."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Sequence

from spectune.domain.errors import HostError
from spectune.domain.service_state import FileState, Plan, Promotion, Snapshot, UnitState
from spectune.systemd.readiness import FetchPage, Journal, Waiting
from spectune.systemd.records import Records
from spectune.systemd.unit import ManagedUnit, description

Say = Callable[[str], None]


def snapshot(unit: ManagedUnit) -> Snapshot:
    """The service as it is.

    Raises:
        InputError: it can't be worked on.
        HostError: it can't be read, or its files are newer than what systemd has read.
    """
    state = unit.found()
    if state.needs_reload:
        raise HostError(
            f"files of {unit.name} on {unit.where} were changed, and systemd has not read them yet",
            f"Run there: {' '.join(unit.systemctl)} daemon-reload (and restart, if the service is to use them).",
        )
    if state.sub == "auto-restart":
        raise HostError(
            f"{unit.name} on {unit.where} keeps failing, and systemd keeps starting it: {description(state)}",
            "Mend the service first: what does not run can't be put back.",
        )
    paths = dict.fromkeys((state.fragment, *state.drop_ins, unit.drop_in))
    folder = posixpath.dirname(unit.drop_in)
    made = unit.host.run(["test", "-d", folder], timeout_s=30.0, sudo=unit.sudo).code != 0
    return Snapshot(
        unit=unit.name,
        files=tuple(unit.read(path) for path in paths),
        folder_made=made,
        enabled=state.enabled,
        running=state.runs,
        exec_start=state.exec_start,
        taken_at=unit.clock.now(),
        invocation=state.invocation,
    )


class Restorer:
    """Puts services back.

    Args:
        fetch: a page of the service's own endpoint.
        say: hears what is done.
    """

    def __init__(self, unit: ManagedUnit, fetch: FetchPage, journal: Journal, say: Say) -> None:
        self._unit = unit
        self._fetch = fetch
        self._journal = journal
        self._say = say

    def complete(self, plan: Plan, records: Records) -> None:
        """Puts back what a plan says, whatever has happened since, and removes the plan. May be done again after it
        was cut off at any point.

        Raises:
            EngineFailure: the old service does not come up; its files are as they were.
            HostError: the host does not let it be done; the plan stays.
        """
        promotions = records.promotions()
        concerned = [one for one in promotions if one.plan == plan.id or one.number == plan.undoes]
        self._put_back(plan, concerned)
        for promotion in concerned:
            records.remove_promotion(promotion.number)
        records.remove_plan()

    def bring_up(self, plan: Plan) -> UnitState:
        """Starts the service with the files that are there, waits until it is ready, and returns what systemd says."""
        unit = self._unit
        before = unit.show().invocation
        waiting = Waiting(unit, plan.endpoint, self._fetch, self._journal, before, say=self._say)
        unit.start()
        return waiting.until_ready().look.state

    def _put_back(self, plan: Plan, promotions: Sequence[Promotion]) -> None:
        unit, old = self._unit, plan.back_to
        ours = self._changed_by_us(old, promotions)
        if old.folder_made and all(file.path != unit.drop_in for file in ours):
            # The folder may have been made for a drop-in that was never written, or that somebody else has deleted.
            unit.remove_folder(unit.drop_in)
        state = unit.show()
        runs_on = state.invocation == old.invocation if old.running else True
        if not ours and not state.needs_reload and state.runs == old.running and runs_on:
            return
        self._say(f"putting {unit.name} back")
        unit.stop(plan.endpoint.port)
        for file in ours:
            unit.put_back(file, old.folder_made)
        unit.reload()
        state = unit.show()
        self._name_changes_of_others(old, state)
        if old.running:
            state = self.bring_up(plan)
            self._say(f"{unit.name} runs again as before")

    def _changed_by_us(self, old: Snapshot, promotions: Sequence[Promotion]) -> tuple[FileState, ...]:
        """Old states of the files that spectune has changed: its own drop-in, whatever is in it now, and a unit file
        that holds exactly what a promotion has written there."""
        unit = self._unit
        written = {one.file: one.after for one in promotions if one.file != unit.drop_in}
        found = []
        for file in old.files:
            if file.path != unit.drop_in and file.path not in written:
                continue
            now = unit.read(file.path)
            if now != file and (file.path == unit.drop_in or now.data == written[file.path]):
                found.append(file)
        return tuple(found)

    def _name_changes_of_others(self, old: Snapshot, state: UnitState) -> None:
        """What somebody else has changed meanwhile is theirs: it is left alone, and named."""
        unit = self._unit
        changed = [file.path for file in old.files if file.path != unit.drop_in and unit.read(file.path) != file]
        known = {file.path for file in old.files}
        changed += [path for path in (state.fragment, *state.drop_ins) if path and path not in known]
        if changed:
            self._say(f"changed by somebody else meanwhile, and left so: {', '.join(changed)}")
        elif old.exec_start and state.exec_start != old.exec_start:
            raise HostError(
                f"{unit.name} on {unit.where} has its old files, and systemd another command line:"
                f" {' | '.join(state.exec_start)}",
                f"See there: {' '.join(unit.systemctl)} cat {unit.name}",
            )


def digest(files: tuple[FileState, ...]) -> str:
    """Tells whether files are the same."""
    return hashlib.sha256(repr([(file.path, file.data) for file in files]).encode()).hexdigest()
