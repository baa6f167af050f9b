from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.cli import campaign_file, template
from spectune.cli.demo import demo_spec
from spectune.domain.candidate import Method
from spectune.domain.errors import InputError
from spectune.domain.spec import BudgetSpec, CampaignSpec, SearchSpec, ServiceSpec, SpeculationSpace

SPACE = "name: x\nsearch:\n  speculation:\n"

WRONG = [
    ("name: x\nservise: {}\n", "c.yaml, line 2: unknown key 'servise'; did you mean 'service'?"),
    ("name: x\nservice:\n  modle: y\n", "c.yaml, line 3: unknown key 'service.modle'; did you mean 'model'?"),
    ("name: x\nservice:\n  port: 99999\n", "line 3: 'service.port' should be less than or equal to 65535, found 99999"),
    (SPACE + "  - {method: drft, depths: [1]}\n", "line 4: 'search.speculation[0].method' should be one of"),
    (SPACE + "  - {method: drft, depths: [1]}\n", "did you mean 'draft'?"),
    (SPACE + "  - method: draft\n    depths: [0, 2]\n", "line 5: 'search.speculation[0].depths[0]' should be greater"),
    (SPACE + "  - method: draft\n", "'search.speculation[0].depths' is missing"),
    (
        SPACE + "  - {method: draft, depths: [1], dept: 2}\n",
        "[0].dept'; did you mean 'depths'?",
    ),
    ("name: x\nname: y\n", "c.yaml, line 2: 'name' is given twice (first on line 1)"),
    ("name: x\nbudget: {minutes: 1, minutes: 2}\n", "'budget.minutes' is given twice"),
    ("service: {}\n", "'name' is missing"),
    ("name: a b\n", "line 1: 'name' should match pattern"),
    ("- 1\n", "c.yaml: expected keys such as 'name' and 'service', found a list"),
    ("", "found nothing"),
    ("a: [\n", "c.yaml: not valid YAML: line 2"),
    ("name: x\nworkload:\n  temperatures: [hot]\n", "line 3: 'workload.temperatures[0]' should be a valid number"),
    (
        "name: x\nworkload:\n  temperatures: hot\n",
        "line 3: 'workload.temperatures' should be a list, such as [0, 0.7] (numbers), found 'hot'",
    ),
    ("name: x\nworkload:\n  temperatures: []\n", "'workload.temperatures' should have at least 1 item"),
    ("name: x\nobjective: {maximise: per_user_toks}\n", "did you mean 'per_user_tok_s'?"),
    ("name: x\nbudget:\n  minutes: -3\n", "line 3: 'budget.minutes' should be greater than 0, found -3"),
    (
        "name: x\nbudget:\n  between: 1-5\n",
        "line 3: 'budget.between' should be a span of the day, such as '01:00-05:00'",
    ),
    (
        "name: x\nservice:\n  drain: {busy_request: 1}\n",
        "unknown key 'service.drain.busy_request'; did you mean 'busy_requests'?",
    ),
    ("name: x\nservice:\n  drain: {busy_requests: -1}\n", "'service.drain.busy_requests' should be greater than or"),
    ("name: x\nservice:\n  edit_unit: perhaps\n", "'service.edit_unit' should be a valid boolean"),
    (
        "name: x\nconstraints: [min_kv_tokens]\n",
        "line 2: 'constraints' should hold keys with values (known here: min_kv",
    ),
    (
        "name: x\nservice:\n  env: 3\n",
        "line 3: 'service.env' should hold keys with values (known here: names of your own)",
    ),
    ("name: x\nservice:\n  env: {1: a}\n", "'service.env.1' should be text, found 1; quotes make it text"),
    ("name: x\nservice:\n  edit_unit: [true]\n", "should be a valid boolean, found [True]"),
    (
        "name: x\nservice:\n  env: {CUDA_VISIBLE_DEVICES: 0}\n",
        "'service.env.CUDA_VISIBLE_DEVICES' should be text, found 0; q",
    ),
    ("name: x\nservice: {1: a}\n", "'service.1' should be text, found 1; quotes make it text"),
    ("name: x\nservice:\n  host: true\n", "'service.host' should be text, found true; quotes"),
    ("name: 2026-13-45\n", "c.yaml: a value can't be read: month must be in 1..12"),
    (f"name: x\nseed: {'9' * 5000}\n", "c.yaml: a value can't be read: Exceeds the limit"),
    (f"name: x\nseed: '{'9' * 5000}'\n", "'seed' should have fewer digits"),
    ("name:\n", "'name' is missing"),
    ("name: x\nservise:\n", "unknown key 'servise'"),
    ("name: x\nservice:\n  engine: lama.cpp\n", "line 3: 'service.engine' should be one of llama.cpp"),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_one_clear_error(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        campaign_file.parse(text, "c.yaml")
    assert expected in caught.value.message


@pytest.mark.parametrize(
    "empty",
    ["constraints:", "service:\n  port:\n  env:", "search:\n  speculation:\n  knobs:", "workload: {concurrency: }"],
)
def test_a_key_without_a_value_is_the_same_as_none(empty: str) -> None:
    assert campaign_file.parse(f"name: x\n{empty}\n", "c.yaml") == campaign_file.parse("name: x\n", "c.yaml")


def test_a_window_needs_no_quotes() -> None:
    assert campaign_file.parse("name: x\nbudget:\n  between: 01:00-05:00\n", "c.yaml").budget.between == "01:00-05:00"


def test_all_problems_are_told_in_the_order_of_the_file() -> None:
    with pytest.raises(InputError) as caught:
        campaign_file.parse("name: x\nservice:\n  port: -1\n  modle: y\nbudget:\n  trials: 0\n", "c.yaml")
    lines = caught.value.message.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"c.yaml, line {n}" for n in (3, 4, 6)]


@given(st.text(max_size=200))
def test_no_text_escapes_as_a_foreign_error(text: str) -> None:
    with suppress(InputError):
        assert campaign_file.parse(text, "c.yaml").name


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file") as caught:
        campaign_file.load(tmp_path / "no.yaml")
    assert "spectune init" in caught.value.advice


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        campaign_file.load(tmp_path / "c.yaml")


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "name: x\nservice: {model: m.gguf, binary: bin/server}\nworkload: {source: p.jsonl}\n"
        "search: {speculation: [{method: draft, depths: [1], draft_model: d.gguf}]}\n"
    )
    spec = campaign_file.load(tmp_path / "c.yaml")
    assert spec.service.model == str(tmp_path / "m.gguf")
    assert spec.service.binary == str(tmp_path / "bin/server")
    assert spec.workload.source == str(tmp_path / "p.jsonl")
    assert spec.search.speculation[0].draft_model == str(tmp_path / "d.gguf")


