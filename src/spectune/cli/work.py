"""A campaign at work: prepared, taken up where it was left, run, and its winner promoted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from spectune import assemble
from spectune.cli import service as service_commands
from spectune.cli.progress import ConsoleObserver
from spectune.cli.screen import messages, preparing
from spectune.domain.drain import ServiceBusy
from spectune.domain.errors import InputError, SpectuneError
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.verdict import Conclusion
from spectune.domain.window import Pause, Window

_Outcome = TypeVar("_Outcome")


def site_of(spec: CampaignSpec, ask: service_commands.Ask) -> AbstractContextManager[assemble.Site | None]:
    """The systemd service that is tuned; None where spectune has servers of its own."""
    if not spec.service.unit:
        return nullcontext()
    return assemble.site(spec.service, ask, service_commands.say)


def manners(spec: CampaignSpec) -> dict[str, str | list[str]]:
    """What happens to a running service, and how it is spared, for people; empty where there is none."""
    told: dict[str, str | list[str]] = {}
    if spec.service.unit:
        told["meanwhile"] = (
            f"{spec.service.unit} on {spec.service.remote or 'this machine'} is stopped and started for every trial: "
            "its users get no answers while it is down, and those of other settings in between"
        )
    if spec.budget.between is not None:
        window = Window.parse(spec.budget.between)
        begin, end = (window.words(moment) for moment in window.around(assemble.SystemClock().now()))
        told["window"] = f"{window.label} in the time zone of this machine: this or next one from {begin} to {end}"
    drain = spec.service.drain
    if drain.busy_requests is not None and spec.service.unit:
        told["drain"] = (
            f"it is stopped with at most {drain.busy_requests} requests, for which {drain.wait_s:g} s are waited"
        )
    return told


class Work:
    """One campaign of one call of the command, in as many windows as it takes."""

    def __init__(
        self,
        spec: CampaignSpec,
        directory: Path,
        ledger: assemble.SqlLedger,
        words: str | None,
        new: bool,
        prior: Sequence[Path] = (),
    ) -> None:
        """Args:
        prior: directories whose campaigns this one's forecasts may rest on too.
        """
        self._spec = spec
        self._directory = directory
        self._ledger = ledger
        self._words = words
        self._new = new
        self._prior = prior
        # In the next window nobody may be there to type a password again.
        self._ask = service_commands.asked_once()
        self.campaign_id = ""
        self.refused: SpectuneError | None = None
        """Why the winner did not go into the service."""

    @property
    def history(self) -> History:
        return History.of(self._ledger.events(self.campaign_id))

    def to_the_end(self) -> Conclusion:
        with self._prepared() as (site, prepared), assemble.around(site):
            return self._ended(site, prepared, self._run(site, prepared, lambda campaign: campaign.run()))

    def within(self, window: Window) -> Conclusion | Pause:
        """Everything is looked at anew, since in a pause of hours anything may have changed."""
        with self._prepared() as (site, prepared):
            now = assemble.SystemClock().now()
            opens, closes = window.around(now)
            if now < opens:
                return Pause(opens, "it is not open yet")
            try:
                with assemble.around(site):
                    outcome = self._run(site, prepared, lambda campaign: campaign.run_within(window))
                    return self._ended(site, prepared, outcome) if isinstance(outcome, Conclusion) else outcome
            except ServiceBusy as busy:
                return Pause(window.around(closes)[0], busy.message)

    @contextmanager
    def _prepared(self) -> Iterator[tuple[assemble.Site | None, assemble.Prepared]]:
        ledger, first = self._ledger, not self.campaign_id
        with site_of(self._spec, self._ask) as site:
            with preparing() as progress:
                prepared = assemble.prepare(self._spec, progress, site=site)
            if self._words is not None:
                assemble.check_any_allowed(prepared.provenance, prepared.spec, self._words)
            if first and prepared.origin is not None and prepared.origin.words:
                service_commands.say(prepared.origin.words)
            anew = self._new and first
            going_on = None if anew else to_go_on_with(assemble.unfinished(ledger, self._spec.name), prepared)
            priors = going_on[1].opened.priors if going_on else assemble.priors(prepared, ledger, self._prior)
            self.campaign_id = going_on[0] if going_on else assemble.open_campaign(ledger, prepared, priors)
            if first:
                _headline(messages(), self.campaign_id, prepared)
                for line in manners(self._spec).values():
                    service_commands.say(str(line))
                for prior in priors:
                    service_commands.say(f"forecasts use {prior.label}; no result comes from it")
            yield site, prepared

    def _run(
        self, site: assemble.Site | None, prepared: assemble.Prepared, go: Callable[[assemble.Campaign], _Outcome]
    ) -> _Outcome:
        with ConsoleObserver(messages(), time.monotonic) as observer:
            campaign = assemble.campaign(self._ledger, self.campaign_id, prepared, self._directory, observer, site=site)
            return go(campaign)

    def _ended(self, site: assemble.Site | None, prepared: assemble.Prepared, conclusion: Conclusion) -> Conclusion:
        if site is not None and self._words is not None and conclusion.changed:
            try:
                _promote(site, prepared, self.campaign_id, self.history, self._words, self._ledger)
            except SpectuneError as error:  # the answer is still worth its report
                self.refused = error
        return conclusion


def _promote(
    site: assemble.Site,
    prepared: assemble.Prepared,
    campaign_id: str,
    history: History,
    words: str,
    ledger: assemble.SqlLedger,
) -> None:
    winner = assemble.chosen(history, None)
    done = assemble.promote_within(site, prepared.engine, campaign_id, history, winner, words, ledger)
    service_commands.say(f"promoted {winner.label}" if done else f"{winner.label} is promoted already")


def to_go_on_with(found: tuple[str, History] | None, prepared: assemble.Prepared) -> tuple[str, History] | None:
    """An interrupted campaign, when it may go on: its settings are the same but for the budget, and so is all else."""
    if found is None:
        return None
    campaign_id, history = found
    opened, spec = history.opened.spec, assemble.without_secrets(prepared.spec)
    service = replace(opened.service, drain=spec.service.drain, edit_unit=spec.service.edit_unit)
    if replace(opened, budget=spec.budget, service=service) != spec:
        raise InputError(
            f"campaign {campaign_id} was interrupted, and the settings are no longer those it began with",
            "Put them back to go on with it (budget, drain and edit_unit may change), or begin anew with --new.",
        )
    _same_machinery(history, prepared)
    return found


def _same_machinery(history: History, prepared: assemble.Prepared) -> None:
    """Trials before and after an interruption must not differ in the engine, the model or the prompts."""
    old, now = history.opened.provenance, prepared.provenance
    changed = [role for role in old.files.keys() | now.files.keys() if old.files.get(role) != now.files.get(role)]
    if old.workload.sha256 != now.workload.sha256:
        changed.append("workload")
    if old.hardware.cpu != now.hardware.cpu or old.hardware.gpus != now.hardware.gpus:
        changed.append("hardware")
    if changed:
        raise InputError(
            f"since the campaign was interrupted, this has changed: {', '.join(sorted(changed))}",
            "Its trials could not be compared. Begin anew with --new.",
        )


def _headline(console: Console, campaign_id: str, prepared: assemble.Prepared) -> None:
    provenance, spec = prepared.provenance, prepared.spec
    levels = ", ".join(f"{users:g}" for users in spec.workload.concurrency)
    temperatures = ", ".join("default" if t is None else f"{t:g}" for t in spec.workload.temperatures)
    machine = provenance.hardware
    console.print(f"[bold]{campaign_id}[/bold]", highlight=False)
    for line in (
        f"{spec.service.engine} {provenance.engine_version} serving {Path(spec.service.model).name}",
        f"{machine.cores} cores of {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB"
        + "".join(f", {g}" for g in machine.gpus),
        f"users: {levels}; temperatures: {temperatures}",
        f"at most {spec.budget.minutes:g} minutes and {spec.budget.trials} launches",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
