from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.domain.workload import Prompt
from spectune.workload import trace_source
from spectune.workload.trace_rows import FORMATS

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURSTGPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def mooncake(tmp_path: Path, *rows: object) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def row(at_ms: float, input_length: int, output_length: int = 5, hash_ids: object = ()) -> dict[str, object]:
    if hash_ids == ():
        hash_ids = []
    return {"timestamp": at_ms, "input_length": input_length, "output_length": output_length, "hash_ids": hash_ids}


def csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return path


def text_of(prompt: Prompt) -> str:
    return prompt.messages[0].content


def common_words(one: str, two: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one.split(), two.split(), strict=False)) if a != b),
        min(len(one.split()), len(two.split())),
    )


def test_mooncake_lengths_times_and_outputs(tmp_path: Path) -> None:
    path = mooncake(tmp_path, row(1000, 600, 7, [1, 2]), row(3500, 100, 9, [3]))
    first, second = trace_source(path, "mooncake", tokens_per_word=2.0).deal(0, 1)
    assert [len(text_of(p).split()) for p in (first, second)] == [300, 50]
    assert [(p.due_s, p.max_tokens, p.fixed_length) for p in (first, second)] == [(0.0, 7, True), (2.5, 9, True)]
    assert first.id == "mooncake-1"


@pytest.mark.parametrize(
    ("one", "two", "shared_words"),
    [
        ((1024, [1, 2]), (1024, [1, 3]), 256),
        ((1024, [1, 2]), (1536, [1, 2, 3]), 512),
        ((1024, [1, 2]), (1024, [4, 5]), 0),
        ((700, [1, 2]), (900, [1, 2]), 350),
        ((512, [1]), (512, [1]), 256),
    ],
)
def test_equal_hash_ids_are_equal_text_and_nothing_more(
    tmp_path: Path, one: tuple[int, list[int]], two: tuple[int, list[int]], shared_words: int
) -> None:
    path = mooncake(tmp_path, row(0, one[0], 5, one[1]), row(1, two[0], 5, two[1]))
    a, b = trace_source(path, "mooncake", tokens_per_word=2.0).deal(0, 1)
    assert shared_words <= common_words(text_of(a), text_of(b)) <= shared_words + 3


def test_hash_ids_that_do_not_match_the_length_are_told_and_the_length_is_kept(tmp_path: Path) -> None:
    path = mooncake(tmp_path, row(0, 2000, 5, [1]), row(1, 600, 5, [1, 2, 3]))
    source = trace_source(path, "mooncake", tokens_per_word=1.0)
    assert [len(text_of(p).split()) for p in source.deal(0, 1)] == [2000, 600]
    assert any(note.endswith("lines 1, 2") and note.startswith("2 lines whose") for note in source.info.notes)


def test_azure(tmp_path: Path) -> None:
    path = csv(
        tmp_path,
        AZURE + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
        "2023-11-16 18:16:00.1805900+00:00,10,1\n",
    )
    source = trace_source(path, "azure", tokens_per_word=1.0)
    prompts = list(source.deal(0, 1))
    assert [round(p.due_s or 0, 3) for p in prompts] == [0.0, 4.315, 13.5]
    assert [p.max_tokens for p in prompts] == [44, 109, 1]
    assert all(abs(len(text_of(p).split()) - n) <= 6 for p, n in zip(prompts, (374, 396, 10), strict=True))
    assert len({text_of(p).split()[0] for p in prompts}) == 3


def test_burstgpt_domains_and_failures(tmp_path: Path) -> None:
    path = csv(
        tmp_path,
        BURSTGPT + "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n"
        "118,GPT-4,417,276,693,API log\n",
    )
    source = trace_source(path, "burstgpt")
    assert source.info.domains == {"conversation": 1, "api": 1}
    assert any("1 requests that got no answer left out: lines 3" in note for note in source.info.notes)
    assert [(p.id, p.due_s) for p in source.deal(0, 1)] == [("burstgpt-2", 0.0), ("burstgpt-4", 113.0)]
    (api,) = trace_source(path, "burstgpt", domains=("api",)).deal(0, 1)
    assert (api.due_s, api.domain) == (0.0, "api")
    with pytest.raises(InputError, match="no domain 'chat'"):
        trace_source(path, "burstgpt", domains=("chat",))


def test_estimates_and_fixed_lengths_are_said(tmp_path: Path) -> None:
    notes = " ".join(trace_source(mooncake(tmp_path, row(0, 9)), "mooncake", tokens_per_word=1.5).info.notes)
    assert "estimates at 1.5 tokens a word" in notes
    assert "fixed-length" in notes
    assert "flatters" in notes


