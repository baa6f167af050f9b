"""The judge: paired comparisons, with the noise of the machine in every interval."""

from __future__ import annotations

from dataclasses import dataclass

from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Trial
from spectune.domain.verdict import Conclusion, Verdict
from spectune.judge.conclusion import conclude_campaign
from spectune.judge.trial_verdict import decide_trial


@dataclass(frozen=True, slots=True)
class PairedJudge:
    """Implements the Judge port. Pure: the same history gives the same words.

    The method is described in docs/statistics.md, with simulated coverage and error rates.
    """

    def decide(self, spec: CampaignSpec, history: History, trial: Trial) -> Verdict:
        """The verdict on a trial; trials with higher numbers are not looked at.

        An exploration is compared with the incumbent, a confirmation with the baseline over the confirmation trials
        so far, a baseline or anchor with the other trials of the same candidate (never KEEP or REVERT).

        KEEP: the interval lies above 1 and the estimate reaches 1 + min_gain (in a confirmation: the interval at the
        error of its look lies above 1, and the interval reaches 1 + min_gain), or a tie with an incumbent that is not
        simpler. REVERT: the interval lies below 1, a constraint is broken, or the trial is invalid. TIE: provably
        smaller than min_gain. INCONCLUSIVE: everything else, missing data included.
        """
        return decide_trial(spec, history, trial)

    def conclude(self, spec: CampaignSpec, history: History) -> Conclusion:
        """The answer.

        Only confirmation trials decide about a winner: they are made after it was picked, so that the luck which made
        it look best (the winner's curse) is not in them, and no correction for the number of explored candidates is
        due. Of several that win, the simplest within the minimum gain of the best is taken. Without confirmation
        nothing wins; the winner is None where something looked better. A candidate with an invalid trial, a check that
        is not ok, or a constraint that bars it can't win.
        """
        return conclude_campaign(spec, history)
