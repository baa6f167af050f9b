"""The first screen: the answer in a sentence, what it costs, and what to know before believing it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity
from spectune.domain.events import Promoted, RolledBack
from spectune.domain.finding import Status
from spectune.domain.history import History
from spectune.domain.metrics import METRICS
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.domain.verdict import Decision, Effect, Verdict
from spectune.report import words
from spectune.report.candidates import launched
from spectune.report.model import Answer, AnswerKind, ConstraintCheck, Cost, Held, Interval, Note, NoteKind
from spectune.report.pool import flag_changes, ratio_interval
from spectune.report.savings import savings


def answer(history: History, marks: Sequence[str]) -> Answer:
    """What the campaign says, or what it says so far."""
    kind = _kind(history)
    chosen = _chosen(history, kind)
    gain = _gain(history, chosen)
    argv = launched(history, chosen.id) if chosen else ()
    base = launched(history, history.baseline.id)
    add, drop = flag_changes(base, argv) if argv and base else ((), ())
    return Answer(
        kind=kind,
        headline=_headline(history, kind, chosen, gain),
        reason=_reason(history),
        candidate=chosen.id if chosen else None,
        gain=gain,
        add=add,
        drop=drop,
        command=shlex.join(argv),
        costs=_costs(history, chosen),
        constraints=tuple(_constraints(history, chosen)) if chosen else (),
        notes=tuple(_notes(history, kind, chosen, marks)),
    )


def _kind(history: History) -> AnswerKind:
    conclusion = history.conclusion
    if conclusion is None:
        return AnswerKind.UNFINISHED
    if conclusion.winner is None:
        return AnswerKind.UNDECIDED
    return AnswerKind.CHANGE if conclusion.changed else AnswerKind.STAY


def _chosen(history: History, kind: AnswerKind) -> Candidate | None:
    if kind is AnswerKind.UNFINISHED:
        return history.incumbent if history.of_candidate(history.incumbent.id) else None
    winner = history.conclusion.winner if history.conclusion else None
    known = {**history.candidates, history.baseline.id: history.baseline}
    return known.get(winner) if winner else None


def _gain(history: History, chosen: Candidate | None) -> Interval | None:
    if history.conclusion is not None:
        ended = history.conclusion
        return ratio_interval(ended.overall) if ended.changed and ended.overall else None
    verdict = _against_baseline(history, chosen) if chosen else None
    return ratio_interval(verdict.overall) if verdict and verdict.overall else None


def _against_baseline(history: History, candidate: Candidate) -> Verdict | None:
    """The last verdict on a candidate that compares it with the baseline."""
    if candidate.id == history.baseline.id:
        return None
    verdicts = [trial.verdict for trial in history.of_candidate(candidate.id) if trial.verdict is not None]
    return next((v for v in reversed(verdicts) if v.reference == history.baseline.id), None)


def _headline(history: History, kind: AnswerKind, chosen: Candidate | None, gain: Interval | None) -> str:
    metric = METRICS[history.opened.spec.objective.maximise].title
    measured = f": {metric} {words.gain(gain)} against what you have" if gain else ""
    match kind:
        case AnswerKind.CHANGE:
            return f"Use {chosen.label if chosen else history.conclusion and history.conclusion.winner}{measured}."
        case AnswerKind.STAY:
            return f"Keep what you have ({history.baseline.label}): nothing provably beats it."
        case AnswerKind.UNDECIDED:
            return "No decision: the measurements do not allow one."
        case AnswerKind.UNFINISHED:
            done = words.plural(len(history.finished), "trial")
            if chosen is None:
                return f"Not finished: {done} done, nothing comparable yet."
            if chosen.id == history.baseline.id:
                return f"Not finished: after {done}, nothing beats what you have ({chosen.label}) so far."
            return f"Not finished: after {done}, {chosen.label} leads{measured}."


def _reason(history: History) -> str:
    if history.conclusion is not None:
        return history.conclusion.reason
    last = history.ordered[-1] if history.trials else None
    if last is None:
        return "No trial was started yet."
    if last.ended_at is None:
        return f"Trial {last.number} ({last.candidate.label}) was running when this report was made."
    return f"The last trial that ended is {last.number} ({last.candidate.label})."


def _costs(history: History, chosen: Candidate | None) -> tuple[Cost, ...]:
    """Room before and after; rows that nobody can tell are left out."""
    if chosen is None:
        return ()
    before, after = _capacity(history, history.baseline), _capacity(history, chosen)
    rows: list[tuple[str, Callable[[Capacity], int | None], Callable[[int | None], str]]] = [
        ("KV room", lambda room: room.kv_tokens, words.tokens),
        ("KV cache memory", lambda room: room.kv_bytes, words.size),
        ("requests at a time", lambda room: room.max_running, words.count),
        ("context of one request", lambda room: room.context_per_request, words.tokens),
    ]
    return tuple(
        Cost(name, shown(get(before)), shown(get(after)))
        for name, get, shown in rows
        if get(before) is not None or get(after) is not None
    )


def _capacity(history: History, candidate: Candidate) -> Capacity:
    for trial in reversed(history.of_candidate(candidate.id)):
        if trial.deployment is not None:
            return trial.deployment.seen.capacity
    return Capacity()


def _constraints(history: History, chosen: Candidate) -> Iterator[ConstraintCheck]:
    wanted = history.opened.spec.constraints
    room = _capacity(history, chosen)
    if wanted.min_kv_tokens is not None:
        yield _floor("KV room", wanted.min_kv_tokens, room.kv_tokens, words.tokens)
    if wanted.min_running_requests is not None:
        yield _floor("requests at a time", wanted.min_running_requests, room.max_running, words.count)
    if wanted.max_slowdown is not None:
        floor = 1 - wanted.max_slowdown
        limit = f"no level slower than {words.percent(floor)}"
        if chosen.id == history.baseline.id:
            yield ConstraintCheck("slowdown at any level", limit, "the baseline itself", Held.YES)
            return
        verdict = _against_baseline(history, chosen)
        levels = [effect for effect in verdict.effects if effect.cell and not effect.domain] if verdict else []
        labels = {cell.key: cell.label for cell in history.opened.spec.cells}
        yield _slowdown(limit, floor, min(levels, key=lambda effect: effect.ratio.value, default=None), labels)


def _floor(name: str, least: int, seen: int | None, shown: Callable[[int | None], str]) -> ConstraintCheck:
    held = Held.UNKNOWN if seen is None else Held.YES if seen >= least else Held.NO
    return ConstraintCheck(name, f"at least {shown(least)}", shown(seen), held)


def _slowdown(limit: str, floor: float, worst: Effect | None, labels: Mapping[str, str]) -> ConstraintCheck:
    name = "slowdown at any level"
    if worst is None:
        return ConstraintCheck(name, limit, "not compared with the baseline", Held.UNKNOWN)
    held = Held.YES if worst.ratio.low >= floor else Held.NO if worst.ratio.high < floor else Held.UNKNOWN
    seen = f"{words.gain_spread(ratio_interval(worst.ratio))} with {labels.get(worst.cell, worst.cell)}"
    return ConstraintCheck(name, limit, seen, held)


def _notes(history: History, kind: AnswerKind, chosen: Candidate | None, marks: Sequence[str]) -> Iterator[Note]:
    for mark in marks:
        yield Note(NoteKind.MARK, mark)
    behind = [t for c in {history.baseline.id, chosen.id if chosen else ""} for t in history.of_candidate(c)]
    if kind in {AnswerKind.CHANGE, AnswerKind.UNFINISHED} and chosen and chosen.id != history.baseline.id:
        yield from _confirmation(history, chosen)
        yield from _unproven(history.of_candidate(chosen.id))
    yield from _doubts(sorted(behind, key=lambda trial: trial.number))
    yield from _noise(history)
    yield from _elsewhere(history, chosen)
    yield from _left_out(history, chosen)
    for prior in history.opened.priors:
        yield Note(NoteKind.INFO, f"Forecasts used {prior.label}; no figure of this report comes from it.")
    yield from savings(history)
    yield from _in_service(history)
    if history.conclusion is not None:
        for name, text in history.conclusion.notes.items():
            yield Note(NoteKind.INFO, f"The {name}: {text}.")


def _confirmation(history: History, chosen: Candidate) -> Iterator[Note]:
    pairs = sum(t.purpose is Purpose.CONFIRM for t in history.of_candidate(chosen.id))
    if pairs:
        text = f"Confirmed by {words.plural(pairs, 'fresh deployment')} interleaved with the baseline's."
        yield Note(NoteKind.INFO, text)
    else:
        yield Note(NoteKind.WARNING, "Provisional: not yet confirmed by re-measuring interleaved with the baseline.")


def _unproven(trials: Sequence[Trial]) -> Iterator[Note]:
    for status, told in ((Status.VIOLATED, "Violated"), (Status.UNKNOWN, "Not proven by any evidence")):
        checks = dict.fromkeys(f.check for trial in trials for f in trial.verification.findings if f.status is status)
        if checks:
            yield Note(NoteKind.WARNING, f"{told}, which blocks promotion: {', '.join(checks)}.")


def _doubts(trials: Sequence[Trial]) -> Iterator[Note]:
    """Trials with the same doubts share a line."""
    alike: dict[tuple[str, ...], list[Trial]] = {}
    for trial in trials:
        names = {doubt.name for cell in trial.cells.values() for doubt in cell.measurement.doubts}
        if names:
            alike.setdefault(tuple(sorted(names)), []).append(trial)
    for doubted, found in alike.items():
        yield Note(NoteKind.WARNING, f"Doubts about {_numbered(found)}: {', '.join(doubted)}.")


def _numbered(trials: Sequence[Trial]) -> str:
    """ "trials 1, 4 (none) and trial 3 (draft k=2)"."""
    by_label: dict[str, list[str]] = {}
    for trial in trials:
        by_label.setdefault(trial.candidate.label, []).append(str(trial.number))
    return " and ".join(
        f"{'trial' if len(numbers) == 1 else 'trials'} {', '.join(numbers)} ({label})"
        for label, numbers in by_label.items()
    )


def _noise(history: History) -> Iterator[Note]:
    noise = history.conclusion.noise if history.conclusion else None
    if noise is not None:
        text = (
            f"Noise floor of this host: the baseline, started anew, differs from itself by {100 * noise:.1f} % "
            "(one standard deviation)."
        )
        yield Note(NoteKind.INFO, text)
    elif history.conclusion is not None:
        yield Note(NoteKind.WARNING, "The noise floor of this host is unknown: the baseline was not measured twice.")


def _elsewhere(history: History, chosen: Candidate | None) -> Iterator[Note]:
    if history.conclusion is None or chosen is None:
        return
    best = [row for row in history.conclusion.best if row.cell and row.domain]
    # A row without a ratio says that nothing is provably faster there; a runner-up can't be told from the best.
    others = [row for row in best if row.ratio is not None and chosen.id not in {row.candidate, row.runner_up}]
    if others:
        text = (
            f"One setting does not suit all: in {len(others)} of {len(best)} slices (kind of text, level, temperature) "
            "another comes out best. The table of best settings has them."
        )
        yield Note(NoteKind.INFO, text)


def _left_out(history: History, chosen: Candidate | None) -> Iterator[Note]:
    for trial in history.ordered:
        if trial.state is TrialState.INVALID:
            text = f"Trial {trial.number} ({trial.candidate.label}) is INVALID and takes no part: {trial.state_reason}."
            yield Note(NoteKind.INFO, text.replace("..", "."))
    pruned = sum(trial.state is TrialState.PRUNED for trial in history.ordered)
    if pruned:
        yield Note(NoteKind.INFO, f"{words.plural(pruned, 'candidate')} ruled out without a launch.")
    open_ended = {
        trial.candidate.label: trial.number
        for trial in history.finished
        if trial.candidate.id not in {history.baseline.id, chosen.id if chosen else ""}
        and trial.verdict is not None
        and trial.verdict.decision is Decision.INCONCLUSIVE
    }
    if open_ended:
        listed = ", ".join(f"{label} (trial {number})" for label, number in open_ended.items())
        yield Note(NoteKind.INFO, f"Inconclusive, so not a win: {listed}.")
    if history.pauses:
        times = words.plural(history.pauses, "pause")
        yield Note(NoteKind.INFO, f"{times} outside of the maintenance window, in which the service ran as before.")
    if history.resumed or history.abandoned:
        text = (
            f"Interrupted and resumed {'once' if history.resumed == 1 else f'{history.resumed} times'}; "
            f"{words.plural(history.abandoned, 'attempt')} cut off and made again."
        )
        yield Note(NoteKind.INFO, text)


def _in_service(history: History) -> Iterator[Note]:
    """Every promotion and rollback, and what is left of them."""
    labels = {(e.where, e.unit, e.number): e.label for e in history.in_service if isinstance(e, Promoted)}
    for event in history.in_service:
        place = f"{event.unit} on {event.where}"
        if isinstance(event, RolledBack):
            label = labels.get((event.where, event.unit, event.number), "a promotion")
            yield Note(NoteKind.INFO, f"{words.moment(event.at)}: {label} was rolled back from {place}.")
        else:
            forced = f"; forced: {event.words}" if event.words else ""
            text = f"{words.moment(event.at)}: {event.label} was promoted into {place} ({event.file}){forced}."
            yield Note(NoteKind.INFO, text)
