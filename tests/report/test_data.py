from __future__ import annotations

import math
from dataclasses import replace

import pytest

from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.events import CampaignPaused, Promoted, RolledBack
from spectune.domain.finding import Finding, Status, Verification
from spectune.domain.history import History
from spectune.domain.measurement import Doubt
from spectune.domain.priors import Prior, PriorTrial
from spectune.domain.trial import Purpose
from spectune.domain.verdict import Best, Decision, Verdict
from spectune.report.data import build
from spectune.report.model import AnswerKind, Held, NoteKind
from tests.report import sample

DATA = build(sample.decided(), "c1")


@pytest.mark.parametrize(
    ("name", "kind", "headline"),
    [
        ("decided", AnswerKind.CHANGE, "Use draft k=3: per-user speed +"),
        ("nothing-better", AnswerKind.STAY, "Keep what you have (none): nothing provably beats it."),
        ("broken-baseline", AnswerKind.UNDECIDED, "No decision"),
        ("running", AnswerKind.UNFINISHED, "Not finished: after 2 trials, draft k=1 leads"),
        ("just-opened", AnswerKind.UNFINISHED, "Not finished: 0 trials done, nothing comparable yet."),
    ],
)
def test_headline(name: str, kind: AnswerKind, headline: str) -> None:
    answer = build(sample.HISTORIES[name](), "c1").answer
    assert answer.kind is kind
    assert answer.headline.startswith(headline)


def test_the_answer_names_the_flags_that_differ_from_the_baseline() -> None:
    assert DATA.answer.add == (
        f"--model-draft {sample.DRAFT_MODEL}",
        "--spec-type draft-simple",
        "--spec-draft-n-max 3",
    )
    assert DATA.answer.drop == ()
    assert DATA.answer.command.startswith("/usr/local/bin/llama-server -m ")


def test_the_answer_names_what_it_costs() -> None:
    costs = {cost.name: (cost.before, cost.after) for cost in DATA.answer.costs}
    assert costs["KV cache memory"] == ("176\u00a0MiB", "188\u00a0MiB")
    assert costs["KV room"][0] == costs["KV room"][1]


def doubted(history: History, *names: str, trial: int) -> History:
    cells = {
        key: replace(cell, measurement=replace(cell.measurement, doubts=tuple(Doubt(n, "", "") for n in names)))
        for key, cell in history.trials[trial].cells.items()
    }
    return replace(history, trials={**history.trials, trial: replace(history.trials[trial], cells=cells)})


def test_trials_with_the_same_doubts_share_a_line() -> None:
    history = sample.decided()
    for trial in history.trials:
        history = doubted(history, trial=trial)
    for trial, names in ((1, ("drift", "busy-host")), (4, ("busy-host", "drift")), (9, ("busy-host", "drift"))):
        history = doubted(history, *names, trial=trial)
    history = doubted(history, "few-requests", trial=10)
    told = [note.text for note in build(history, "c1").answer.notes if note.text.startswith("Doubts")]
    assert told == [
        "Doubts about trials 1, 9 (none) and trial 4 (draft k=3): busy-host, drift.",
        "Doubts about trial 10 (draft k=3): few-requests.",
    ]


def test_what_happened_in_the_service_is_told() -> None:
    history = sample.decided()
    for event in (
        CampaignPaused(1_772_400_000.0, 1_772_410_000.0, "the window ends"),
        Promoted(1_772_420_000.0, "abcd1234", "mtp k=3", "llm.service", "box", 1, "/etc/x.conf", "I know"),
        RolledBack(1_772_430_000.0, "llm.service", "box", 1),
    ):
        history = history.then(event)
    texts = [note.text for note in build(history, "c1").answer.notes]
    for part in (
        "1 pause outside of the maintenance window, in which the service ran as before.",
        "2026-03-02 02:53 UTC: mtp k=3 was promoted into llm.service on box (/etc/x.conf); forced: I know.",
        "2026-03-02 05:40 UTC: mtp k=3 was rolled back from llm.service on box.",
    ):
        assert part in texts


