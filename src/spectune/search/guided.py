"""The guided search: measure each method once where that tells most, forecast every depth, and try only what can win.

Speculation is no black box: acceptance by position and the cost of a step decide its speed, and both can be read off
one trial. So after two baselines, and whatever the campaign file names, each method is measured at one depth; then the
candidate with the largest expected improvement over the best so far is tried, and the forecast made again, until
nothing left can gain what a change must bring. Other settings follow one at a time on the best, and the finalist is
confirmed interleaved with the baseline.

Where earlier campaigns let forecast a method that this one has not measured yet, its first depth is the most promising
one, and once a trial of this campaign has borne out what they let expect, a method that can't win is left out unseen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spectune.domain.candidate import Candidate
from spectune.domain.forecast import Forecast, Forecaster
from spectune.domain.history import History
from spectune.domain.knobs import KnobValue
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import CampaignSpec, SpeculationSpace
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.domain.verdict import Decision, Verdict
from spectune.search.bracket import confirmation, confirming, finalist, opening, scores
from spectune.search.prospects import Prospect, hopeless, in_words, prospect, ranked
from spectune.search.scheduled import scheduled
from spectune.search.spending import affordable, anchor
from spectune.search.staged import at_depth, spelled_out

GIVEN_UP_AFTER = 2
"""Invalid trials after which a method is left alone."""

RECOUNTS = 2
"""Trials spent at most on measuring a rival again."""


class Guided:
    """A `Strategy`. Depends on spec, history and a forecaster that depends on them alone, so that a resumed campaign
    goes on as it would have."""

    def __init__(self, forecaster: Forecaster) -> None:
        self._forecaster = forecaster

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        if (first := opening(history)) is not None:
            return first
        # Arms of the confirmation tell about two candidates only: the forecast that named the winner stays as it was.
        outlook = _outlook(spec, _explored(history), self._forecaster)
        step = outlook.next_step() or scheduled(spec, history)
        winner = _winner(spec, history, outlook)
        if step is not None and not confirming(history) and affordable(spec, history, winner):
            return anchor(history) or step
        return confirmation(spec, history, winner) or Stop(outlook.left_out(step))

    def winner(self, spec: CampaignSpec, history: History) -> Candidate | None:
        """Who would be confirmed now; None where nobody looks better than the baseline."""
        return _winner(spec, history, _outlook(spec, _explored(history), self._forecaster))


def _winner(spec: CampaignSpec, history: History, outlook: _Outlook) -> Candidate | None:
    """A schedule by what the judge says of it, since forecasts know fixed depths only."""
    best = finalist(spec, history)
    return best if best is not None and best.speculation.schedule else outlook.winner()


def _explored(history: History) -> History:
    """What was known of fixed depths when the confirmation began."""
    return replace(
        history,
        trials={
            number: trial
            for number, trial in history.trials.items()
            if trial.purpose is not Purpose.CONFIRM and not trial.candidate.speculation.schedule
        },
    )


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What is known and what is left, at one moment.

    Attributes:
        untried: candidates of every method that may still be tried, by method.
        begun: whether a method has a valid trial, by method.
        found: forecasts of all untried candidates and the baseline.
    """

    spec: CampaignSpec
    history: History
    untried: Sequence[tuple[SpeculationSpace, Sequence[Candidate]]]
    begun: Sequence[bool]
    found: Mapping[str, Forecast]

    def next_step(self) -> Proposal | None:
        steps = (
            self._named(),
            self._first_depth(),
            self._promising(),
            self._unknown(),
            self._contested(),
            self._knob(),
        )
        return next((step for step in steps if step is not None), None)

    def winner(self) -> Candidate | None:
        """Who is to be confirmed: as `finalist`, by the forecast of everyone who was measured, since it pools what all
        trials tell; by the judge's scores where there is none."""
        measured = {trial.candidate.id for trial in self.history.finished if trial.valid}
        pooled = {
            name: forecast.gain.value
            for name, forecast in self.found.items()
            if name in measured and forecast.gain is not None and name != self.history.baseline.id
        }
        known = scores(self.history, pooled)
        return finalist(self.spec, self.history, {n: s for n, s in known.items() if not self._is_out(n, n in pooled)})

    def _is_out(self, name: str, pooled: bool) -> bool:
        """Whether a candidate can't win: it failed or broke a constraint, or it was judged slower and nothing but the
        judge's score speaks for it."""
        trials = [t for t in self.history.finished if t.candidate.id == name and t.purpose is Purpose.EXPLORE]
        return any(
            trial.state in {TrialState.INVALID, TrialState.PRUNED}
            or trial.verdict is None
            or (trial.verdict.decision is Decision.REVERT and not (pooled and _slower(trial.verdict)))
            for trial in trials
        )

    @property
    def _baseline(self) -> Forecast | None:
        return self.found.get(self.history.baseline.id)

    def _open(self) -> list[Candidate]:
        """Untried candidates of methods already measured that no constraint rules out."""
        rows = zip(self.untried, self.begun, strict=True)
        return [c for (_, candidates), begun in rows if begun for c in self._possible(candidates)]

    def _hopeless(self, candidate: Candidate) -> str:
        forecast = self.found.get(candidate.id)
        return hopeless(self.spec, forecast, self._baseline) if forecast else ""

    def _named(self) -> Proposal | None:
        tried = {trial.candidate.id for trial in self.history.finished}
        named = (spelled_out(self.history.baseline, spelled) for spelled in self.spec.search.candidates)
        left = next((candidate for candidate in named if candidate.id not in tried), None)
        return Proposal(left, Purpose.EXPLORE, "named in the campaign file") if left is not None else None

    def _first_depth(self) -> Proposal | None:
        """The first trial of a method: of those with a forecast the most promising, else in the order of the file."""
        new = [row for row, begun in zip(self.untried, self.begun, strict=True) if row[1] and not begun]
        hoped = ranked(self.found, [c for _, candidates in new for c in self._possible(candidates)])
        first = next((one for one in hoped if not self._is_proven or self._can_win(one)), None)
        if first is not None:
            return self._promised(first)
        for space, candidates in new:
            if not self._is_foreseen(candidates):
                candidate = telling(candidates)
                name = space.method.value
                why = f"{name}: the depth of {_depths(candidates)} that tells most about the others"
                return Proposal(candidate, Purpose.EXPLORE, why if len(candidates) > 1 else f"{name}: its only depth")
        return None

    @property
    def _is_proven(self) -> bool:
        """Whether earlier campaigns stood the test of this one: a speculation measured here is as they let expect.
        Forecasters do without those that are not."""
        tried = (t.candidate for t in self.history.finished if t.valid and t.purpose is Purpose.EXPLORE)
        return any(candidate.speculation.depth > 0 and candidate.id in self.found for candidate in tried)

    def _is_foreseen(self, candidates: Sequence[Candidate]) -> bool:
        """Whether earlier campaigns tell that no depth of a method can win."""
        return self._is_proven and all(
            c.id in self.found and (self._hopeless(c) or prospect(self.found[c.id]) is not None) for c in candidates
        )

    def _possible(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        return [candidate for candidate in candidates if not self._hopeless(candidate)]

    def _can_win(self, hoped: Prospect) -> bool:
        goal = self.spec.objective
        return hoped.possible(goal.confidence) >= goal.min_gain

    def _promised(self, hoped: Prospect) -> Proposal:
        words = in_words(self.spec, hoped, self._baseline, self._name(hoped.forecast.leader))
        return Proposal(hoped.candidate, Purpose.EXPLORE, f"{hoped.candidate.label}: {words}")

    def prospects(self) -> list[Prospect]:
        return ranked(self.found, self._open())

    def _promising(self) -> Proposal | None:
        return next((self._promised(hoped) for hoped in self.prospects() if self._can_win(hoped)), None)

    def _unknown(self) -> Proposal | None:
        """A candidate about which nothing can be forecast although its method was measured."""
        known = {prospect.candidate.id for prospect in self.prospects()}
        unknown = [candidate for candidate in self._open() if candidate.id not in known]
        if not unknown:
            return None
        candidate = telling(unknown)
        return Proposal(candidate, Purpose.EXPLORE, f"{candidate.label}: nothing can be forecast, so it is measured")

    def _contested(self) -> Proposal | None:
        """One of two rivals again, where single measurements name one as the best and the forecast, which pools all of
        them, another. The incumbent is not the one: measured against itself it would say nothing."""
        single = finalist(self.spec, self.history)
        forecast = self.found.get(single.id) if single is not None else None
        if single is None or forecast is None or forecast.lead is None or forecast.leader == single.id:
            return None
        if forecast.lead.value > 1 / (1 + self.spec.objective.min_gain / 2):
            return None
        pooled = self.history.candidates[forecast.leader]
        rivals = [c for c in (pooled, single) if c.id not in {self.history.incumbent.id, self.history.baseline.id}]
        explored = [trial.candidate.id for trial in self.history.finished if trial.purpose is Purpose.EXPLORE]
        rivals = [rival for rival in rivals if explored.count(rival.id) <= RECOUNTS]
        if not rivals or len(explored) - len(set(explored)) >= RECOUNTS:
            return None
        words = f"measured best is {single.label}, but all trials together speak for {self._name(pooled.id)}"
        return Proposal(rivals[0], Purpose.EXPLORE, f"{rivals[0].label} again: {words}")

    def _knob(self) -> Proposal | None:
        best = self.winner() or self.history.baseline
        return next(_knobs(self.spec, self.history, best), None)

    def _name(self, candidate: str) -> str:
        found = self.history.candidates.get(candidate)
        return "the baseline" if found is None or found.id == self.history.baseline.id else found.label

    def left_out(self, step: Proposal | None) -> str:
        """Why the search ends, what it left out, and what that saved."""
        left = [candidate for _, candidates in self.untried for candidate in candidates]
        parts = [f"the budget ended before {step.candidate.label} could be tried" if step else "nothing left can win"]
        if not left:
            return "everything worth trying was tried" if step is None else parts[0]
        shown = ranked(self.found, self._possible(left))
        if shown:
            confidence = self.spec.objective.confidence
            most = max(shown, key=lambda prospect: prospect.possible(confidence))
            parts.append(
                f"left out {', '.join(p.candidate.label for p in sorted(shown, key=_simplicity))}: at best "
                f"{100 * most.possible(confidence):+.1f} % against {self._name(most.forecast.leader)} "
                f"({100 * confidence:g} % sure)"
            )
        parts += [f"{c.label}: {why}" for c in left if (why := self._hopeless(c))]
        tried = sum(trial.purpose is Purpose.EXPLORE for trial in self.history.finished)
        launched = f"{tried} launched of {tried + len(left)}"
        parts.append(f"{launched}: {_launches(len(left))} saved" if step is None else launched)
        return "; ".join(parts)


def _slower(verdict: Verdict) -> bool:
    """Whether a trial was reverted for its speed; a broken constraint of one that is not slower is another matter."""
    return verdict.overall is not None and verdict.overall.high < 1


def _simplicity(prospect: Prospect) -> tuple[int, int]:
    return prospect.candidate.simplicity()


def _launches(count: int) -> str:
    return "1 launch" if count == 1 else f"{count} launches"


def _depths(candidates: Sequence[Candidate]) -> str:
    return ", ".join(str(candidate.speculation.depth) for candidate in candidates)


def telling(candidates: Sequence[Candidate]) -> Candidate:
    """The depth that tells most about the others: half-way on a square-root scale. A deep draft shows acceptance at
    every position before it, but its own cost is the least like that of the shallow depths, which mostly win."""
    depths = [candidate.speculation.depth for candidate in candidates]
    middle = ((math.sqrt(min(depths)) + math.sqrt(max(depths))) / 2) ** 2
    return min(candidates, key=lambda c: (abs(math.sqrt(c.speculation.depth) - math.sqrt(middle)), c.speculation.depth))


def _outlook(spec: CampaignSpec, history: History, forecaster: Forecaster) -> _Outlook:
    rows, begun = [], []
    for space in spec.search.speculation:
        candidates = [at_depth(history.baseline, space, depth) for depth in sorted(space.depths)]
        trials = [trial for trial in history.finished if _same_method(trial.candidate, candidates[0])]
        rows.append((space, _untried(candidates, trials)))
        begun.append(any(trial.valid for trial in trials))
    asked = [*history.candidates.values(), *(candidate for _, candidates in rows for candidate in candidates)]
    found = forecaster.forecast(spec, history, [history.baseline, *asked])
    if spec.objective.maximise is MetricName.GOODPUT:
        # Forecasts are of speed. Who serves more requests within bounds is not told by it, so everyone is measured.
        found = {name: replace(forecast, gain=None, lead=None, leader="") for name, forecast in found.items()}
    return _Outlook(spec, history, rows, begun, found)


def _same_method(one: Candidate, other: Candidate) -> bool:
    """Whether two candidates differ in depth at most."""
    alike = replace(one.speculation, depth=0) == replace(other.speculation, depth=0)
    return alike and dict(one.knobs) == dict(other.knobs)


def _untried(candidates: Sequence[Candidate], trials: Sequence[Trial]) -> list[Candidate]:
    """Depths that may still be tried: a depth that failed its checks rules out the deeper ones, and a method that
    failed twice is left alone."""
    failed = [t for t in trials if t.state in {TrialState.INVALID, TrialState.PRUNED} and t.purpose is Purpose.EXPLORE]
    if len(failed) >= GIVEN_UP_AFTER:
        return []
    limit = min((trial.candidate.speculation.depth for trial in failed), default=math.inf)
    tried = {trial.candidate.id for trial in trials}
    unique = {candidate.id: candidate for candidate in candidates}
    return [c for name, c in unique.items() if name not in tried and c.speculation.depth < limit]


def _knobs(spec: CampaignSpec, history: History, best: Candidate) -> Iterator[Proposal]:
    """Other settings, one at a time on the best so far; none is tried again on a later best."""
    explored = [trial.candidate for trial in history.finished if trial.purpose is Purpose.EXPLORE]
    for name, values in spec.search.knobs.items():
        as_it_is = history.baseline.knobs.get(name, history.opened.service.args.get(name))
        known = [as_it_is, *(candidate.knobs.get(name) for candidate in explored)]
        for value in values:
            if not any(_equal(value, other) for other in known):
                candidate = replace(best, knobs={**best.knobs, name: value})
                yield Proposal(candidate, Purpose.EXPLORE, f"{name}={value} on {best.label}, the best so far")


def _equal(one: KnobValue, other: KnobValue | None) -> bool:
    """Equality that tells true from 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