def test_lanes_are_stretches_in_time_and_together_the_whole_trace(tmp_path: Path) -> None:
    path = mooncake(tmp_path, *(row(1000 * n, 20, 5, [n]) for n in range(10)))
    source = trace_source(path, "mooncake")
    lanes = [list(source.deal(lane, 3)) for lane in range(3)]
    assert [[p.id for p in lane] for lane in lanes] == [
        [f"mooncake-{n}" for n in stretch] for stretch in ((1, 2, 3), (4, 5, 6), (7, 8, 9, 10))
    ]
    assert [[p.due_s for p in lane] for lane in lanes] == [[0, 1, 2], [0, 1, 2], [0, 1, 2, 3]]


def test_lines_out_of_order_are_sorted_and_it_is_said(tmp_path: Path) -> None:
    source = trace_source(mooncake(tmp_path, row(3000, 20), row(1000, 21), row(2000, 22)), "mooncake")
    assert [(p.id, p.due_s) for p in source.deal(0, 1)] == [
        ("mooncake-2", 0.0), ("mooncake-3", 1.0), ("mooncake-1", 2.0),
    ]  # fmt: skip
    assert any("not in the order" in note for note in source.info.notes)


def test_the_text_of_a_line_is_the_same_every_time(tmp_path: Path) -> None:
    path = mooncake(tmp_path, row(0, 600, 5, [1, 2]), row(1, 300))
    assert list(trace_source(path, "mooncake").deal(0, 1)) == list(trace_source(path, "mooncake").deal(0, 1))


@pytest.mark.parametrize(
    "bad",
    ["{", "[]", row(0, 0), row(0, -5), row(0, 10, -1), {"timestamp": 1}, {**row(0, 5), "timestamp": "x"},
     row(0, 10, 5, "ids"), row(0, 10, 5, [[1]]), {**row(0, 5), "input_length": 1.5}],
)  # fmt: skip
def test_bad_mooncake_lines_are_counted_and_named(tmp_path: Path, bad: object) -> None:
    source = trace_source(mooncake(tmp_path, row(0, 10), bad, row(1, 11)), "mooncake")
    assert source.info.prompts == 2
    assert any(note.startswith("1 bad line skipped: 2 (") for note in source.info.notes)


@pytest.mark.parametrize("bad", ["yesterday,1,2", "2023-11-16 18:15:46", "2023-11-16 18:15:46,many,2", "\x00,,"])
def test_bad_azure_lines_are_counted_and_named(tmp_path: Path, bad: str) -> None:
    good = "2023-11-16 18:15:46,5,6\n"
    source = trace_source(csv(tmp_path, f"{AZURE}{good}{bad}\n{good}"), "azure")
    assert source.info.prompts == 2
    assert any(note.startswith("1 bad line skipped: 3 (") for note in source.info.notes)


def test_more_than_half_bad_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"2 of 3 lines .* are bad: 1, 3"):
        trace_source(mooncake(tmp_path, "x", row(0, 10), "y"), "mooncake")


def test_a_wrong_header_names_the_missing_column(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'generatedtokens'"):
        trace_source(csv(tmp_path, "TIMESTAMP,ContextTokens\n1,2\n"), "azure")


def test_a_trace_without_answers_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got an answer"):
        trace_source(mooncake(tmp_path, row(0, 10, 0)), "mooncake")


@pytest.mark.parametrize("changed", [{"max_tokens": 3}, {"tokens_per_word": 1.5}])
def test_the_hash_covers_the_options_and_the_file(tmp_path: Path, changed: dict[str, float]) -> None:
    path = mooncake(tmp_path, row(0, 10))
    hashes = {trace_source(path, "mooncake").info.sha256, trace_source(path, "mooncake", **changed).info.sha256}  # type: ignore[arg-type]
    path.write_text(path.read_text().replace("10", "11"))
    assert len(hashes | {trace_source(path, "mooncake").info.sha256}) == 3


def test_a_cap_cuts_longer_answers_and_is_said(tmp_path: Path) -> None:
    source = trace_source(mooncake(tmp_path, row(0, 10, 50), row(0, 10, 5)), "mooncake", max_tokens=20)
    assert [p.max_tokens for p in source.deal(0, 1)] == [20, 5]
    assert any("cut at 20" in note for note in source.info.notes)


@given(st.sampled_from(sorted(FORMATS)), st.binary(max_size=150), st.booleans())
def test_no_bytes_escape_as_a_foreign_error(form: str, data: bytes, header: bool) -> None:
    with tempfile.NamedTemporaryFile() as file:
        start = {"azure": AZURE, "burstgpt": BURSTGPT}.get(form, "") if header else ""
        Path(file.name).write_bytes(start.encode() + data)
        with suppress(InputError):
            assert trace_source(Path(file.name), form).info.prompts > 0


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(1, 3000), st.integers(1, 9)), min_size=1, max_size=8))
def test_due_times_never_fall_and_start_at_nothing(rows: list[tuple[int, int, int]]) -> None:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_text("\n".join(json.dumps(row(*values)) for values in rows))
        due = [p.due_s or 0.0 for p in trace_source(Path(file.name), "mooncake").deal(0, 1)]
    assert due[0] == 0
    assert all(a <= b for a, b in pairwise(due))
    assert len(due) == len(rows)
