"""What a unit's server has to do now, read from its own pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from spectune.assemble.service_text import read_items, spellings
from spectune.domain.deployment import Page
from spectune.domain.drain import Busy
from spectune.engines.busy import PAGES, busy
from spectune.units.find import find
from spectune.units.service import ServiceUnit

_ANSWER_S = 10.0
_KEY_VARIABLES = ("LLAMA_API_KEY", "VLLM_API_KEY")


class Fetch(Protocol):
    """A page of the server, asked for with headers; status 0 where nothing answers."""

    def __call__(self, path: str, timeout_s: float, headers: Mapping[str, str]) -> Page: ...


def busy_now(texts: ServiceUnit, fetch: Fetch) -> Busy | None:
    """What the server has to do; None where it does not tell.

    Raises:
        InputError: no engine can be found in the unit.
        HostError: the connection to the host is lost.
    """
    engine = find(texts).engine
    headers = _headers(texts)
    for path in PAGES.get(engine, ()):
        found = busy({path: fetch(path, _ANSWER_S, headers)})
        if found is not None:
            return found
    return None


def _headers(texts: ServiceUnit) -> dict[str, str]:
    """The API key that the unit gives its server, as requests carry it."""
    found = find(texts)
    given = [
        item.values[0]
        for item in read_items([arg.text for arg in found.args], spellings(found.engine))
        if item.name == "api-key" and item.values
    ]
    variables = texts.environment().values
    given += [variables[name] for name in _KEY_VARIABLES if variables.get(name)]
    return {"Authorization": f"Bearer {given[0].split(',')[0]}"} if given else {}
