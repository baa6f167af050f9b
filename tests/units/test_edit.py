"""Changes of random commands, alone and within shells: the asked flags differ, and nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.domain.knobs import KnobValue
from spectune.units.edit import DROP_IN, drop_in, edit
from spectune.units.execline import quote_word
from spectune.units.find import find
from spectune.units.flags import Spellings, items, plan
from spectune.units.service import ServiceUnit

NAMES = st.sampled_from(["port", "seed", "json", "max-num-seqs", "chat-template", "alias", "flash"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10).filter(
    lambda t: not t.startswith("-")
)
VALUES = TEXTS | st.sampled_from(['{"a": "it\'s"}', "100%", "$HOME", "a b", "", "\\", "'", "#", ";", "`x`", "*"])
FLAGS = st.dictionaries(NAMES, VALUES | st.none(), max_size=6)
CHANGES = st.dictionaries(NAMES, VALUES | st.booleans() | st.integers(0, 99) | st.none(), max_size=4)


def command(flags: Mapping[str, str | None], joined: bool) -> list[str]:
    words = ["/opt/llama-server", "-m", "/m.gguf"]
    for name, value in flags.items():
        if value is None:
            words.append(f"--{name}")
        else:
            words += [f"--{name}={value}"] if joined else [f"--{name}", value]
    return words


def direct(words: list[str], between: str) -> str:
    return between.join(map(quote_word, words))


def through_shell(words: list[str], between: str) -> str:
    return f"/bin/sh -c {quote_word('cd /x && exec ' + shlex.join(words) + ' >>/log 2>&1')}"


def through_two_shells(words: list[str], between: str) -> str:
    return through_shell(["/bin/bash", "-c", "exec " + shlex.join(words)], between)


def in_container(words: list[str], between: str) -> str:
    return f"/usr/bin/docker run --rm -p 1:1 --entrypoint /opt/llama-server x/y:z {direct(words[1:], between)}"


def through_arguments(words: list[str], between: str) -> str:
    return f"/bin/bash -c 'exec /opt/llama-server \"$$@\"' sh {direct(words[1:], between)}"


WAYS = st.sampled_from([direct, through_shell, through_two_shells, in_container, through_arguments])
BETWEEN = st.sampled_from([" ", " \\\n  ", " \\\n# why\n  ", "   "])


@given(FLAGS, CHANGES, st.booleans(), WAYS, BETWEEN)
def test_only_the_asked_flags_differ(
    flags: dict[str, str | None],
    changes: dict[str, KnobValue | None],
    joined: bool,
    way: object,
    between: str,
) -> None:
    assert callable(way)
    words = command(flags, joined)
    text = f"# top\n[Service]\nExecStart={way(words, between)}\nRestart=no # not a comment\n"
    service = ServiceUnit("x.service", text)
    assert find(service).argv == tuple(words)

    wanted: dict[str, KnobValue | None] = {name: True if value is None else value for name, value in flags.items()}
    for name, change in changes.items():
        if change is None or change is False:
            wanted.pop(name, None)
        else:
            wanted[name] = change

    edited = edit(service, changes)
    found = find(service.with_file(edited.file, edited.text))
    assert {item.name: item.values for item in items(found.argv[1:], Spellings())} == {
        "m": ("/m.gguf",),
        **{name: () if value is True else (str(value),) for name, value in wanted.items()},
    }
    assert edited.text.startswith("# top\n[Service]\nExecStart=")
    assert edited.text.endswith("\nRestart=no # not a comment\n")
    assert edited.text.count("# why") == text.count("# why")

    dropped = drop_in(service, changes)
    assert find(service.with_file(DROP_IN, dropped.text)).argv == edited.after


WORDS = (
    "/bin/sh bash -c -lc docker podman run --rm -p --entrypoint vllm/vllm-openai:x uv run -m env A=b nice -n numactl"
    ' taskset 0x1 vllm serve sglang python -m sglang.launch_server llama-server --port 1 $A ${A} $$ "$@" \' " \\ ; &&'
    " | || ( ) { } if then fi < > # `x` $(x) %i %% -- - @ ! conda -n uvx tool exec set source x. /s.sh"
)
FRAGMENTS = st.sampled_from(WORDS.split())


@given(st.lists(FRAGMENTS, max_size=14), st.lists(FRAGMENTS, max_size=8), CHANGES)
def test_any_command_is_changed_or_refused(
    line: list[str], script: list[str], changes: dict[str, KnobValue | None]
) -> None:
    text = f"[Service]\nEnvironment=A=c\nExecStart={' '.join(line)}\n"
    service = ServiceUnit("x@1.service", text, files={"/s.sh": " ".join(script)})
    for way in (edit, drop_in):
        try:
            edited = way(service, changes)
        except InputError:
            continue
        assert find(service.with_file(edited.file, edited.text)).argv == edited.after


@pytest.mark.parametrize(
    ("words", "changes", "result"),
    [
        ("--aa 1 --b", {"aa": 2}, "--aa 2 --b"),
        ("--aa=1 --b", {"aa": 2}, "--aa=2 --b"),
        ("--aa 1 --b", {"aa": True}, "--aa --b"),
        ("--aa=1 --b", {"aa": True}, "--aa --b"),
        ("--aa --b", {"aa": 5}, "--aa 5 --b"),
        ("--aa --b", {"aa": False}, "--no-aa --b"),
        ("--bb --c", {"bb": False}, "--c"),
        ("--no-aa --b", {"aa": True}, "--aa --b"),
        ("--no-aa --b", {"aa": 5}, "--aa 5 --b"),
        ("--aa 5 --b", {"aa": False, "off": None}, "--no-aa --b"),
        ("--no-aa", {"aa": False}, "--no-aa"),
        ("--b", {"aa": False}, "--b --no-aa"),
        ("--no-aa", {"aa": None}, ""),
        ("--aa 1 --aa 2 --b", {"aa": 3}, "--aa 3 --b"),
        ("--aa 0.50", {"aa": 0.5}, "--aa 0.50"),
        ("-t 1", {"threads": 2}, "-t 2"),
        ("--n_threads 1", {"threads": 2}, "--n_threads 2"),
        ("", {"threads": 2, "x": "y z"}, "--threads 2 -x 'y z'"),
        ("--temp -1 --b", {"temp": -2}, "--temp -2 --b"),
    ],
)
def test_plan(words: str, changes: dict[str, KnobValue | None], result: str) -> None:
    spellings = Spellings(aliases={"threads": ["t", "n-threads"]}, off={"aa": "no-aa"})
    given_words = shlex.split(words)
    assert plan(given_words, changes, spellings).result(given_words) == tuple(shlex.split(result))


def test_a_flag_asked_for_twice_is_refused() -> None:
    with pytest.raises(InputError, match="asked for twice"):
        plan([], {"threads": 1, "t": 2}, Spellings(aliases={"threads": ["t"]}))


def test_nothing_asked_changes_nothing() -> None:
    service = ServiceUnit("x.service", "[Service]\nExecStart=/opt/llama-server -m 'a' --port 1")
    assert edit(service, {"port": 1}).text == service.text
    assert edit(service, {"port": 1}).diff == ""


def test_an_edit_under_spectunes_own_drop_in_is_refused() -> None:
    service = ServiceUnit("x.service", "[Service]\nExecStart=/opt/llama-server -m a")
    dropped = drop_in(service, {"port": 1})
    with pytest.raises(InputError, match="50-spectune"):
        edit(service.with_file(dropped.file, dropped.text), {"port": 2})


def test_the_drop_in_says_who_wrote_it_and_how_to_undo_it() -> None:
    unit = "[Service]\nExecStart=/opt/llama-server -m a --api-key \\\n  sk-secret"
    edited = drop_in(ServiceUnit("x.service", unit, user=True), {"port": 1})
    assert edited.text.startswith("# Written by spectune: the start of x.service with these flags changed: port.\n")
    assert "systemctl --user daemon-reload" in edited.text
    assert "sk-secret" in edited.text
    assert "sk-secret" not in edited.diff
