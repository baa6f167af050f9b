"""Checks on the text a server gives back: does it answer, and are its greedy answers the baseline's?

Greedy text may differ without a fault, because the shape of a batch changes the last bits of the logits and near-ties
then fall to the other side. So bytes are not compared; the *rate* at which answers part is. Let D be the number of
prompts whose answers part, and W the words that were shared before they did (all words of an equal answer). Numerics
make answers part at some rare rate for every word, so D is Poisson distributed around rate x W; a fault makes them part
within a few words. Two exact one-sided Poisson tests at 5 % decide, whatever the number and length of the answers:

- ok: D is not significantly above (floor rate + TOLERATED) x W, and significantly below BROKEN x W;
- violated: D is above the tolerated rate beyond doubt (1 in 1000) and the median answer parts within NEAR_ZERO words;
- unknown otherwise, with no floor, or with too little text to tell.

The floor is the baseline compared with itself, asked twice. Flaws (empty, garbage, loops, answers cut short) count only
where the baseline's answer has none; loops and cuts may follow from a near-tie, so one in each direction is chance, and
the exact McNemar (sign) test decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from scipy.stats import binomtest, poisson

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer
from spectune.verify.check import Result, ok, unknown, violated, worst
from spectune.verify.observed import Observed, ProbeAnswers
from spectune.verify.texts import Agreement, Flaw, agreement, flaw

TOLERATED = 1 / 100
"""Partings per word that numerics may add to the baseline's own."""
BROKEN = 1 / 10
"""Partings per word from which on answers have nothing to do with each other."""
NEAR_ZERO = 4
"""Words: answers that part before this are different from the start."""
FEWEST = 4
"""Fewer comparable prompts say nothing."""
LEVEL, BEYOND_DOUBT = 0.05, 0.001


@dataclass(frozen=True, slots=True)
class Parting:
    """How often the answers of two runs part.

    Attributes:
        pairs: prompt id -> agreement, for prompts that both answered.
    """

    pairs: Mapping[str, Agreement]

    @property
    def parted(self) -> int:
        """Prompts whose answers differ (D)."""
        return sum(not pair.equal for pair in self.pairs.values())

    @property
    def words(self) -> int:
        """Words shared before the answers part, over all prompts (W)."""
        return sum(pair.prefix_words for pair in self.pairs.values())

    @property
    def rate(self) -> float:
        """Partings per shared word."""
        return self.parted / max(self.words, 1)

    @property
    def text(self) -> str:
        """For people."""
        same = f"{len(self.pairs) - self.parted} of {len(self.pairs)} answers equal"
        apart = [pair for pair in self.pairs.values() if not pair.equal]
        if not apart:
            return same
        at = median(pair.prefix_words for pair in apart)
        alike = fmean(pair.similarity for pair in self.pairs.values())
        length = median(pair.length_ratio for pair in self.pairs.values())
        return f"{same}, the others part after {at:g} words; similarity {alike:.2f}, length x{length:.2f}"


def parting(reference: Sequence[Answer], answers: Sequence[Answer]) -> Parting:
    """Compares two runs over the prompts that both answered without error."""
    theirs, ours = _texts(reference), _texts(answers)
    return Parting({name: agreement(text, ours[name]) for name, text in theirs.items() if name in ours})


def _texts(answers: Sequence[Answer]) -> dict[str, str]:
    return {answer.prompt_id: answer.text for answer in answers if not answer.error}


def compare(baseline: Sequence[Answer], floor: Sequence[Answer] | None, candidate: Sequence[Answer]) -> Result:
    """Judges a candidate's greedy answers against the baseline's (rule: see the module).

    Args:
        baseline: the baseline's answers.
        floor: the baseline's answers to the same prompts, asked again; None where this was not done.
        candidate: the candidate's answers to the same prompts.
    """
    found, own = parting(baseline, candidate), parting(baseline, floor or ())
    return worst((_failures(baseline, candidate), *_flaws(baseline, candidate, found), _partings(found, own)))


def _failures(baseline: Sequence[Answer], candidate: Sequence[Answer]) -> Result:
    wanted = "an answer to every prompt that the baseline answers"
    expected = _texts(baseline)
    failed = [answer for answer in candidate if answer.error and answer.prompt_id in expected]
    if failed:
        return violated(wanted, f"{len(failed)} of {len(candidate)} failed: {failed[0].error}")
    return ok("", "")


def _flaws(baseline: Sequence[Answer], candidate: Sequence[Answer], found: Parting) -> list[Result]:
    """What is wrong with the candidate's answers and not with the baseline's."""
    theirs, ours = _texts(baseline), _texts(candidate)
    both = theirs.keys() & ours.keys()
    flaws = {name: (flaw(theirs[name]), flaw(ours[name])) for name in both}
    results = []
    for kind in (Flaw.EMPTY, Flaw.GARBAGE):
        fresh = sum(mine is kind and before is None for before, mine in flaws.values())
        if fresh:
            results.append(violated("answers as sound as the baseline's", f"{fresh} of {len(both)} are {kind.value}"))
    loops = [(before is Flaw.LOOP, mine is Flaw.LOOP) for before, mine in flaws.values()]
    cuts = [(pair.goes_on, pair.cut) for pair in found.pairs.values()]
    return [*results, _one_sided(loops, "end in a loop"), _one_sided(cuts, "are cut short")]