def test_constraints_are_three_valued() -> None:
    held = {check.name: check.held for check in DATA.answer.constraints}
    assert held == {"KV room": Held.YES, "requests at a time": Held.YES, "slowdown at any level": Held.YES}
    tight = sample.decided()
    constraints = replace(tight.opened.spec.constraints, min_kv_tokens=9000, max_slowdown=0.0)
    spec = replace(tight.opened.spec, constraints=constraints)
    checks = build(replace(tight, opened=replace(tight.opened, spec=spec)), "c1").answer.constraints
    assert checks[0].held is Held.NO


def test_notes_carry_what_a_reader_must_know() -> None:
    texts = " ".join(note.text for note in DATA.answer.notes)
    for part in ("Noise floor", "greedy-answers", "Trial 8 (ngram k=8 size-n=4) is INVALID", "Inconclusive", "resumed"):
        assert part in texts
    assert "Provisional" not in texts


def test_what_is_not_real_is_marked_first() -> None:
    data = build(sample.nothing_better(), "c1")
    assert len(data.marks) == 2
    assert data.marks[0].startswith("Simulated:")
    assert "ignore_eos" in data.marks[1]
    assert [note.kind for note in data.answer.notes[:2]] == [NoteKind.MARK, NoteKind.MARK]


def test_effort_counts_cut_off_attempts_as_launches() -> None:
    assert (DATA.effort.trials, DATA.effort.launches) == (12, 13)
    assert (DATA.effort.abandoned, DATA.effort.resumed, DATA.effort.invalid) == (1, 1, 1)


def test_candidates_come_by_family_and_depth_with_the_baseline_first() -> None:
    labels = [candidate.label for candidate in DATA.candidates]
    draft = [f"draft k={k}" for k in range(1, 6)]
    assert labels == ["none", *draft, "ngram k=4 size-n=4", "ngram k=8 size-n=4"]
    assert len({c.family for c in DATA.candidates}) == 3


def test_a_candidate_pools_its_comparable_trials_only() -> None:
    by_label = {candidate.label: candidate for candidate in DATA.candidates}
    assert by_label["none"].trials == (1, 9, 12)
    assert by_label["draft k=3"].trials == (4, 10, 11)
    invalid = by_label["ngram k=8 size-n=4"]
    assert invalid.trials == ()
    assert all(cell.per_user is None for cell in invalid.cells)
    assert invalid.flags


def test_a_fatal_doubt_keeps_a_cell_out() -> None:
    history = sample.running()
    trial = history.trials[1]
    fatal = (Doubt("prefix-cache-hit", "half the prompts were cached", "use unseen prompts", fatal=True),)
    cell = trial.cells["c1 T0"]
    tainted = replace(cell, measurement=replace(cell.measurement, doubts=fatal))
    trials = {**history.trials, 1: replace(trial, cells={**trial.cells, "c1 T0": tainted})}
    cells = {cell.cell: cell for cell in build(replace(history, trials=trials), "c1").candidates[0].cells}
    assert cells["c1 T0"].per_user is None
    assert cells["c2 T0"].per_user is not None


def test_depth_curve_grows_and_ends_are_known() -> None:
    lengths = [
        next(row.length for row in c.acceptance if row.temperature == 0 and not row.domain)
        for c in DATA.candidates
        if c.method == "draft"
    ]
    assert len(lengths) == 5
    assert lengths == sorted(length for length in lengths if length is not None)


def test_an_unknown_interval_is_none_not_infinity() -> None:
    history = sample.running()
    trial = history.trials[1]
    cell = trial.cells["c1 T0"]
    blind = {name: Estimate(e.value, -math.inf, math.inf, 1) for name, e in cell.measurement.metrics.items()}
    changed = replace(cell, measurement=replace(cell.measurement, metrics=blind))
    trials = {**history.trials, 1: replace(trial, cells={**trial.cells, "c1 T0": changed})}
    speed = build(replace(history, trials=trials), "c1").candidates[0].cells[0].per_user
    assert speed is not None
    assert (speed.low, speed.high) == (None, None)


