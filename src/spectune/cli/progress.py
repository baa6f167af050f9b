"""What a campaign looks like while it runs: one block a trial, and on a terminal a live line below."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from spectune.domain.events import (
    CampaignEnded,
    CampaignOpened,
    CampaignPaused,
    CampaignResumed,
    Decided,
    Deployed,
    Event,
    Measured,
    Promoted,
    RolledBack,
    TrialEnded,
    TrialStarted,
    Verified,
)
from spectune.domain.finding import Status as FindingStatus
from spectune.domain.finding import Verification
from spectune.domain.history import History
from spectune.domain.measurement import Measurement
from spectune.domain.metrics import MetricName
from spectune.domain.trial import TrialState
from spectune.domain.verdict import Decision

_DECISION_STYLE = {
    Decision.KEEP: "bold green",
    Decision.REVERT: "red",
    Decision.TIE: "cyan",
    Decision.INCONCLUSIVE: "yellow",
}

_STATUS_MARK = {FindingStatus.VIOLATED: ("red", "violated"), FindingStatus.UNKNOWN: ("yellow", "unknown")}


class ConsoleObserver:
    """Prints events as they happen; see domain.ports.Observer.

    Args:
        console: where to print; the live line appears only on a terminal.
        monotonic: clock for the time shown in the live line.
    """

    def __init__(self, console: Console, monotonic: Callable[[], float]) -> None:
        self._console = console
        self._monotonic = monotonic
        self._began = monotonic()
        self._live: Status | None = None
        self._minutes = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = self._console.status("starting", spinner="dots")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def event(self, event: Event, history: History) -> None:
        self._minutes = history.opened.spec.budget.minutes
        match event:
            case CampaignResumed():
                self._resumed(event, history)
            case TrialStarted():
                self._started(event)
            case Deployed():
                self._deployed(event)
            case Verified():
                self._findings(event.verification)
            case Measured():
                self._measured(event.measurement)
            case TrialEnded():
                self._ended(event)
            case Decided():
                self._decided(event)
            case CampaignPaused():
                self._print(f"pause: {escape(event.reason)}", "yellow")
            case CampaignOpened() | CampaignEnded() | Promoted() | RolledBack():
                pass

    def progress(self, trial: int, text: str) -> None:
        if self._live is not None:
            spent = (self._monotonic() - self._began) / 60
            self._live.update(f"trial {trial}  {escape(text)}  [dim]{spent:.1f} of at most {self._minutes:g} min[/dim]")

    def _resumed(self, event: CampaignResumed, history: History) -> None:
        done = len(history.finished)
        of = "an interrupted run"
        where = f"after trial {done} of {of}" if done else f"with {of}; no trial of it had ended"
        self._print(f"Going on {where}.")
        for name in event.cleaned:
            self._print(f"  ended a server that it left behind: {escape(name)}", "yellow")

    def _started(self, event: TrialStarted) -> None:
        again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
        head = f"[bold]{event.trial:>3}  {escape(event.candidate.label)}[/bold]{again}"
        self._console.print()
        self._console.print(f"{head}  [dim]{escape(event.reason)}[/dim]", soft_wrap=True)
        self.progress(event.trial, f"starting {event.candidate.label}")

    def _deployed(self, event: Deployed) -> None:
        capacity = event.deployment.seen.capacity
        room = "" if capacity.kv_tokens is None else f", room for {capacity.kv_tokens:,} tokens"
        if room and capacity.max_running is not None:
            room += f" in {capacity.max_running} requests"
        self._print(f"ready in {event.deployment.ready_s:.1f} s{room}")

    def _findings(self, verification: Verification) -> None:
        passed = sum(finding.status is FindingStatus.OK for finding in verification.findings)
        self._print(f"{passed} of {len(verification.findings)} checks ok")
        for finding in verification.findings:
            if finding.status in _STATUS_MARK:
                style, word = _STATUS_MARK[finding.status]
                self._print(f"{word}: {escape(finding.check)}: {escape(finding.seen)}", style)

    def _measured(self, measurement: Measurement) -> None:
        parts = [f"{measurement.cell.label:<26}"]
        for name, unit in ((MetricName.PER_USER_SPEED, "tok/s per user"), (MetricName.AGGREGATE_SPEED, "tok/s in all")):
            estimate = measurement.metrics.get(name)
            if estimate is not None:
                parts.append(f"{estimate.value:7.1f} {unit}")
        length = measurement.acceptance.length if measurement.acceptance else None
        if length is not None:
            parts.append(f"{length:.2f} tokens a step")
        self._print("  ".join(parts))
        for doubt in measurement.doubts:
            self._print(f"  doubt: {escape(doubt.name)}: {escape(doubt.message)}", "yellow")

    def _ended(self, event: TrialEnded) -> None:
        if event.state in {TrialState.INVALID, TrialState.PRUNED}:
            self._print(f"{event.state.value}: {escape(event.reason)}", "red")

    def _decided(self, event: Decided) -> None:
        verdict = event.verdict
        style = _DECISION_STYLE[verdict.decision]
        self._print(f"[{style}]{verdict.decision.value}[/{style}]  {escape(verdict.reason)}")

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(f"     {text}", style=style or None, soft_wrap=True, highlight=False)
