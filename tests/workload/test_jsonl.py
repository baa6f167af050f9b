from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.domain.workload import Message, Prompt, WorkloadInfo
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
    (note,) = (note for note in source.info.notes if "bad" in note)
    assert note.startswith("1 bad line skipped: 2 (")


def test_sharegpt_arrays_are_read_up_to_the_last_question(tmp_path: Path) -> None:
    path = tmp_path / "sharegpt.json"
    turns = [("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d")]
    good = {"id": "s1", "conversations": [{"from": who, "value": text} for who, text in turns]}
    more = {"conversations": [{"from": "gpt", "value": "hello"}, {"from": "user", "value": "q"}]}
    path.write_text(json.dumps([good, {"conversations": [{"from": "tool", "value": "x"}]}, {"id": 3}, more], indent=1))
    source = jsonl_source(path)
    prompt, other = source.deal(0, 1)
    assert prompt.messages == (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    assert other.messages == (Message("user", "q"),)
    bad, opened = source.info.notes
    assert bad.startswith("2 bad entries skipped: 2, 3 (the first: conversations 1: from 'tool'; there are human, user")
    assert opened == "1 conversations began with an answer, which was left out"


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


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text("ab", max_size=2)
    | st.sampled_from(["user", "tool", "gpt"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["role", "content", "from", "value", "tool_calls", "tool_call_id", "type", "text"]), inner
        )
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["messages", "prompt", "conversations", "tools", "max_tokens", "id", "domain", "custom_id", "body"]
)


@settings(max_examples=50)
@given(st.lists(st.dictionaries(KEYS, JSON | st.lists(JSON, max_size=3)), max_size=3))
def test_no_json_escapes_as_a_foreign_error(entries: list[object]) -> None:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_text("\n".join(map(json.dumps, [{"prompt": "good"}, *entries])))
        with suppress(InputError):
            source = jsonl_source(Path(file.name))
            assert len(list(source.deal(0, 1))) == source.info.prompts > 0


def test_only_bad_lines_is_an_error_with_their_numbers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no usable prompt: bad lines 1, 2"):
        jsonl_source(write(tmp_path, "x", "y"))


def test_more_bad_than_good_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"2 of 3 lines .* are bad: 1, 3"):
        jsonl_source(write(tmp_path, "x", {"prompt": "a"}, "y"))
    assert jsonl_source(write(tmp_path, "x", {"prompt": "a"})).info.prompts == 1


def test_tool_calls_tool_results_and_tools_are_sent_as_they_are(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    entry = {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
        ],
        "tools": tools,
        "response_format": {"type": "json_object"},
    }
    (prompt,) = jsonl_source(write(tmp_path, entry)).deal(0, 1)
    assert prompt.messages[1] == Message("assistant", "", {"tool_calls": [call]})
    assert prompt.messages[2] == Message("tool", "r", {"tool_call_id": "c1"})
    assert prompt.extra == {"tools": tools, "response_format": {"type": "json_object"}}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"messages": [{"role": "tool", "content": "r"}]}, "messages 1: a tool message without tool_call_id"),
        ({"messages": [{"role": "user", "content": "q"}, {"role": "bot", "content": "x"}]}, "messages 2: role 'bot'"),
        ({"messages": [{"role": ["user"], "content": "q"}]}, "messages 1: role"),
        ({"messages": [{"role": "system", "content": "s"}]}, "ends with a system message"),
        ({"messages": [{"role": "assistant", "content": "s"}]}, "no question"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "a part that is not text: image_url"),
        ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, "tool_calls is not a list of objects"),
        ({"prompt": "q", "tools": {}}, "tools is not a list of objects"),
        ({"conversations": [{"from": {}, "value": "x"}]}, "from {}"),
        ({"instruction": "q"}, 'none of "messages"'),
    ],
)
def test_the_reason_of_the_first_bad_line_is_told(tmp_path: Path, entry: object, reason: str) -> None:
    notes = jsonl_source(write(tmp_path, {"prompt": "good"}, entry)).info.notes
    assert any(reason in note for note in notes), notes


@pytest.mark.parametrize(
    ("entry", "text", "cap"),
    [
        ({"prompt": "q", "output_tokens": 9}, "q", 9),
        ({"prompt": "q", "completion": "an answer"}, "q", 256),
        ({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]},
         "q", 256),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
         "a\nb", 256),
        ({"custom_id": "r1", "body": {"messages": [{"role": "user", "content": "q"}], "max_completion_tokens": 3}},
         "q", 3),
    ],
)  # fmt: skip
def test_forms(tmp_path: Path, entry: object, text: str, cap: int) -> None:
    (prompt,) = jsonl_source(write(tmp_path, entry)).deal(0, 1)
    assert (prompt.messages, prompt.max_tokens) == ((Message("user", text),), cap)


def test_what_is_not_sent_is_said(tmp_path: Path) -> None:
    entry = {"messages": [{"role": "user", "content": "q", "weight": 1}], "temperature": 0.3, "model": "m"}
    (note,) = jsonl_source(write(tmp_path, entry)).info.notes
    assert note == "fields that are not sent to the server: messages[].weight, model, temperature"


def test_prompts_that_differ_in_their_tools_are_two(tmp_path: Path) -> None:
    entries = [{"prompt": "q", "tools": [{"name": name}]} for name in ("a", "b")]
    assert jsonl_source(write(tmp_path, *entries)).info.prompts == 2


def test_domains_choose_and_an_absent_one_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "a", "domain": "x"}, {"prompt": "b", "domain": "y"})
    assert jsonl_source(path, domains=("y",)).info.domains == {"y": 1}
    with pytest.raises(InputError, match="no domain 'z'") as caught:
        jsonl_source(path, domains=("z",))
    assert "x, y" in caught.value.advice


def test_a_file_that_changes_meanwhile_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "a"}, {"prompt": "b"})
    prompts = jsonl_source(path).deal(0, 1)
    next(prompts)
    path.write_text(path.read_text().replace('"b"', '"cc"'))
    with pytest.raises(InputError, match="has changed"):
        next(prompts)


def test_a_byte_order_mark_is_no_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\r\n{"prompt": "b"}\r\n')
    source = jsonl_source(path)
    assert (source.info.notes, [p.messages[0].content for p in source.deal(0, 1)]) == ((), ["a", "b"])


def test_a_compressed_file_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00")
    with pytest.raises(InputError, match="compressed"):
        jsonl_source(path)


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


@pytest.mark.parametrize(("session", "due"), [("s", None), ("", 1.0)])
def test_a_nonce_keeps_shared_prefixes_shared(session: str, due: float | None) -> None:
    one, two = (
        Prompt(name, "d", (Message("user", "same", {"name": "n"}),), 1, session=session, due_s=due) for name in "ab"
    )
    first, second = (p.messages[0] for p in WithNonce(Fixed((one, two)), "n1").deal(0, 1))
    assert first == second
    assert first.content.startswith("[n1")
    assert first.extra == {"name": "n"}


@dataclass
class Fixed:
    prompts: tuple[Prompt, ...]
    info: WorkloadInfo = field(default_factory=lambda: WorkloadInfo("fixed", "", 0, {}))

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        return iter(self.prompts)
