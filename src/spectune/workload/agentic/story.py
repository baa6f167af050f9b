"""What happens in a session: which tool the agent calls, what it says before, and what comes back."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spectune.workload.agentic.workshop import Workshop

MOST_PROMPTS = 10
FEWEST_PROMPTS = 4

STORIES: Mapping[str, Sequence[str]] = {
    "bugfix": ("list", "fail", "service", "search", "model?", "test?", "store?", "edit", "pass", "log?"),
    "feature": ("list?", "model", "service", "search?", "store?", "test", "edit", "pass"),
    "perf": ("log?", "service", "search", "store", "pass?", "model?", "edit", "pass", "test?"),
    "review": ("log", "list?", "service", "model", "search?", "store", "test?", "pass?"),
    "tests": ("list?", "test", "service", "model?", "pass?", "edit", "fail?", "pass", "search?"),
    "rename": ("search", "model", "service", "store?", "test?", "edit", "pass", "log?"),
}
"""Steps of each kind of work, in order; those with "?" happen in some sessions only."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a tool.

    Attributes:
        says: what the agent writes before the call.
        tool, arguments: the call.
        result: what the tool returns.
        took_s: how long the tool ran, seconds.
    """

    says: str
    tool: str
    arguments: Mapping[str, Any]
    result: str
    took_s: float


def steps(shop: Workshop, rng: random.Random) -> list[Step]:
    """The steps of one session; together with the last answer they make 4 to 10 prompts."""
    plan = STORIES[shop.story]
    required = sum(not name.endswith("?") for name in plan)
    wanted = rng.randint(max(required, FEWEST_PROMPTS - 1), min(len(plan), MOST_PROMPTS - 1))
    optional = [place for place, name in enumerate(plan) if name.endswith("?")]
    left_out = set(rng.sample(optional, len(plan) - wanted))
    names = [name.rstrip("?") for place, name in enumerate(plan) if place not in left_out]
    return [_STEPS[name](shop, rng) for name in names]


def _list(shop: Workshop, rng: random.Random) -> Step:
    says = rng.choice((
        "I begin with an overview of the repository.",
        f"Let me see how {shop.project} is laid out before I read anything.",
        "First I look at which files there are.",
    ))  # fmt: skip
    sizes = {path: len(text) for path, text in shop.texts.items()}
    sizes |= {path: rng.randint(180, 9000) for path in shop.others}
    listing = "\n".join(f"{size:>7}  {path}" for path, size in sorted(sizes.items()))
    return Step(says, "list_files", {"path": "."}, f"{listing}\n{len(sizes)} files", _quick(rng))


def _reads(part: str, *lead: str) -> Callable[[Workshop, random.Random], Step]:
    def step(shop: Workshop, rng: random.Random) -> Step:
        path = shop.files[part]
        says = rng.choice(lead).format(path=path, rule=shop.rule, entity=shop.entity)
        lines = shop.texts[path].splitlines()
        numbered = "\n".join(f"{number:>4}  {line}" for number, line in enumerate(lines, start=1))
        return Step(says, "read_file", {"path": path}, numbered, _quick(rng))

    return step


def _search(shop: Workshop, rng: random.Random) -> Step:
    word = rng.choice((shop.rule, shop.entity))
    says = rng.choice((
        f"I want to know who else uses {word} before I go on.",
        f"Where does {word} occur? A search will tell.",
        f"Next I look for every place that mentions {word}.",
    ))  # fmt: skip
    hits = [
        f"{path}:{number}: {line.strip()}"
        for path, text in shop.texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if word.lower() in line.lower()
    ]
    other = rng.choice(shop.others)
    hits.append(f"{other}:{rng.randint(3, 90)}: {word}")
    return Step(says, "search", {"pattern": word, "path": "."}, "\n".join(hits[:40]), _quick(rng))


def _edit(shop: Workshop, rng: random.Random) -> Step:
    path = shop.files["service"]
    lines = shop.texts[path].splitlines()
    at = next(number for number, line in enumerate(lines, start=1) if shop.before in line)
    line = lines[at - 1]
    indent = line[: len(line) - len(line.lstrip())]
    new = line.replace(shop.before, shop.after.replace("\n", f"\n{indent}"))
    says = rng.choice((
        f"The line in {shop.rule} is the one to change. I replace it and leave the rest as it is.",
        f"Now I change {shop.rule}; one place is enough.",
        f"I have seen what I need. The change in {path} is small:",
    ))  # fmt: skip
    around = [f" {text}" for text in lines[max(0, at - 4) : at - 1]]
    below = [f" {text}" for text in lines[at : at + 3]]
    added = [f"+{text}" for text in new.splitlines()]
    start = max(1, at - 3)
    head = f"@@ -{start},{len(around) + 1 + len(below)} +{start},{len(around) + len(added) + len(below)} @@"
    diff = [f"--- a/{path}", f"+++ b/{path}", head, *around, f"-{line}", *added, *below]
    return Step(says, "edit_file", {"path": path, "old": line, "new": new}, "\n".join(diff), _quick(rng))


def _fail(shop: Workshop, rng: random.Random) -> Step:
    says = rng.choice((
        "I run the tests to see what fails at present.",
        "Let me reproduce it with the tests first.",
        "What do the tests say as things are?",
    ))  # fmt: skip
    passed = rng.randint(11, 64)
    line = shop.texts[shop.files["service"]].splitlines()
    at = next(number for number, text in enumerate(line, start=1) if shop.before in text)
    result = (
        f"{'.' * passed}F\n"
        f"FAILED {shop.files['test']}: {shop.rule}\n"
        f"  expected and actual value differ\n"
        f"  {shop.files['service']}:{at}\n"
        f"  > {shop.before}\n"
        f"1 failed, {passed} passed in {rng.uniform(0.4, 6):.2f} s\nexit code 1"
    )
    return Step(says, "run", {"command": shop.test_command}, result, _slow(rng))


def _pass(shop: Workshop, rng: random.Random) -> Step:
    says = rng.choice((
        "I run all tests.",
        f"Let me see whether {shop.test_command} is content.",
        "Do the tests pass? I run them.",
    ))  # fmt: skip
    passed = rng.randint(12, 80)
    slowest = "\n".join(f"  {rng.uniform(0.01, 0.9):.2f} s  {shop.files['test']} case {n}" for n in range(1, 6))
    result = f"{'.' * passed}\nslowest:\n{slowest}\n{passed} passed in {rng.uniform(0.4, 6):.2f} s\nexit code 0"
    return Step(says, "run", {"command": shop.test_command}, result, _slow(rng))


def _log(shop: Workshop, rng: random.Random) -> Step:
    says = rng.choice((
        "The history may tell why it is as it is.",
        "I have a look at the latest commits.",
        "Which commits touched this? The log will show.",
    ))  # fmt: skip
    subjects = (
        f"{shop.rule}: handle empty input", "Raise the limit of a batch", f"Log when a {shop.entity} is moved",
        "Run the nightly job in batches", "Bump dependencies", f"Index {shop.project} by state",
        "Fix a typo in the README", f"Refuse a {shop.entity} without id", "Add a timeout to every query",
        f"Tests for {shop.rule}", "Drop support for the old export", "Move the schema into the store",
    )  # fmt: skip
    people = ("ines", "marek", "tove", "jonas", "lucia")
    commits = "\n".join(
        f"{rng.getrandbits(40):010x} {rng.randint(1, 300)} days ago  {rng.choice(people)}  {subject}"
        for subject in rng.sample(subjects, rng.randint(6, 10))
    )
    return Step(says, "run", {"command": "git log --oneline -n 10"}, f"{commits}\nexit code 0", _quick(rng))


def _quick(rng: random.Random) -> float:
    return round(rng.uniform(0.02, 0.2), 3)


def _slow(rng: random.Random) -> float:
    return round(rng.uniform(0.4, 2.0), 3)


_STEPS: Mapping[str, Callable[[Workshop, random.Random], Step]] = {
    "list": _list,
    "fail": _fail,
    "service": _reads(
        "service", "{rule} should be in {path}; I read it.", "Now the service, which holds {rule}.",
        "I open {path} to see what {rule} really does.",
    ),
    "model": _reads(
        "model", "What is a {entity} here? The model will tell.", "I read {path}, since the rules are checked there.",
        "The fields of a {entity} matter for this, so I look at the model.",
    ),
    "store": _reads(
        "store", "I also want to see how it is stored.", "Does the store depend on this? I read {path}.",
        "Next comes {path}, because the queries decide about the order.",
    ),
    "test": _reads(
        "test", "Which cases are tested? I read {path}.", "The tests show what is expected of {rule}.",
        "Before I go on I look at the tests in {path}.",
    ),
    "search": _search,
    "edit": _edit,
    "pass": _pass,
    "log": _log,
}  # fmt: skip
