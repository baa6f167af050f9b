from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from spectune.domain.errors import InputError
from spectune.domain.workload import source_with_paths, split_source
from spectune.workload import open_source

FILES = {
    "jsonl": '{"prompt": "a"}\n{"prompt": "b"}\n{"prompt": "c"}\n{"prompt": "d"}\n',
    "sharegpt": json.dumps([{"conversations": [{"from": "human", "value": f"q{n}"}]} for n in range(4)]),
    "mooncake": "".join(
        json.dumps({"timestamp": 10 * n, "input_length": 30, "output_length": 4, "hash_ids": [n]}) + "\n"
        for n in range(4)
    ),
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    + "".join(f"2023-11-16 18:15:4{n}.12,20,3\r\n" for n in range(4)),
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    + "".join(f"{n},ChatGPT,20,3,23,API log\n" for n in range(4)),
}
MADE = ("builtin", "agentic", "agentic:tools=api", "repetitive", "synthetic", "synthetic:in=uniform(20,40),out=8")


def source_text(name: str, tmp_path: Path) -> str:
    if name not in FILES:
        return name
    path = tmp_path / "workload.data"
    path.write_text(FILES[name])
    return str(path)


@pytest.mark.parametrize("name", [*MADE, *FILES])
def test_every_source_keeps_the_ports_promises(name: str, tmp_path: Path) -> None:
    text = source_text(name, tmp_path)
    source = open_source(text)
    lanes = [list(islice(source.deal(lane, 3), 30)) for lane in range(3)]
    assert lanes == [list(islice(open_source(text).deal(lane, 3), 30)) for lane in range(3)]
    ids = [prompt.id for lane in lanes for prompt in lane]
    assert len(set(ids)) == len(ids) >= 4
    asked = {str((prompt.messages, prompt.extra)) for lane in lanes for prompt in lane}
    assert len(asked) == (8 if name == "repetitive" else len(ids))
    by_session = [{prompt.session for prompt in lane if prompt.session} for lane in lanes]
    assert not by_session[0] & by_session[1] | by_session[1] & by_session[2] | by_session[0] & by_session[2]
    assert all(prompt.max_tokens >= 1 and prompt.messages for lane in lanes for prompt in lane)
    assert {prompt.domain for lane in lanes for prompt in lane} <= set(source.info.domains)
    assert sum(source.info.domains.values()) == source.info.prompts > 0
    assert source.info.sha256 == open_source(text).info.sha256
    assert len(source.info.sha256) == 64
    with pytest.raises(ValueError, match="lane 3 of 3"):
        source.deal(3, 3)


@pytest.mark.parametrize("name", MADE)
def test_the_hash_of_what_is_made_changes_with_seed_and_cap(name: str) -> None:
    plain = open_source(name).info.sha256
    assert name == "repetitive" or open_source(name, seed=2).info.sha256 != plain
    assert open_source(name, max_tokens=7).info.sha256 != plain


@pytest.mark.parametrize("name", FILES)
def test_formats_are_found_by_content_or_taken_as_told(name: str, tmp_path: Path) -> None:
    text = source_text(name, tmp_path)
    found, told = open_source(text), open_source(f"{name}:{text}")
    assert list(found.deal(0, 1)) == list(told.deal(0, 1))
    assert found.info == told.info


def test_a_damaged_first_line_does_not_hide_the_format(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("{cut off\n" + FILES["mooncake"])
    assert open_source(str(path)).info.domains == {"trace": 4}


def test_relative_paths_start_at_the_base(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(FILES["jsonl"])
    (tmp_path / "n.txt").write_text("30\n")
    assert open_source("p.jsonl", base=tmp_path).info.prompts == 4
    assert open_source("synthetic:in=file(n.txt)", base=tmp_path).info.prompts > 4


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("agentc", "no file", "Did you mean agentic?"),
        ("moncake:/tmp/x", "no file", "Did you mean mooncake?"),
        ("nowhere.jsonl", "no file", "burstgpt:PATH"),
        ("agentic:turns=3", "no option 'turns=3'", "tools=text or tools=api"),
        ("agentic:tools=xml", "tools=xml", "text, api"),
        ("builtin:x=1", "no option", "takes none"),
        ("synthetic:in=5,in=6", "twice", "once"),
        ("synthetic:in=zipf(3)", "'zipf'", "lognormal(MEDIAN,SIGMA)"),
        ("synthetic:in=file(none.txt)", "No such file", ""),
        ("synthetic:in", "no option 'in'", "uniform"),
        ("/", "no file", "Valid are"),
        ("", "no file", "Valid are"),
    ],
)
def test_wrong_sources_name_what_is_valid(text: str, message: str, advice: str) -> None:
    with pytest.raises(InputError) as caught:
        open_source(text)
    assert message in caught.value.message
    assert advice in caught.value.advice


@pytest.mark.parametrize("content", ["", "hello\nworld\n", "a,b,c\n1,2,3\n", "\x00\x01"])
def test_unknown_content_is_an_input_error(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(content)
    with pytest.raises(InputError, match=r"is empty|no known format"):
        open_source(str(path))


@pytest.mark.parametrize("name", ["agentic", "repetitive", "synthetic"])
def test_a_domain_that_a_made_source_lacks_is_named(name: str) -> None:
    with pytest.raises(InputError, match="no domain 'chat'"):
        open_source(name, domains=("chat",))


@pytest.mark.parametrize(
    ("source", "kind", "rest", "absolute"),
    [
        ("builtin", "builtin", "", "builtin"),
        ("synthetic:in=5", "synthetic", "in=5", "synthetic:in=5"),
        ("synthetic:in=file(l.txt),out=4", "synthetic", "in=file(l.txt),out=4", "synthetic:in=file(/a/l.txt),out=4"),
        ("mooncake:t.jsonl", "mooncake", "t.jsonl", "mooncake:/a/t.jsonl"),
        ("t.jsonl", "", "t.jsonl", "/a/t.jsonl"),
        ("odd:name.jsonl", "", "odd:name.jsonl", "/a/odd:name.jsonl"),
        ("jsonl", "", "jsonl", "/a/jsonl"),
    ],
)
def test_paths_in_a_source(source: str, kind: str, rest: str, absolute: str) -> None:
    assert split_source(source) == (kind, rest)
    assert source_with_paths(source, lambda path: f"/a/{path}") == absolute
