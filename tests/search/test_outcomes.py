"""The file behind long series of simulated campaigns."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.search.outcomes import Key, OutcomeFile, grouped
from bench.search.series import blocks
from bench.search.simulate import Outcome
from spectune.domain.errors import InputError

KEYS = [Key("grid", 0.01, "a", seed) for seed in range(2)]
MADE = {key: Outcome((0.25, 0.125 / (key.seed + 1))) for key in KEYS}


def test_a_file_gives_back_what_was_added(tmp_path: Path) -> None:
    file = OutcomeFile(tmp_path / "o.jsonl", "code")
    assert file.load() == {}
    file.append(MADE)
    more = {Key("random", 0.05, "b", 7): Outcome((0.0,))}
    file.append(more)
    assert file.load() == MADE | more


def test_a_line_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    file = OutcomeFile(path, "code")
    file.append(MADE)
    more = {Key("random", 0.05, "b", 7): Outcome((0.0,))}
    whole = path.read_text(encoding="utf-8")
    file.append(more)
    for length in range(len(whole), len(path.read_text(encoding="utf-8")) - 1, 7):
        cut = tmp_path / f"cut-{length}"
        cut.write_text(path.read_text(encoding="utf-8")[:length], encoding="utf-8")
        again = OutcomeFile(cut, "code")
        assert again.load() == MADE
        again.append(more)
        assert again.load() == MADE | more


@pytest.mark.parametrize(("text", "words"), [('{"code": "old"}\n', "other code"), ("no\n", "not a file of outcomes")])
def test_a_file_that_can_not_be_gone_on_with_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "o.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        OutcomeFile(path, "code").load()


def test_outcomes_are_grouped_as_asked() -> None:
    assert grouped(MADE, [KEYS[1], Key("grid", 0.01, "a", 9)]) == {(0.01, "grid"): {"a": [MADE[KEYS[1]]]}}


def test_low_seeds_of_every_strategy_come_first() -> None:
    keys = [Key(name, 0.01, "a", seed) for name in ("grid", "random") for seed in range(25)]
    made = [block.keys for block in blocks(keys, 1, None)]
    assert [(part[0].strategy, part[0].seed, len(part)) for part in made] == [
        ("grid", 0, 10),
        ("random", 0, 10),
        ("grid", 10, 10),
        ("random", 10, 10),
        ("grid", 20, 5),
        ("random", 20, 5),
    ]
