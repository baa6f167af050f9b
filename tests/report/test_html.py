from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from spectune.report.data import build
from spectune.report.html import gain_bar, render_html
from spectune.report.model import Interval
from tests.report import sample

LOADING = {"src", "href", "action", "data", "poster", "srcset", "formaction", "background", "ping"}
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """What a browser would see: elements, where they load from, text of scripts and styles, and whether it nests."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.badly_nested: list[str] = []
        self.raw: list[tuple[str, dict[str, str], str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.badly_nested.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in {"script", "style"}:
            attrs = next(attrs for tag, attrs in reversed(self.tags) if tag == self.open[-1])
            self.raw.append((self.open[-1], attrs, data))
        else:
            self.words.append(data)

    @property
    def scripts(self) -> list[str]:
        return [text for tag, attrs, text in self.raw if tag == "script" and "type" not in attrs]

    @property
    def policy(self) -> str:
        return next(
            a["content"] for t, a in self.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
        )


@pytest.fixture(scope="module", params=sorted(sample.HISTORIES))
def page(request: pytest.FixtureRequest) -> Page:
    return Page(render_html(build(sample.HISTORIES[request.param](), "c1")))


def test_it_is_one_well_nested_page_with_one_top_heading(page: Page) -> None:
    assert page.badly_nested == []
    assert page.open == []
    assert [tag for tag, _ in page.tags].count("h1") == 1


def test_nothing_is_loaded(page: Page) -> None:
    for tag, attrs in page.tags:
        for name in LOADING & attrs.keys():
            assert attrs[name].startswith("#"), f"<{tag} {name}={attrs[name]}>"
    assert not any(tag in {"link", "iframe", "img", "object", "embed", "base", "form"} for tag, _ in page.tags)
    style = "".join(text for tag, _, text in page.raw if tag == "style")
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_forbids_the_network_and_names_each_script(page: Page) -> None:
    assert page.policy.startswith("default-src 'none';")
    assert "http" not in page.policy
    for script in page.scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in page.policy
    assert "unsafe-inline" not in page.policy.split("style-src")[0]


def test_no_handler_attributes(page: Page) -> None:
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]


def test_ids_are_unique_and_charts_have_words(page: Page) -> None:
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    plots = [attrs for _, attrs in page.tags if attrs.get("class") == "plot"]
    assert all(attrs["role"] == "img" and len(attrs["aria-label"]) > 20 for attrs in plots)
    figures = json.loads(next(text for _, attrs, text in page.raw if attrs.get("id") == "figures"))["figures"]
    assert {attrs["id"] for attrs in plots} == figures.keys()


def test_every_table_has_a_caption_and_scrolls_by_itself(page: Page) -> None:
    names = [tag for tag, _ in page.tags]
    assert names.count("table") == names.count("caption")


def test_hostile_text_stays_text() -> None:
    text = render_html(build(sample.hostile(), "c1"))
    page = Page(text)
    assert len(page.scripts) == 2
    assert "<script>alert" not in text
    assert "onerror=y>" not in re.sub(r"onerror=y&gt;", "", text)
    assert any("<script>alert('x')</script>" in words for words in page.words)
    assert not any(tag == "img" for tag, _ in page.tags)


def test_chart_text_is_escaped_for_plotly_too() -> None:
    text = render_html(build(sample.hostile(), "c1"))
    figures = next(found for _, attrs, found in Page(text).raw if attrs.get("id") == "figures")
    assert "<" not in figures
    labels = json.dumps(json.loads(figures)["figures"])
    assert "&lt;/script&gt;" in labels
    assert "<script" not in labels


def test_the_first_screen_has_the_answer() -> None:
    data = build(sample.decided(), "c1")
    words = " ".join(Page(render_html(data)).words)
    before_details = words.split("Best setting by load")[0]
    for part in ("Use draft k=3", "95 % interval", "--spec-draft-n-max", "KV room", "Noise floor"):
        assert part in before_details


def test_a_report_without_charts_leaves_the_library_out() -> None:
    small = render_html(build(sample.broken_baseline(), "c1"))
    large = render_html(build(sample.decided(), "c1"))
    assert len(small) < 60_000
    assert 4_000_000 < len(large) < 6_000_000


def test_simulated_is_on_the_first_screen() -> None:
    words = " ".join(Page(render_html(build(sample.nothing_better(), "c1"))).words)
    assert words.index("Simulated:") < words.index("Keep what you have (none): nothing", words.index("Simulated:"))


@pytest.mark.parametrize(
    ("low", "high"), [(1.05, 1.20), (0.80, 0.95), (0.99, 1.01), (1.0, 1.0)], ids=["gain", "loss", "tie", "point"]
)
def test_the_bar_keeps_everything_inside(low: float, high: float) -> None:
    bar = gain_bar(Interval((low + high) / 2, low, high, 4, 0.95), 0.03)
    assert bar is not None
    assert 0 <= bar["low"] <= bar["value"] <= bar["low"] + bar["width"] + 0.02 <= 100.02
    assert 0 <= bar["zero"] <= 100
    assert gain_bar(Interval(1.1, None, None, 1, 0.95), 0.03) is None
