"""The plan as people and programs see it."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from spectune.assemble.course import Step
from spectune.assemble.outlook import Outlook, Row
from spectune.cli.plan import page
from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Ratio
from spectune.domain.trial import Purpose
from spectune.predict.outlook import Crossover

LEVELS = ("1 user", "8 users", "64 users", "128 users", "256 users")
GAIN = Ratio(1.61, 1.44, 1.802, 5, 0.95)
NAME = "draft k=4 p-min=0.75, env.SGLANG_SOMETHING_LONG=1"


def outlook() -> Outlook:
    gains = dict.fromkeys(LEVELS, GAIN)
    return Outlook(
        campaign="",
        sources=("12 trials of campaign demo-1 (engine 0.5.14, now 0.5.15)",),
        levels=LEVELS,
        steps=(
            Step("none", Purpose.BASELINE, "the service as it is", Ratio(1, 1, 1, 5)),
            Step(NAME, Purpose.EXPLORE, "forecast +61 % (+44 to +80); 98 % likely the faster [sic] of the two", GAIN),
        ),
        then="the confirmation of the best, interleaved with the baseline",
        rows=(
            Row("none", 1, None, {}, {}, None, "what the service does already"),
            Row(NAME, 2, GAIN, gains, gains, Capacity(1_234_567, max_running=26)),
            Row("draft k=5", 0, GAIN, gains, {}, None, "left out: at best -2.0 % against draft k=4 (95 % sure)"),
            Row("draft k=6", 0, GAIN, gains, {}, None, "left out: at best -2.0 % against draft k=4 (95 % sure)"),
        ),
        launches=10,
        confirming=8,
        most=40,
        seconds=150.0,
        learned=True,
    )


def shown(found: Outlook, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(page(found, 0.95))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_it_can_be_read(width: int) -> None:
    text = shown(outlook(), width)
    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= width
    flat = " ".join(text.split())
    for part in (
        "forecasts rest on 12 trials of campaign demo-1 (engine 0.5.14, now 0.5.15). They decide nothing",
        "about 10 launches, 8 of them to confirm, 25 minutes as long as earlier ones took",
        "+61 % (+44 to +80)",
        "1,234,567",
        "+61 (+44..+80)",
        "256 users",
        "draft k=5, draft k=6: left out: at best -2.0 %",
    ):
        assert part in flat


def test_without_anything_measured_it_says_so_and_shows_no_empty_tables() -> None:
    rows = tuple(replace(row, gain=None, per_user={}, aggregate={}) for row in outlook().rows)
    text = shown(replace(outlook(), sources=(), rows=rows, learned=False), 80)
    assert "Nothing is measured yet, so no gain can be foretold." in " ".join(text.split())
    assert "per-user speed" not in text
    assert "25 minutes of measuring, and the starts of the server" in " ".join(text.split())


def test_an_interrupted_campaign_is_named() -> None:
    assert "goes on with campaign demo-2" in shown(replace(outlook(), campaign="demo-2"), 80)


def test_it_is_json() -> None:
    told = json.loads(json.dumps(asdict(outlook())))
    assert told["steps"][1]["expected"]["value"] == 1.61
    assert told["rows"][1]["room"]["max_running"] == 26


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (Crossover(23.4, 11.6, 60.2), "up to about 23 users (12 to 60), and to cost above that"),
        (Crossover(23.4, 11.6, None), "up to about 23 users (at least 12), and to cost above that"),
        (Crossover(23.4, None, None), "up to about 23 users, and to cost above that"),
    ],
)
def test_the_users_up_to_whom_drafts_pay(at: Crossover, words: str) -> None:
    assert words in " ".join(shown(replace(outlook(), crossover=at), 80).split())
    assert "expected to pay" not in shown(outlook(), 80)
