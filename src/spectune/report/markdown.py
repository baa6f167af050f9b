"""The report as Markdown, for issues, pull requests and wikis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from spectune.domain.finding import Status
from spectune.domain.metrics import METRICS
from spectune.report import words
from spectune.report.model import BestRow, NoteKind, ReportData, TrialData


def render_markdown(data: ReportData) -> str:
    """The whole report in GitHub's dialect. Text from outside is escaped, so that it shows as it is."""
    parts = [
        *_answer(data),
        *_best(data),
        *_speeds(data),
        *_acceptance(data),
        *_frontier(data),
        *_candidates(data),
        *_trials(data),
        *_method(data),
        *_provenance(data),
    ]
    return "\n\n".join(parts) + "\n"


def text(raw: str) -> str:
    """Text that Markdown and HTML leave alone, on one line."""
    flat = " ".join(raw.split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", flat)


def code(raw: str) -> str:
    """A code span that holds any text on one line; bars are escaped for tables."""
    flat = " ".join(raw.split()).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def block(raw: str) -> str:
    """A fenced block that its content cannot end."""
    longest = max((len(run) for run in re.findall("`+", raw)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{raw}\n{fence}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], numeric: int | None = None) -> str:
    """A table whose columns from `numeric` on are aligned to the right; cells are Markdown already."""
    start = len(headings) if numeric is None else numeric
    rule = ["---" if column < start else "---:" for column in range(len(headings))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rule, *rows))


def _answer(data: ReportData) -> Iterator[str]:
    said = data.answer
    yield f"# {text(said.headline)}"
    for mark in data.marks:
        yield f"> **{text(mark)}**"
    yield text(said.reason)
    if said.gain:
        what = f"{text(METRICS[data.objective].title)}: {words.gain_spread(said.gain)}"
        yield f"**{what}** ({100 * said.gain.confidence:g} % interval, all levels together)"
    if said.add:
        yield "Add these flags:\n\n" + block(" ".join(said.add))
    if said.drop:
        yield "Remove these flags:\n\n" + block(" ".join(said.drop))
    for title, costs in (("room", said.costs), ("slower", said.losses)):
        if costs:
            rows = [[text(c.name), text(c.before), text(c.after)] for c in costs]
            yield table([title, "what you have", text(data.label(said.candidate or ""))], rows, 1)
    if said.constraints:
        yield "\n".join(
            f"- {c.held.value}: {text(c.name)}, {text(c.wanted)}; seen {text(c.seen)}" for c in said.constraints
        )
    notes = [note for note in said.notes if note.kind is not NoteKind.MARK]
    if notes:
        warn = {NoteKind.WARNING: "**Warning:** "}
        yield "Before you believe it:"
        yield "\n".join(f"- {warn.get(note.kind, '')}{text(note.text)}" for note in notes)


def _best(data: ReportData) -> Iterator[str]:
    if not data.best:
        return
    found = {(row.cell, row.domain): row for row in data.best}
    domains = ["", *data.domains]
    yield "## Best setting by load and kind of text"
    rows = [
        [text(cell.label), *(_slice(data, found.get((cell.key, domain))) for domain in domains)]
        for cell in data.cells
        if any((cell.key, domain) in found for domain in domains)
    ]
    yield table(["load", *(text(words.domain(domain)) if domain else "all text" for domain in domains)], rows)
    yield "≈ can't be told apart from it with these measurements. “As it is”: nothing is provably better."


def _slice(data: ReportData, row: BestRow | None) -> str:
    if row is None:
        return words.NOTHING
    tie = f" ≈ {text(data.label(row.runner_up))}" if row.runner_up else ""
    if row.is_baseline:
        return f"as it is{tie}"
    return f"**{text(data.label(row.candidate))}** {words.gain_spread(row.ratio)}{tie}"


def _speeds(data: ReportData) -> Iterator[str]:
    shown = [c for c in data.candidates if c.trials]
    if not shown:
        return
    yield "## Speed by load"
    for title, field in (("Per-user speed", "per_user"), ("Aggregate speed", "aggregate")):
        yield f"{title}, tok/s, with the half-width of the {100 * data.confidence:g} % interval:"
        rows = [[text(c.label), *(words.plus_minus(getattr(cell, field)) for cell in c.cells)] for c in shown]
        yield table(["candidate", *(text(cell.label) for cell in data.cells)], rows, 1)


def _acceptance(data: ReportData) -> Iterator[str]:
    rows = [
        [
            text(c.label),
            "default" if row.temperature is None else f"{row.temperature:g}",
            text(words.domain(row.domain)),
            words.NOTHING if row.length is None else f"{row.length:.2f}",
            words.NOTHING if row.rate is None else f"{100 * row.rate:.0f} %",
            " ".join(f"{100 * share:.0f}" for share in row.per_position) or words.NOTHING,
        ]
        for c in data.candidates
        for row in c.acceptance
    ]
    if rows:
        yield "## Accept length by depth"
        headings = ["candidate", "temperature", "text", "tokens/step", "drafted accepted", "accepted up to position, %"]
        yield table(headings, rows, 3)


