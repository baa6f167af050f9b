from __future__ import annotations

from spectune.domain.candidate import Candidate, Method, Speculation

DRAFT = Speculation(Method.DRAFT, 3, draft_model="/d.gguf")


def test_id_depends_on_settings_not_on_their_order() -> None:
    one = Candidate(DRAFT, {"threads": 2, "parallel": 4})
    other = Candidate(DRAFT, {"parallel": 4, "threads": 2})
    assert one.id == other.id
    assert one.id != Candidate(DRAFT, {"threads": 1, "parallel": 4}).id
    assert len(one.id) == 8


def test_labels_say_what_differs() -> None:
    assert Candidate().label == "none"
    assert Candidate(DRAFT).label == "draft k=3"
    ngram = Speculation(Method.NGRAM, 8, settings={"spec-ngram-simple-size-n": 4})
    assert Candidate(ngram, {"threads": 1}).label == "ngram k=8 size-n=4, threads=1"
    assert Candidate(knobs={"mlock": True}).label == "none, mlock=true"


def test_changes_name_every_difference() -> None:
    assert Candidate(DRAFT, {"threads": 1}).changes_from(Candidate()) == ("depth", "draft-model", "method", "threads")
    assert Candidate(DRAFT).changes_from(Candidate(DRAFT)) == ()


def test_smaller_depth_and_fewer_settings_are_simpler() -> None:
    shallow = Candidate(Speculation(Method.DRAFT, 1, draft_model="/d.gguf"))
    candidates = [Candidate(DRAFT, {"threads": 1}), Candidate(DRAFT), shallow, Candidate()]
    assert sorted(candidates, key=Candidate.simplicity) == candidates[::-1]
