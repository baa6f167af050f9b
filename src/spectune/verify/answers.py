"""Checks on the text a server gives back: does it answer, and are its greedy answers the baseline's?

Greedy text may differ without a fault, because the shape of a batch changes the last bits of the logits and near-ties
then fall to the other side. So bytes are not compared; the *rate* at which answers part is. Let D be the number of
prompts whose answers part, and W the words that were shared before they did (all words of an equal answer). Numerics
make answers part at some rare rate for every word, so D is Poisson distributed around rate x W; a fault makes them part
within a few words. Two exact one-sided Poisson tests at 5 % decide, whatever the number and length of the answers:

- ok: D is not significantly above (floor rate + TOLERATED) x W, and significantly below BROKEN x W;
- violated: D is above the tolerated rate beyond doubt (1 in 1000) and the median answer parts within NEAR_ZERO words;
- unknown otherwise, with no floor, or with too little text to tell.

The floor is the baseline compared with itself: two deployments, each asked at the same number of users. Flaws (empty,
garbage, loops, answers cut short) count only where the baseline's answer has none; loops and cuts may follow from a
near-tie, so one in each direction is chance, and the exact McNemar (sign) test decides. JSON and code that programs can
read at the baseline must still be readable: a single one may be chance, two that are half of them or more are not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from scipy.special import bdtrc, pdtr, pdtrc

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer
from spectune.verify.check import Result, ok, unknown, violated, worst
from spectune.verify.formats import Format, format_of, python_so_far
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
SHOWN = 60
"""Characters of an answer that a finding quotes."""
REFUSED = "http-error"
"""How the error of a request begins that the server refused with a status."""


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
    def start(self) -> float:
        """Words that the median answer shares; an equal one counts as parting late."""
        return median(pair.prefix_words if not pair.equal else NEAR_ZERO for pair in self.pairs.values())

    def chance(self, rate: float) -> float:
        """Of so many partings or more, at so many for every shared word."""
        return float(pdtrc(self.parted - 1, rate * self.words)) if self.parted else 1.0

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
    first = min((name for name, pair in found.pairs.items() if not pair.equal), default="")
    shown = ""
    if first:
        texts = _texts(baseline)[first], _texts(candidate)[first]
        shown = example(first, *texts, found.pairs[first].prefix_chars)
    return worst((_failures(baseline, candidate), *_flaws(baseline, candidate, found), _partings(found, own, shown)))


def example(name: str, theirs: str, ours: str, at: int = 0) -> str:
    """One pair of answers from a little before a position, for people."""
    mine, other = (quoted(text, at) for text in (ours, theirs))
    return f'for example "{name}": {mine}, the baseline: {other}'


def quoted(text: str, at: int = 0) -> str:
    """An answer from a little before a position, so that nothing in it can act on a terminal."""
    start = max(0, at - SHOWN // 3)
    return f"{'...' if start else ''}{text[start : start + SHOWN]!r}"


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
        fresh = sorted(name for name, (before, mine) in flaws.items() if mine is kind and before is None)
        if fresh:
            shown = example(fresh[0], theirs[fresh[0]], ours[fresh[0]], _odd_at(ours[fresh[0]]))
            results.append(violated(_SOUND, f"{len(fresh)} of {len(both)} are {kind.value}; {shown}"))
    loops = {name: (before is Flaw.LOOP, mine is Flaw.LOOP) for name, (before, mine) in flaws.items()}
    cuts = {name: (pair.goes_on, pair.cut) for name, pair in found.pairs.items()}
    return [
        *results,
        _one_sided(loops, "end in a loop", theirs, ours),
        _one_sided(cuts, "are cut short", theirs, ours),
        _unreadable(theirs, ours, frozenset(a.prompt_id for a in candidate if a.finish_reason == "length")),
    ]


_SOUND = "answers as sound as the baseline's"


def _odd_at(text: str) -> int:
    return max(0, text.find("\N{REPLACEMENT CHARACTER}"))


def _unreadable(theirs: Mapping[str, str], ours: Mapping[str, str], cut: Collection[str]) -> Result:
    """JSON, tool calls and code that programs could read at the baseline, and can't any more. Code that the limit of
    tokens cut off is not held against it where it is sound up to there."""
    formats = {name: kind for name in sorted(theirs.keys() & ours.keys()) if (kind := format_of(theirs[name]))}
    broken = {
        name: kind
        for name, kind in formats.items()
        if format_of(ours[name]) is not kind
        and not (name in cut and kind is Format.PYTHON and python_so_far(ours[name]))
    }
    if not broken:
        return ok("", "")
    name, kind = next(iter(broken.items()))
    at = agreement(theirs[name], ours[name]).prefix_chars
    gained = sum(
        format_of(theirs[name]) is None and format_of(text) is not None for name, text in ours.items() if name in theirs
    )
    sure = bdtrc(len(broken) - 1, len(broken) + gained, 0.5) <= LEVEL
    verdict = violated if sure or any(_most_of(group, broken, formats) for group in map(_group_of, broken)) else unknown
    what = f"{len(broken)} of {len(formats)} answers that programs read are no valid {_kinds(broken.values())} any more"
    return verdict(_SOUND, f"{what}; {example(name, theirs[name], ours[name], at)}")


def _group_of(name: str) -> str:
    """Prompts of a kind share what stands before the slash ("tools/weather")."""
    return name.partition("/")[0] if "/" in name else ""


def _most_of(group: str, broken: Iterable[str], readable: Iterable[str]) -> bool:
    bad, good = (sum(_group_of(name) == group for name in names) for names in (broken, readable))
    return bad >= 2 and 2 * bad >= good


def _kinds(kinds: Iterable[Format]) -> str:
    return " or ".join(sorted({kind.value for kind in kinds}))


def _one_sided(
    pairs: Mapping[str, tuple[bool, bool]], what: str, theirs: Mapping[str, str], ours: Mapping[str, str]
) -> Result:
    """Exact sign test over the prompts where only one of (baseline, candidate) shows it."""
    new = sorted(name for name, (before, mine) in pairs.items() if mine and not before)
    fresh, gone = len(new), sum(before and not mine for before, mine in pairs.values())
    wanted, seen = _SOUND, f"{fresh} of {len(pairs)} {what} (baseline only: {gone})"
    if new:
        seen += f"; {example(new[0], theirs[new[0]], ours[new[0]], len(ours[new[0]]))}"
    if fresh and bdtrc(fresh - 1, fresh + gone, 0.5) <= LEVEL:
        return violated(wanted, seen)
    return unknown(wanted, seen) if fresh - gone >= 2 else ok("", "")


def _partings(found: Parting, own: Parting, shown: str) -> Result:
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
    chance = found.chance(tolerated)
    if chance < BEYOND_DOUBT and found.start < NEAR_ZERO:
        return violated(wanted, f"{seen}: different from the start; {shown}" if shown else seen)
    if chance <= LEVEL:
        return unknown(wanted, f"{seen}: they part more often than the baseline from itself")
    if float(pdtr(found.parted, BROKEN * found.words)) > LEVEL:
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
    """Whether the server really generates, not only says that it is healthy. Requests that the service as it is refuses
    too (tools without a parser, prompts longer than its context) are no fault of a candidate."""
    wanted = "text in answer to every probe"
    answers = [answer for group in observed.answers for answer in group.candidate]
    if not answers:
        return unknown(wanted, "no probe was sent")
    failed = [answer for group in observed.answers for answer in _failed(asked, group)]
    if failed:
        return violated(wanted, f"{len(failed)} of {len(answers)} probes failed: {failed[0].error}")
    if not observed.seen.invented_text and not any(answer.text.strip() for answer in answers):
        return violated(wanted, f"{len(answers)} probes were answered without text")
    refused = [answer for answer in answers if answer.error]
    note = f"; {len(refused)} are none this service answers ({refused[0].error})" if refused else ""
    return ok(wanted, f"{len(answers) - len(refused)} probes answered{note}")


def _failed(asked: Asked, group: ProbeAnswers) -> list[Answer]:
    """Probes that should have been answered and were not."""
    failed = [answer for answer in group.candidate if answer.error]
    if asked.is_baseline and all(answer.error.startswith(REFUSED) for answer in failed):
        return failed if 2 * len(failed) > len(group.candidate) else []
    refused = {answer.prompt_id for answer in group.baseline if answer.error}
    return [answer for answer in failed if answer.prompt_id not in refused]


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
    return Result(found.status, found.asked, f"{load}: {found.seen}" if found.seen else load, found.advice)
