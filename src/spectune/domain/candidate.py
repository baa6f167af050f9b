"""Speculation and candidates: what is to be tried, in words that hold for every engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from spectune.domain.knobs import KnobValue, Settings

ENV = "env."
"""Prefix of knobs that are variables of the server's environment."""


class Method(StrEnum):
    """How drafts are made. Engines support subsets and spell them in their own way."""

    NONE = "none"
    DRAFT = "draft"
    MTP = "mtp"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    DFLASH = "dflash"
    NGRAM = "ngram"
    NGRAM_POOL = "ngram-pool"
    SUFFIX = "suffix"

    @property
    def needs_draft_model(self) -> bool:
        return self in {Method.DRAFT, Method.EAGLE, Method.EAGLE3, Method.DFLASH}


@dataclass(frozen=True, slots=True)
class Speculation:
    """The engine-neutral part of a candidate.

    Attributes:
        method: how drafts are made.
        depth: k, the most tokens drafted per verify step; 0 exactly when method is NONE.
        topk: branches per drafted position; 1 is a chain.
        draft_model: path or name of the draft model, where the method needs one.
        settings: settings of the method in the engine's spelling ("spec-ngram-simple-size-n": 4).
        schedule: depth by load: (requests, depth) says that from so many running requests on this depth counts, 0 being
            no drafts; sorted, the first counts for fewer requests too. Empty where the depth is always `depth`, which
            otherwise is the largest of them.
    """

    method: Method = Method.NONE
    depth: int = 0
    topk: int = 1
    draft_model: str | None = None
    settings: Settings = field(default_factory=dict)
    schedule: tuple[tuple[int, int], ...] = ()

    @property
    def depths(self) -> frozenset[int]:
        """Every depth that may be in effect."""
        return frozenset(depth for _, depth in self.schedule) or frozenset({self.depth})

    @property
    def label(self) -> str:
        """Short name for tables: "none", "draft k=3", "ngram k=8 size-n=4", "mtp k=3/1 from 1/16 requests"."""
        if self.method is Method.NONE:
            return "none"
        extra = "".join(f" {_short(name)}={value}" for name, value in sorted(self.settings.items()))
        branches = f" topk={self.topk}" if self.topk != 1 else ""
        depth = str(self.depth)
        if self.schedule:
            depths, requests = ("/".join(str(row[place]) for row in self.schedule) for place in (1, 0))
            depth = f"{depths} from {requests} requests"
        return f"{self.method.value} k={depth}{branches}{extra}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A complete assignment of knobs. Candidates with the same settings are the same candidate, whatever the reason.

    Attributes:
        speculation: how to speculate.
        knobs: every other setting that differs from the service's own command line, in the engine's spelling.
    """

    speculation: Speculation = field(default_factory=Speculation)
    knobs: Settings = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Eight hexadecimal digits that depend on the settings alone."""
        spec = self.speculation
        body: dict[str, Any] = {
            "method": spec.method.value,
            "depth": spec.depth,
            "topk": spec.topk,
            "draft_model": spec.draft_model,
            "settings": dict(spec.settings),
            "knobs": dict(self.knobs),
        }
        if spec.schedule:
            body["schedule"] = spec.schedule
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of the server's environment: the knobs named "env.NAME"."""
        named = {name: value for name, value in self.knobs.items() if name.startswith(ENV)}
        return {name.removeprefix(ENV): _shown(value) for name, value in named.items()}

    @property
    def without_environment(self) -> Candidate:
        """The candidate as the command line tells it."""
        return replace(self, knobs={name: value for name, value in self.knobs.items() if not name.startswith(ENV)})

    @property
    def label(self) -> str:
        """Short name for tables: the speculation, then the other knobs."""
        knobs = "".join(f", {name}={_shown(value)}" for name, value in sorted(self.knobs.items()))
        return self.speculation.label + knobs

    def changes_from(self, other: Candidate) -> tuple[str, ...]:
        """Names of what differs from another candidate, for tie-breaks and diffs."""
        return settings_diff(_flat(self), _flat(other))

    def simplicity(self) -> tuple[int, int]:
        """Sort key, smaller is simpler: depth, then number of settings."""
        spec = self.speculation
        settings = len(spec.settings) + len(spec.schedule) + len(self.knobs)
        return (spec.depth, settings + (spec.method is not Method.NONE))


def _flat(candidate: Candidate) -> dict[str, KnobValue]:
    spec = candidate.speculation
    return {
        "method": spec.method.value,
        "depth": spec.depth,
        "topk": spec.topk,
        "draft-model": spec.draft_model or "",
        "schedule": str(spec.schedule),
        **spec.settings,
        **candidate.knobs,
    }


def _short(name: str) -> str:
    """The part of a flag that tells settings of one method apart ("spec-ngram-simple-size-n" -> "size-n")."""
    for prefix in ("spec-ngram-simple-", "spec-ngram-mod-", "spec-draft-", "speculative-ngram-", "speculative-"):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _shown(value: KnobValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings_diff(asked: Mapping[str, KnobValue], seen: Mapping[str, KnobValue]) -> tuple[str, ...]:
    """Names whose value differs or is missing on either side, sorted."""
    return tuple(sorted(name for name in asked.keys() | seen.keys() if asked.get(name) != seen.get(name)))
