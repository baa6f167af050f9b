"""Reads JSON pages. Every reader takes a page that may be missing, broken or of another program."""

from __future__ import annotations

import json
from collections.abc import Mapping

from spectune.domain.deployment import Page


def json_of(page: Page | None) -> object:
    """What a page says; None where it is missing, an error page or no JSON."""
    if page is None or page.status != 200:
        return None
    try:
        value: object = json.loads(page.body)
    except (ValueError, RecursionError):
        return None
    return value


def listed_model(page: Page | None) -> Mapping[str, object]:
    """The first model that /v1/models lists; empty without one."""
    body = json_of(page)
    listed = body.get("data") if isinstance(body, dict) else None
    return listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}


def whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(value: object) -> int | None:
    """A whole number of at least 0."""
    number = whole(value)
    return None if number is None or number < 0 else number


def words(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def first(*values: int | None) -> int | None:
    """The first number that is told."""
    return next((value for value in values if value is not None), None)


def simulated(version: str | None) -> str | None:
    """Why output of this version is made up: it is the simulated engine's. None for a real server."""
    if version is None or "sim" not in version.lower():
        return None
    return f"this is a simulated server (version {version})"
