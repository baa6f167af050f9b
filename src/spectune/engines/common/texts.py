"""Texts for people that repeat what a pattern found."""

from __future__ import annotations

import re
from collections.abc import Callable

Groups = tuple[str, ...]
Text = str | Callable[[Groups], str]
"""With {1}, {2} for the groups of a pattern, or made from them."""


def filled(text: Text, groups: Groups) -> str:
    if callable(text):
        return text(groups)
    return re.sub(r"\{(\d)\}", lambda place: groups[int(place[1]) - 1], text)