def _frontier(data: ReportData) -> Iterator[str]:
    rows = [
        [
            text(data.label(p.candidate)),
            text(data.cell(p.cell).label),
            words.number(p.per_user_tok_s),
            words.number(p.aggregate_tok_s),
            words.count(p.kv_tokens),
        ]
        for p in data.frontier
        if not p.dominated
    ]
    if rows:
        yield "## The frontier"
        yield "Points that no other one beats or equals in per-user speed, aggregate speed and KV room at once:"
        yield table(["candidate", "load", "per user, tok/s", "aggregate, tok/s", "KV room, tokens"], rows, 2)


def _candidates(data: ReportData) -> Iterator[str]:
    rows = [
        [
            text(c.label) + (" (what you have)" if c.is_baseline else ""),
            text(c.neutral),
            code(" ".join(c.flags)) if c.flags else words.NOTHING,
            words.count(c.room.kv_tokens),
            words.size(c.room.kv_bytes),
            words.count(c.room.max_running),
        ]
        for c in data.candidates
    ]
    yield "## Candidates"
    headings = ["candidate", "in words", "flags against the baseline's", "KV room, tokens", "KV memory", "at a time"]
    yield table(headings, rows, 3)


def _trials(data: ReportData) -> Iterator[str]:
    effort = data.effort
    yield "## What was tried"
    yield (
        f"{words.plural(effort.trials, 'trial')}, {words.plural(effort.launches, 'launch', 'launches')} of the server, "
        f"{words.minutes(effort.minutes)}."
    )
    rows = [
        [
            str(t.number),
            text(t.label),
            t.purpose.value,
            t.state.value.upper(),
            (t.decision.value.upper() if t.decision else words.NOTHING),
            words.gain_spread(t.overall),
            text("; ".join(part for part in (t.state_reason, t.verdict_reason) if part)),
            words.clock(t.started_at),
            words.minutes(t.minutes),
        ]
        for t in data.trials
    ]
    yield table(["#", "candidate", "purpose", "state", "verdict", "gain", "why", "start, UTC", "took"], rows)
    first = next((trial for trial in data.trials if trial.settings), None)
    for trial in data.trials:
        yield from _trial(data, trial, first)


def _settings(trial: TrialData, first: TrialData | None) -> Iterator[str]:
    """Every setting in effect in the first trial that tells any; in later ones what differs from that."""
    if first is None or not trial.settings:
        return
    before = {} if trial is first else {s.name: s for s in first.settings}
    shown = [s for s in trial.settings if before.get(s.name) != s]
    for s in shown:
        yield f"- {text(s.name)} = {code(words.setting(s.value))} ({text(s.source) or 'source not told'})"
    if trial is first:
        return
    now = {s.name for s in trial.settings}
    gone = [name for name in before if name not in now]
    if gone:
        yield f"- not told here, unlike in trial {first.number}: {text(', '.join(gone))}"
    same = len(trial.settings) - len(shown)
    if same:
        yield f"- {words.plural(same, 'more setting')} as in trial {first.number}"


def _trial(data: ReportData, trial: TrialData, first: TrialData | None) -> Iterator[str]:
    yield f"### Trial {trial.number}: {text(trial.label)}"
    yield block(trial.command) if trial.command else "Never started."
    lines = list(_settings(trial, first))
    lines += [
        f"- **{text(f.check)}** {f.status.value}: asked {text(f.asked)}; seen {text(f.seen)}. {text(f.why)}".rstrip()
        for f in trial.findings
        if f.status is not Status.OK
    ]
    fine = [text(f.check) for f in trial.findings if f.status is Status.OK]
    if fine:
        lines.append(f"- ok: {', '.join(fine)}")
    lines += [
        f"- doubt **{text(d.doubt.name)}**, {text(data.cell_label(d.cell))}: "
        + text(f"{d.doubt.message}. {d.doubt.advice}")
        for d in trial.doubts
    ]
    lines += [f"- log: {code(line)}" for line in trial.warnings]
    if lines:
        yield "\n".join(lines)


def _method(data: ReportData) -> Iterator[str]:
    yield "## How it was measured"
    yield "\n".join(f"- **{m.title}** [{m.unit}]: {text(m.formula)}" for m in METRICS.values())


def _provenance(data: ReportData) -> Iterator[str]:
    p, hw = data.provenance, data.provenance.hardware
    load = "unknown" if data.load_average is None else "{:.2f} to {:.2f}".format(*data.load_average)
    machine = [hw.cpu, words.plural(hw.cores, "core"), words.size(hw.memory_bytes), *hw.gpus, hw.kernel]
    facts = {
        "campaign": f"{data.name} ({data.campaign}), {words.measured_on(data)}",
        "engine": f"{data.engine} {p.engine_version}",
        "model": data.model,
        "host": f"{hw.hostname}: {', '.join(part for part in machine if part)}",
        "load average": load,
        "workload": "; ".join(
            [f"{p.workload.name}, {p.workload.amount}, SHA-256 {p.workload.sha256}", *p.workload.notes]
        ),
        **{f"{role}, SHA-256": digest for role, digest in p.files.items()},
        "spectune": p.spectune,
    }
    yield "## Provenance"
    yield "\n".join(f"- {text(name)}: {text(value)}" for name, value in facts.items())
