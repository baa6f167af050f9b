"""Why a server did not serve, read from the end of its log. Each engine has a table of causes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from spectune.domain.errors import EngineFailure, FailureKind
from spectune.engines.common.texts import Groups, Text, filled

_TAIL = 1 << 20
"""Characters of log that are searched; a failing start writes a fraction of this."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One way to fail.

    Attributes:
        pattern: found anywhere in the log; ^ stands for the beginning of a line.
        kind: what it means.
        message, advice: for people, with the groups of `pattern` and `then`.
        then: must follow somewhere behind the first place where the pattern is found, where that alone says too little.
    """

    pattern: re.Pattern[str]
    kind: FailureKind
    message: Text
    advice: Text = ""
    then: re.Pattern[str] | None = None

    def groups(self, log: str) -> Groups | None:
        """What the log says, None when this is not its cause."""
        first = self.pattern.search(log)
        if first is None or self.then is None:
            return None if first is None else first.groups("")
        second = self.then.search(log, first.end())
        return None if second is None else (*first.groups(""), *second.groups(""))


def cause(pattern: str, kind: FailureKind, message: Text, advice: Text = "", then: str = "") -> Cause:
    follows = re.compile(then, re.MULTILINE) if then else None
    return Cause(re.compile(pattern, re.MULTILINE), kind, message, advice, follows)


def tail(failure: EngineFailure) -> str:
    """The part of the log that is searched."""
    return failure.log_tail[-_TAIL:]


def diagnosed(failure: EngineFailure, log: str, causes: Iterable[Cause]) -> EngineFailure:
    """The failure with the first cause that the log shows, or the failure itself."""
    for one in causes:
        groups = one.groups(log)
        if groups is not None:
            return named(failure, one.kind, filled(one.message, groups), filled(one.advice, groups))
    return failure


def named(failure: EngineFailure, kind: FailureKind, message: str, advice: str) -> EngineFailure:
    """The failure with a cause. A server that died while being measured keeps that kind, since it had served until
    then."""
    if failure.kind is FailureKind.DIED_MEASURING:
        kind, message = failure.kind, f"{failure.message}: {message}"
    return EngineFailure(kind, message, advice or failure.advice, failure.log_tail)
