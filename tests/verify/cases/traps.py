"""Traps that no line of a log tells: a case that the trap's check sees, and its like that is sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import ListenerOwner
from spectune.verify.observed import ProbeAnswers
from tests.verify.builders import BASELINE, DRAFT, answers, asked, evidence, loaded, seen
from tests.verify.cases import answers as greedy
from tests.verify.cases import drafting, endurance, parity, sampling, settings, soundness
from tests.verify.cases.aftermath import GIB, left
from tests.verify.cases.answers import ALIKE, BASE, REFUSED, all_parted, parted, probed, run
from tests.verify.cases.case import Case, ok, unknown, violated
from tests.verify.cases.sampling import after, answered

SUFFIX = asked(Candidate(Speculation(Method.SUFFIX, 64)), ())
MTP = asked(Candidate(Speculation(Method.MTP, 3)), ())
TREE = asked(settings.TREE, settings.TREE_FLAGS)
NGRAM = Candidate(Speculation(Method.NGRAM, 8))
NGRAM_TYPE = ("--spec-type", "ngram-simple")
DRAFTS_BY_NGRAM = seen(method=Method.NGRAM, depth=None)
GARBLED = ProbeAnswers(answers(*[greedy.GARBAGE] * len(BASE)), BASE, BASE, 16)
TOGETHER = ProbeAnswers(BASE, BASE, BASE, 16)
CALLS = answers(*(f'{{"city": "{greedy.text(n, 2)}", "days": {n}}}' for n in range(12)))
TOOLS = (*BASE, *(replace(call, prompt_id=f"tools/{call.prompt_id}") for call in CALLS))
CUT = tuple(replace(a, text=a.text[:-1]) if a.prompt_id.startswith("tools/") else a for a in TOOLS)
"""The arguments of every call lack their last brace."""
ANSWERED = replace(REFUSED, text="Yes.", error="")

CONDITIONS: Mapping[str, tuple[Case, Case]] = {
    "draft-model-dropped": (
        violated(asked(DRAFT, ("-md", "draft.gguf")), seen(speculating=False)),
        ok(asked(), seen(speculating=True)),
    ),
    "speculation-unasked": (
        violated(asked(BASELINE, ()), seen(speculating=True)),
        ok(asked(BASELINE, ()), seen(speculating=False)),
    ),
    "n-max-not-for-ngram": (
        unknown(asked(NGRAM, (*NGRAM_TYPE, "--spec-draft-n-max", "8")), DRAFTS_BY_NGRAM),
        ok(asked(NGRAM, (*NGRAM_TYPE, "--spec-ngram-simple-size-m", "8")), DRAFTS_BY_NGRAM),
    ),
    "ngram-never-drafts": (
        violated(asked(NGRAM, ()), loaded(drafting.ZERO)),
        ok(asked(NGRAM, ()), loaded(drafting.GOOD, drafting.ZERO)),
    ),
    "never-engaged": (
        violated(asked(), loaded(drafting.GOOD, drafting.ZERO)),
        ok(asked(), loaded(drafting.GOOD)),
    ),
    "kv-room-smaller": (
        unknown(asked(longest=400), settings.room(1100, 4)),
        ok(asked(longest=400), settings.room(1600, 4)),
    ),
    "graphs-below-level": (
        violated(parity.before(8), parity.graphs(2)),
        ok(parity.before(8), parity.graphs(4)),
    ),
    "sampling-default-refused": (
        violated(asked(), probed(ProbeAnswers((REFUSED,), (ANSWERED,)))),
        ok(asked(), probed(ProbeAnswers((ANSWERED,), (ANSWERED,)))),
    ),
    "garbage-in-company": (
        violated(asked(), probed(ALIKE, GARBLED)),
        ok(asked(), probed(ALIKE, TOGETHER)),
    ),
    "tree-gibberish": (
        violated(TREE, probed(ProbeAnswers(all_parted(0), BASE, BASE))),
        ok(TREE, probed(ALIKE)),
    ),
    "numerics": (
        violated(asked(), probed(ProbeAnswers(all_parted(0), BASE, BASE))),
        # Not equal, and no fault.
        ok(asked(), probed(ProbeAnswers(run(*((n, parted(n, 30)) for n in range(4))), BASE, BASE))),
    ),
    "tool-calls-broken": (
        violated(asked(), probed(ProbeAnswers(CUT, TOOLS, TOOLS))),
        ok(asked(), probed(ProbeAnswers(TOOLS, TOOLS, TOOLS))),
    ),
    "head-broken": (
        violated(asked(), loaded(drafting.BROKEN)),
        ok(asked(), loaded(drafting.GOOD)),
    ),
    "mtp-weights-missing": (
        violated(MTP, loaded(drafting.BROKEN)),
        ok(MTP, loaded(drafting.GOOD)),
    ),
    "lossy-acceptance": (
        violated(after(sampling.FIRST, sampling.SECOND), answered(sampling.COLD)),
        ok(after(sampling.FIRST, sampling.SECOND), answered(sampling.SOUND)),
    ),
    "simulated-acceptance": (
        violated(asked(), seen(invalid_output="SGLANG_SIMULATE_ACC_LEN=2.5")),
        ok(asked(), seen()),
    ),
    "pool-seen-before": (
        unknown(drafting.POOLED, loaded(drafting.pool_cell(0.6, 300, "a"), drafting.pool_cell(0.6, 300, "a"))),
        ok(drafting.POOLED, loaded(drafting.pool_cell(0.6, 300, "a"), drafting.pool_cell(0.6, 300, "b"))),
    ),
    "tree-seen-before": (
        unknown(SUFFIX, loaded(drafting.pool_cell(0.999, 300, "a", "b"))),
        ok(SUFFIX, loaded(drafting.pool_cell(0.6, 300, "a", "b"))),
    ),
    "loops-flatter": (
        unknown(asked(), loaded(soundness.LOOPS)),
        ok(asked(), loaded(soundness.CLEAN)),
    ),
    "orphan-on-the-port": (
        violated(asked(), evidence(listener=ListenerOwner.FOREIGN)),
        ok(asked(), evidence(listener=ListenerOwner.OURS)),
    ),
    "orphan-with-memory": (
        violated(asked(), left(GIB, 70 * GIB)),
        ok(asked(), left(GIB, GIB)),
    ),
    "hang-after-health": (
        violated(asked(), endurance.in_order(*[endurance.OK] * 100, *[endurance.FIRST] * 4)),
        ok(asked(), endurance.in_order(*[endurance.OK] * 104)),
    ),
}
"""Trap -> how its check ends where the trap is, and where it is not."""
