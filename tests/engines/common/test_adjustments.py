from __future__ import annotations

from spectune.domain.deployment import Adjustment, Meaning
from spectune.engines.common.adjustments import adjustment, sentence

SENTENCES = (
    sentence("limit", r"limit (?:is (\d+)|unset); users (\d+)", Meaning.CHANGED, "{1} for {2}", "Set {2}."),
    sentence("any", r"limit", Meaning.SAME, "nothing"),
)


def test_the_first_sentence_counts() -> None:
    text = "the limit is 3; users 4 {1}"
    assert adjustment(text, SENTENCES) == Adjustment("limit", text, Meaning.CHANGED, "3 for 4", "Set 4.")
    unset = adjustment("limit unset; users 4", SENTENCES)
    assert unset is not None
    assert unset.because == " for 4"
    assert adjustment("no limit", SENTENCES) == Adjustment("any", "no limit", Meaning.SAME, "nothing", "")
    assert adjustment("nothing", SENTENCES) is None
