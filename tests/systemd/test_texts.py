"""Which flags of a unit must change, and what a campaign file says of a unit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spectune.assemble.service_file import settings
from spectune.assemble.service_text import DropIns, changes, spellings
from spectune.domain.deployment import Launch
from spectune.domain.errors import InputError
from spectune.domain.knobs import KnobValue
from spectune.units.find import find
from spectune.units.service import ServiceUnit

SGLANG = spellings("sglang")
UNIT = """\
[Service]
Environment=HF_HOME=/srv/hf
# The flags that matter:
ExecStart=/opt/sg/bin/python -m sglang.launch_server --model /srv/qwen \\
    --tp 4 --trust-remote-code --mem-fraction-static 0.90 \\
    --port 30000 # not a comment
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("--tp 4", "--tp-size 4", {}),
        ("--tp 4", "--tensor-parallel-size 8", {"tp-size": "8"}),
        ("--mem-fraction-static 0.90", "--mem-fraction-static 0.9", {}),
        ("--trust-remote-code", "", {"trust-remote-code": None}),
        ("", "--enable-metrics", {"enable-metrics": True}),
        ("--speculative-num-steps 1 --speculative-num-steps 3", "--speculative-num-steps 3", {}),
        ('--json-model-override-args {"a":1}', '--json-model-override-args {"a":1}', {}),
        ("--cuda-graph-bs 1 2 4", "--cuda-graph-bs 1 2 4", {}),
    ],
)
def test_what_differs(old: str, new: str, found: dict[str, KnobValue | None]) -> None:
    assert changes(old.split(), new.split(), SGLANG) == found


def test_json_is_compared_by_its_value() -> None:
    words = ["--json-model-override-args", '{"a": 1, "b": 2}']
    assert changes(words, [words[0], '{"b":2,"a":1}'], SGLANG) == {}


def test_several_values_are_not_changed() -> None:
    with pytest.raises(InputError, match="several values"):
        changes(["--cuda-graph-bs", "1", "2"], ["--cuda-graph-bs", "1", "4"], SGLANG)


def launch(*flags: str, env: dict[str, str] | None = None) -> Launch:
    argv = ("/opt/sg/bin/python", "-m", "sglang.launch_server", "--model-path", "/srv/qwen", *flags)
    return Launch(argv, env or {}, "http://x", "/health", (), None, "m")


def own(service: ServiceUnit) -> Sequence[str]:
    return [arg.text for arg in find(service).args]


def test_a_trial_s_drop_in_changes_the_flags_and_nothing_else() -> None:
    service = ServiceUnit("llm.service", UNIT.replace(" # not a comment", ""))
    base = ("--tp-size", "4", "--trust-remote-code", "--mem-fraction-static", "0.9", "--port", "30000")
    asked = launch(*base, "--speculative-num-steps", "2", env={"HF_HOME": "/srv/hf", "A": '1 "%'})
    text = DropIns(service, SGLANG)(asked, {"SPECTUNE_MARK": "x.1.1"})
    after = service.with_file("50-spectune.conf", text)
    assert own(after) == [*own(service), "--speculative-num-steps", "2"]
    values = after.environment().values
    assert values == {"HF_HOME": "/srv/hf", "A": '1 "%', "SPECTUNE_MARK": "x.1.1"}
    # An earlier drop-in of spectune's does not count.
    assert DropIns(after, SGLANG)(asked, {"SPECTUNE_MARK": "x.1.1"}) == text


def test_a_promotion_is_the_step_from_the_baseline_to_the_winner() -> None:
    service = ServiceUnit("llm.service", UNIT.replace(" # not a comment", ""))
    extra = ("--enable-metrics", "--host", "0.0.0.0")
    edited = DropIns(service, SGLANG).between(launch(*extra), launch("--speculative-num-steps", "3", *extra))
    after = service.with_file("50-spectune.conf", edited.text)
    assert own(after) == [*own(service), "--speculative-num-steps", "3"]
    assert "+    --port 30000 --speculative-num-steps 3" in edited.diff


def test_a_promotion_may_change_the_unit_file_and_nothing_else_in_it() -> None:
    text = UNIT.replace(" # not a comment", "")
    service = ServiceUnit("llm.service", text)
    winner = launch("--speculative-num-steps", "3", env={"SGLANG_X": "1"})
    edited = DropIns(service, SGLANG).between(launch(), winner, edit_unit=True)
    assert edited.file == "llm.service"
    assert edited.text == text.replace(
        "--port 30000 \n", '--port 30000 --speculative-num-steps 3\nEnvironment="SGLANG_X=1"\n'
    ).replace("--port 30000\n", '--port 30000 --speculative-num-steps 3\nEnvironment="SGLANG_X=1"\n')
    again = DropIns(ServiceUnit("llm.service", edited.text), SGLANG).between(launch(), winner, edit_unit=True)
    assert (again.text, again.diff) == (edited.text, "")


def test_an_edit_is_refused_beside_a_drop_in_of_spectune() -> None:
    service = ServiceUnit("llm.service", UNIT.replace(" # not a comment", ""))
    dropped = DropIns(service, SGLANG).between(launch(), launch("--speculative-num-steps", "3"))
    both = service.with_file("50-spectune.conf", dropped.text)
    with pytest.raises(InputError, match=r"has a drop-in 50-spectune\.conf of spectune"):
        DropIns(both, SGLANG).between(launch(), launch("--speculative-num-steps", "2"), edit_unit=True)


def test_arguments_as_settings() -> None:
    words = [
        "--model",
        "m",
        "--tp",
        "4",
        "--trust-remote-code",
        "--mem-fraction-static",
        "0.90",
        "--schedule-conservativeness",
        "0.3",
    ]
    assert settings(words, SGLANG) == {
        "model-path": "m",
        "tp-size": 4,
        "trust-remote-code": True,
        "mem-fraction-static": 0.9,
        "schedule-conservativeness": 0.3,
    }
