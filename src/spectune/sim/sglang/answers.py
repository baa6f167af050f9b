"""What the simulated model says: readable text, JSON or a tool call, fixed by the prompt at temperature 0.

The text does not depend on depth or batch, as it must not under correct speculative decoding.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence

from spectune.sim.model import DOMAINS


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_NOUNS = _listed(
    "server request queue model token cache kernel batch answer thread signal window river garden letter harbour "
    "engine market bridge winter lamp village story teacher paper system forest machine morning window valley "
    "number method result weight layer memory network page record table key field sample"
)
_VERBS = _listed(
    "reads keeps moves finds opens writes holds counts sends builds checks shows brings follows carries measures "
    "returns stores changes meets leaves draws turns joins repeats compares explains covers"
)
_QUALITIES = _listed(
    "small quiet early plain heavy clear narrow recent green steady common bright open slow careful distant warm "
    "useful single late certain broad simple gentle careful empty new old"
)
_LINKS = _listed("while because before after although so when until where and but")
_GARBAGE = ("\ufffd", "\ufffd\ufffd", " \ufffd", "\ufffd\u25a1", "\ufffd;", "\ufffd}")
_CODE_WORDS = _listed("total items index value result count left right node cache entry limit step size")
EXTRACTION = re.compile(r"\bjson\b|\bextract", re.IGNORECASE)
_CODE = re.compile(r"```|^\s*(def|class|import|function|#include)\b", re.MULTILINE)
PIECE = 4
"""Characters a token of code and JSON."""


def domain_of(prompt: str, told: object = None) -> str:
    """Which of the profile's domains a prompt belongs to: as told, else by what it looks like."""
    if isinstance(told, str) and told in DOMAINS:
        return told
    if EXTRACTION.search(prompt):
        return "extraction"
    return "code" if _CODE.search(prompt) else "chat"


class Answer:
    """The tokens of one answer, as text pieces; piece i is the same however many are taken at a time.

    Attributes:
        length: tokens up to the natural end, without the end token.
    """

    def __init__(self, text: Sequence[str], tail: Sequence[str], rng: random.Random | None) -> None:
        self._pieces, self._tail, self._rng = list(text), tail, rng
        self.length = len(text)

    def piece(self, index: int) -> str:
        """Token `index`; beyond the natural end the model goes on: around in a circle, or with new sentences."""
        while index >= len(self._pieces):
            self._pieces.extend(self._tail if self._rng is None else _sentence(self._rng))
        return self._pieces[index]


def answer(
    prompt: str, domain: str, temperature: float, seed: int | None, structure: str | None, loops: bool = False
) -> Answer:
    """The answer to a prompt.

    Args:
        seed: of this request's sampling; ignored at temperature 0.
        structure: exact text to say (JSON, a tool call), or None.
        loops: says one phrase over and over.
    """
    greedy = temperature <= 0.0
    rng = random.Random(f"{_key(prompt)}/{None if greedy else seed}")
    if loops:
        phrase = _sentence(rng)[:6]
        return Answer(phrase * rng.randint(30, 60), phrase, None)
    if structure is not None:
        pieces = _split(structure)
        return Answer(pieces, _sentence(rng), None if greedy else rng)
    if domain == "code":
        pieces = _split(_code(rng))
        return Answer(pieces, _split("    return total\n"), None if greedy else rng)
    sentences = [_sentence(rng) for _ in range(rng.randint(6, 30))]
    return Answer([piece for sentence in sentences for piece in sentence], sentences[-1], None if greedy else rng)


def garbage(index: int) -> str:
    """A token of broken text."""
    return _GARBAGE[(index * 7 + index // 5) % len(_GARBAGE)]


def json_text(prompt: str, schema: Mapping[str, object] | None = None) -> str:
    """A JSON object for a prompt, of a schema where there is one."""
    rng = random.Random(f"json/{_key(prompt)}")
    if schema:
        return json.dumps(_instance(schema, rng, 0))
    keys = rng.sample(sorted(set(_NOUNS)), 4)
    values: list[object] = [rng.choice(_QUALITIES), rng.randint(1, 400), [rng.choice(_NOUNS), rng.choice(_NOUNS)], True]
    return json.dumps(dict(zip(keys, values, strict=True)))


def tool_call(prompt: str, tools: Sequence[object], broken: bool) -> tuple[str, str]:
    """Name and arguments (JSON text) of the call that answers a prompt: the first tool named in it, else the first."""
    functions = [
        tool["function"] for tool in tools if isinstance(tool, dict) and isinstance(tool.get("function"), dict)
    ]
    named = [function for function in functions if str(function.get("name")) in prompt]
    function = (named or functions or [{"name": "unknown"}])[0]
    parameters = function.get("parameters")
    text = json_text(prompt, parameters if isinstance(parameters, dict) else {"type": "object"})
    return str(function.get("name")), text[:-1] + ', "' if broken else text


def _instance(schema: Mapping[str, object], rng: random.Random, nesting: int) -> object:
    """A value of a JSON schema: type, properties, items and enum are honoured, the rest is not."""
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return rng.choice(choices)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        inner = schema.get("properties")
        if not isinstance(inner, dict) or nesting > 8:
            return {}
        return {
            str(key): _instance(value if isinstance(value, dict) else {}, rng, nesting + 1)
            for key, value in inner.items()
        }
    if kind == "array":
        items = schema.get("items")
        return [_instance(items if isinstance(items, dict) else {}, rng, nesting + 1) for _ in range(rng.randint(1, 3))]
    plain: dict[object, object] = {
        "integer": rng.randint(1, 90),
        "number": round(rng.uniform(0.0, 90.0), 2),
        "boolean": rng.random() < 0.5,
        "null": None,
    }
    return plain.get(kind, rng.choice(_NOUNS))


def _sentence(rng: random.Random) -> list[str]:
    words = ["The", rng.choice(_QUALITIES), rng.choice(_NOUNS), rng.choice(_VERBS), "the", rng.choice(_NOUNS)]
    if rng.random() < 0.6:
        words += [rng.choice(_LINKS), "a", rng.choice(_QUALITIES), rng.choice(_NOUNS), rng.choice(_VERBS), "it"]
    if rng.random() < 0.3:
        words += ["in", str(rng.randint(2, 99)), rng.choice(_NOUNS) + "s"]
    return [" " + word for word in words] + ["."]


def _code(rng: random.Random) -> str:
    lines = []
    for number in range(rng.randint(2, 5)):
        a, b, c = rng.sample(_CODE_WORDS, 3)
        lines += [
            f"def {a}_{rng.choice(_VERBS)}_{number}({b}, {c}):",
            f"    if {b} is None or len({c}) < {rng.randint(1, 64)}:",
            f"        return {rng.choice(_CODE_WORDS)}_{rng.randint(0, 9)}",
            f"    for {rng.choice(_CODE_WORDS)} in range({rng.randint(2, 512)}):",
            f"        {c}.append({b} {rng.choice('+-*')} {rng.randint(1, 99)})",
            f"    return {rng.choice(_CODE_WORDS)}({c})\n",
        ]
    return "```python\n" + "\n".join(lines) + "```\n"


def _split(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def _key(prompt: str) -> str:
    return hashlib.blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