def test_names_that_are_no_paths_stay(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("name: x\nservice: {binary: llama-server}\n")
    spec = campaign_file.load(tmp_path / "c.yaml")
    assert (spec.service.binary, spec.service.model, spec.workload.source) == ("llama-server", "builtin", "builtin")


@pytest.mark.parametrize(
    "spec",
    [
        CampaignSpec(name="plain"),
        demo_spec(2),
        demo_spec(1),
        CampaignSpec(
            name="odd.1",
            service=ServiceSpec(args={"flash-attn": "on", "mlock": True, "x": 1.5, "y": "007"}, env={"A": "1"}),
            search=SearchSpec(
                speculation=(SpeculationSpace(Method.NGRAM, (4,)), SpeculationSpace(Method.DRAFT, (1, 2), "d")),
                knobs={"threads": (1, 2), "flash-attn": ("on", "off")},
            ),
            budget=BudgetSpec(minutes=1.5),
        ),
    ],
    ids=lambda spec: spec.name,
)
def test_the_commented_file_gives_the_specification_back(spec: CampaignSpec) -> None:
    assert campaign_file.parse(template.render(spec), "c.yaml") == spec


def test_every_key_of_the_commented_file_is_explained() -> None:
    lines = template.render(demo_spec(2)).splitlines()
    bare = [
        line
        for before, line in pairwise(lines)
        if line.strip() and not line.lstrip().startswith(("#", "- ")) and not before.lstrip().startswith("#")
    ]
    inside_mappings = {
        "threads:",
        "ctx-size:",
        "parallel:",
        "method:",
        "depths:",
        "settings:",
        "spec-ngram-simple-size-n:",
    }
    assert all(line.split()[0] in inside_mappings for line in bare)


def test_the_schema_knows_every_key() -> None:
    schema = json.loads(campaign_file.schema())
    assert set(schema["properties"]) == {
        "name",
        "service",
        "search",
        "workload",
        "objective",
        "constraints",
        "budget",
        "tasks",
        "seed",
    }
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["BudgetSpec"]["properties"]["minutes"]["description"]