def test_every_temperature_has_a_point_that_nothing_dominates() -> None:
    for temperature in DATA.temperatures:
        keys = {cell.key for cell in DATA.cells_at(temperature)}
        assert any(not point.dominated for point in DATA.frontier if point.cell in keys)
    assert any(point.dominated for point in DATA.frontier)


def test_the_same_history_is_the_same_report() -> None:
    assert build(sample.decided(), "c1") == DATA


def test_a_prefix_of_a_campaign_can_always_be_reported() -> None:
    log = sample.Recorder(sample.spec(), sample.provenance())
    log.whole(sample.BASE, Purpose.BASELINE, "as it is", Verdict(Decision.KEEP, "", sample.BASE.id))
    log.start(sample.draft(1), Purpose.EXPLORE, "first")
    log.deploy(sample.draft(1))
    log.measure(sample.draft(1))
    for length in range(1, len(log.events) + 1):
        assert build(History.of(log.events[:length]), "c1").answer.kind is AnswerKind.UNFINISHED


def test_earlier_campaigns_behind_the_forecasts_are_named() -> None:
    history = sample.HISTORIES["decided"]()
    trial = next(trial for trial in history.finished if trial.valid)
    prior = Prior("demo-0", ("other workload",), (PriorTrial.of(trial),))
    known = build(replace(history, opened=replace(history.opened, priors=(prior,))), "c1")
    words = "Forecasts used 1 trial of campaign demo-0 (other workload); no figure of this report comes from it."
    assert words in [note.text for note in known.answer.notes]
    assert replace(known, answer=replace(known.answer, notes=())) == replace(
        build(history, "c1"), answer=replace(build(history, "c1").answer, notes=())
    )


def _with_best(rows: tuple[Best, ...]) -> list[str]:
    history = sample.decided()
    assert history.conclusion is not None
    history = replace(history, conclusion=replace(history.conclusion, best=rows))
    return [note.text for note in build(history, "c1").answer.notes if note.text.startswith("One setting")]


def test_only_what_is_told_apart_in_a_row_of_the_table_speaks_against_one_setting_for_all() -> None:
    chosen, other, gain = sample.draft(3).id, sample.ngram(4).id, Ratio(1.2, 1.1, 1.3, 8)
    baseline = sample.decided().baseline.id
    harmless = (
        Best("c1 T0", "code", chosen, gain, other),
        Best("c1 T0", "chat", other, gain, chosen),
        Best("c4 T0", "chat", baseline, None, chosen),
        Best("", "chat", other, gain, ""),
        Best("c4 T0", "", other, gain, ""),
    )
    assert _with_best(harmless) == []
    (text,) = _with_best((*harmless, Best("c4 T0", "code", other, gain, "")))
    assert text.startswith("One setting does not suit all: in 1 of 4 slices")


def test_the_winner_is_not_listed_among_what_is_no_win() -> None:
    history = sample.decided()
    winner = next(t for t in history.finished if t.candidate == sample.draft(3))
    assert winner.verdict is not None
    open_one = replace(winner, verdict=replace(winner.verdict, decision=Decision.INCONCLUSIVE))
    history = replace(history, trials={**history.trials, winner.number: open_one})
    listed = [note.text for note in build(history, "c1").answer.notes if note.text.startswith("Inconclusive")]
    assert listed == [text for text in listed if "draft k=3" not in text]
    assert "ngram" in listed[0]


def test_what_failed_and_what_could_not_be_told_have_words_of_their_own() -> None:
    history = sample.decided()
    winner = next(t for t in reversed(history.finished) if t.candidate == sample.draft(3))
    findings = (Finding("output-valid", Status.VIOLATED, "", ""), Finding("answers", Status.UNKNOWN, "", ""))
    checked = replace(winner, verification=Verification(findings))
    texts = [
        n.text for n in build(replace(history, trials={**history.trials, winner.number: checked}), "c1").answer.notes
    ]
    assert "Violated, which blocks promotion: output-valid." in texts
    assert "Not proven by any evidence, which blocks promotion: answers." in texts
