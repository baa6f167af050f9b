from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.domain.workload import Message
from spectune.workload import WithNonce, jsonl_source


def write(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_reads_both_forms(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"prompt": "one", "domain": "a", "max_tokens": 5},
        {
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "two"}],
            "id": "x",
            "domain": "b",
        },
    )
    first, second = jsonl_source(path).deal(0, 1)
    assert (first.messages, first.max_tokens, first.domain) == ((Message("user", "one"),), 5, "a")
    assert (second.id, second.messages[1]) == ("x", Message("user", "two"))


@pytest.mark.parametrize(
    "bad",
    ["{", "[1]", "3", '{"text": "x"}', '{"prompt": 3}', '{"prompt": ""}', '{"messages": []}', '{"messages": [{}]}',
     '{"prompt": "x", "max_tokens": 0}', '{"prompt": "x", "max_tokens": "many"}', '{"messages": "hi"}',
     '{"messages": [{"role": "user", "content": [{"type": "image"}]}]}'],
)  # fmt: skip
def test_bad_lines_are_counted_and_named(tmp_path: Path, bad: str) -> None:
    path = write(tmp_path, {"prompt": "good"}, bad, "", {"prompt": "fine"})
    source = jsonl_source(path)
    assert source.info.prompts == 2
    assert source.info.notes == ("1 bad lines skipped: 2",)


def test_sharegpt_arrays_are_read_up_to_the_last_question(tmp_path: Path) -> None:
    path = tmp_path / "sharegpt.json"
    turns = [("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d")]
    good = {"id": "s1", "conversations": [{"from": who, "value": text} for who, text in turns]}
    path.write_text(json.dumps([good, {"conversations": [{"from": "tool", "value": "x"}]}, {"id": 3}], indent=1))
    source = jsonl_source(path)
    (prompt,) = source.deal(0, 1)
    assert prompt.messages == (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    assert source.info.notes == ("2 bad entries skipped: 2, 3",)


def test_answers_at_the_end_are_for_the_server_to_give(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    (prompt,) = jsonl_source(write(tmp_path, {"messages": messages, "output_tokens": 7})).deal(0, 1)
    assert (prompt.messages, prompt.max_tokens) == ((Message("user", "q"),), 7)


@given(st.binary(max_size=200))
def test_no_bytes_escape_as_a_foreign_error(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        with suppress(InputError):
            assert jsonl_source(Path(file.name)).info.prompts > 0


def test_only_bad_lines_is_an_error_with_their_numbers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no usable prompt \(bad lines: 1, 2\)"):
        jsonl_source(write(tmp_path, "x", "y"))


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        jsonl_source(tmp_path / "none.jsonl")


def test_repeated_prompts_are_dealt_once_and_said(tmp_path: Path) -> None:
    source = jsonl_source(write(tmp_path, {"prompt": "a"}, {"prompt": "a"}, {"prompt": "b"}))
    assert len(list(source.deal(0, 1))) == 2
    assert "1 repeated prompts dealt once" in source.info.notes


def test_ids_pair_arms_and_are_made_unique(tmp_path: Path) -> None:
    source = jsonl_source(write(tmp_path, {"prompt": "a", "id": "q"}, {"prompt": "b", "id": "q"}))
    assert len({prompt.id for prompt in source.deal(0, 1)}) == 2


def test_lanes_share_nothing_and_together_are_all(tmp_path: Path) -> None:
    path = write(tmp_path, *({"prompt": f"p{n}", "domain": "ab"[n % 2]} for n in range(20)))
    lanes = [[prompt.id for prompt in jsonl_source(path).deal(lane, 3)] for lane in range(3)]
    together = [prompt for lane in lanes for prompt in lane]
    assert len(together) == len(set(together)) == 20


def test_a_nonce_changes_every_text_but_no_id(tmp_path: Path) -> None:
    source = jsonl_source(write(tmp_path, {"prompt": "a"}, {"prompt": "b"}))
    plain, marked = list(source.deal(0, 1)), list(WithNonce(source, "n1").deal(0, 1))
    assert [p.id for p in plain] == [p.id for p in marked]
    assert all(m.messages[0].content.startswith("[n1-") for m in marked)
    assert len({m.messages[0].content[:12] for m in marked}) == 2
    assert any("nonce" in note for note in WithNonce(source, "n1").info.notes)