def _one_sided(pairs: Sequence[tuple[bool, bool]], what: str) -> Result:
    """Exact sign test over the prompts where only one of (baseline, candidate) shows it."""
    fresh = sum(mine and not before for before, mine in pairs)
    gone = sum(before and not mine for before, mine in pairs)
    wanted, seen = "answers as sound as the baseline's", f"{fresh} of {len(pairs)} {what} (baseline only: {gone})"
    if fresh and binomtest(fresh, fresh + gone, 0.5, alternative="greater").pvalue <= LEVEL:
        return violated(wanted, seen)
    return unknown(wanted, seen) if fresh - gone >= 2 else ok("", "")


def _partings(found: Parting, own: Parting) -> Result:
    """The two tests of the rule: of the candidate against the baseline, given the baseline against itself."""
    wanted = "the baseline's answers, up to numerics"
    if len(found.pairs) < FEWEST:
        return unknown(wanted, f"{len(found.pairs)} prompts to compare, not {FEWEST}")
    seen = f"{found.text} (baseline with itself: {own.text if own.pairs else 'not asked twice'})"
    if len(own.pairs) < FEWEST:
        return unknown(wanted, seen)
    tolerated = own.rate + TOLERATED
    if tolerated >= BROKEN:
        return unknown(wanted, f"{seen}: the baseline does not repeat itself")
    chance = float(poisson.sf(found.parted - 1, tolerated * found.words))
    start = median(pair.prefix_words if not pair.equal else NEAR_ZERO for pair in found.pairs.values())
    if chance < BEYOND_DOUBT and start < NEAR_ZERO:
        return violated(wanted, f"{seen}: different from the start")
    if chance <= LEVEL:
        return unknown(wanted, f"{seen}: they part more often than the baseline from itself")
    if float(poisson.cdf(found.parted, BROKEN * found.words)) > LEVEL:
        return unknown(wanted, f"{seen}: too little text to tell")
    return ok(wanted, seen)


def reference(answers: Sequence[Answer], again: Sequence[Answer] | None) -> Result:
    """Judges the baseline's own answers, against which all others will be held."""
    wanted = "answers fit to compare others with"
    texts = _texts(answers)
    bad = [kind for text in texts.values() if (kind := flaw(text)) is not None]
    if len(texts) < FEWEST:
        return unknown(wanted, f"{len(texts)} prompts answered, not {FEWEST}")
    if 2 * len(bad) > len(texts):
        return unknown(wanted, f"{len(bad)} of {len(texts)} have a flaw ({bad[0].value})")
    if again is None:
        return ok(wanted, f"{len(texts)} answers; the next baseline tells how far the service repeats itself")
    own = parting(answers, again)
    return ok(wanted, f"asked twice: {own.text}") if len(own.pairs) >= FEWEST else unknown(wanted, own.text)


def generates(asked: Asked, observed: Observed) -> Result:
    """Whether the server really generates, not only says that it is healthy."""
    wanted = "text in answer to every probe"
    answers = [answer for group in observed.answers for answer in group.candidate]
    if not answers:
        return unknown(wanted, "no probe was sent")
    failed = [answer for answer in answers if answer.error]
    if failed:
        return violated(wanted, f"{len(failed)} of {len(answers)} probes failed: {failed[0].error}")
    if not any(answer.text.strip() for answer in answers):
        return violated(wanted, f"{len(answers)} probes were answered without text")
    return ok(wanted, f"{len(answers)} probes answered")


def answers_agree(asked: Asked, observed: Observed) -> Result:
    """The comparison at every load the probes were asked at."""
    if not observed.answers:
        return unknown("the baseline's answers, up to numerics", "no probe was sent")
    if observed.seen.invented_text:
        return unknown("the baseline's answers, up to numerics", "the text is not the model's, so there are none")
    return worst(_group(asked, group) for group in observed.answers)


def _group(asked: Asked, group: ProbeAnswers) -> Result:
    if group.baseline:
        # The second deployment of the baseline is what makes the floor.
        own = group.candidate if asked.is_baseline else None
        found = compare(group.baseline, own if group.floor is None else group.floor, group.candidate)
    elif asked.is_baseline:
        found = reference(group.candidate, group.floor)
    else:
        found = unknown("the baseline's answers, up to numerics", "the baseline's answers are not known")
    load = "1 user" if group.users == 1 else f"{group.users} users"
    return Result(found.status, found.asked, f"{load}: {found.seen}", found.advice)
