"""Secrets out of command lines, environments and settings, before anything is recorded or shown.

What is secret is told by its name (the last words of a flag, a variable, a header or a JSON key) and, for a few
unmistakable forms, by its shape. In doubt a value is hidden: a hidden setting is a nuisance, a published key is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum, auto

from spectune.domain.knobs import KnobValue, Settings

HIDDEN = "***"

_ALWAYS = {"password", "passwd", "passphrase", "secret", "secrets", "authorization", "credential", "credentials"}
_COMPOUNDS = {"apikey", "apikeys", "apitoken", "authtoken", "accesstoken", "accesskey", "secretkey", "hftoken", "hft"}
# A name that ends so tells where a secret is or what it is like: the value itself is none.
_ABOUT = {"file", "keyfile", "path", "dir", "stdin", "type", "name", "env", "header", "length", "ttl", "url"}
# "eos token", "per token", "cache key" are words of models and tables.
_TOKEN_OF_TEXT = re.compile(
    "bos|eos|eot|pad|stop|start|end|begin|mask|unk|sep|cls|special|image|audio|video|vision|text|tool|prompt|input"
    "|output|think|thinking|reasoning|next|first|last|per|new|max|min|draft|bonus|boundary"
)
_KEY_OF_TABLE = {"public", "cache", "sort", "primary", "foreign", "group", "partition", "prefix", "routing"}

_NAME_IN_TEXT = r"[A-Za-z_][\w.-]*"
_URL_PASSWORD = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^\s/@:?#]*):[^\s/?#]*@", re.IGNORECASE)
_URL_TOKEN = re.compile(r"(?P<scheme>(?:git\+)?https?://)[^\s/@:?#]+@", re.IGNORECASE)
_QUERY = re.compile(rf"(?P<head>[?&](?P<name>{_NAME_IN_TEXT})=)(?P<value>[^&\s#]+)")
_JSON = re.compile(rf'(?P<head>"(?P<name>{_NAME_IN_TEXT})"\s*:\s*")(?P<value>(?:[^"\\]|\\.)+)')
_HEADER = re.compile(rf"(?P<head>^\s*(?P<name>{_NAME_IN_TEXT})\s*:\s*)(?P<value>\S.*)$")
_ASSIGNED = re.compile(
    r"(?P<head>(?:^|(?<=[\s'\";,]))-{0,2}(?P<name>[A-Za-z_][\w-]*)=)(?P<value>'[^']*'|\"[^\"]*\"|[^\s,;&]+)"
)
_FLAGGED = re.compile(
    r"(?P<head>(?:^|(?<=[\s'\"]))--(?P<name>[A-Za-z][\w-]*)\s+)(?P<value>'[^']*'|\"[^\"]*\"|[^\s-]\S*)"
)
_BEARER = re.compile(
    r"\b(?P<scheme>Bearer)\s+(?:(?=\S*[0-9])[A-Za-z0-9._~+/=-]{6,}|[A-Za-z0-9._~+/=-]{20,})", re.IGNORECASE
)
_SHAPED = re.compile(r"(?<![\w/.-])(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{24,})(?![\w/.-])")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.+)", re.DOTALL)
_FLAG = re.compile(r"(?P<dashes>--?)(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+")


class _Awaiting(Enum):
    """Values of a secret flag still to come: one; one and then perhaps more; or perhaps more."""

    NOTHING = auto()
    ONE = auto()
    SEVERAL = auto()
    MORE = auto()


def redact(argv: Iterable[str], env: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """A command line and an environment with every secret replaced by "***"; all else is as it was.

    Understood are `--flag value`, `--flag=value`, `NAME=value` (as given to env or docker), headers, JSON values, and
    passwords and keys in URLs. `--api-key` hides all its values, of which some engines take several.
    """
    return _redact_argv(argv), {name: _redact_named(name, value) for name, value in env.items()}


def redact_settings(settings: Settings) -> dict[str, KnobValue]:
    """Settings by name without dashes, their secrets hidden. A switch (true or false) is never a secret."""
    return {
        name: _redact_named(name, value)
        if isinstance(value, str)
        else (HIDDEN if is_secret(name) and not isinstance(value, bool) else value)
        for name, value in settings.items()
    }


def is_secret(name: str) -> bool:
    """Whether the value of a flag, variable, header or key of this name is a secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if (_ALWAYS | _COMPOUNDS) & set(words) or last.endswith("password"):
        return True
    match last:
        case "token":
            return not _TOKEN_OF_TEXT.fullmatch(before)
        case "tokens":
            return before in {"api", "auth", "access", "secret", "hf"}
        case "key" | "keys":
            return before not in _KEY_OF_TABLE
        case "pass" | "pwd":  # PWD alone is the working directory
            return name.isupper() and bool(before)
        case "id":  # half of a pair of cloud credentials
            return words[-3:-1] == ["access", "key"]
        case "auth" | "cookie":
            return not before
    return False


def redact_text(text: str) -> str:
    """A piece of free text (an argument, a log line) without the secrets that it spells out: passwords and keys in
    URLs, values of secret names in JSON, headers, assignments and flags, bearer tokens, keys of well-known form."""
    text = _URL_PASSWORD.sub(rf"\g<scheme>\g<user>:{HIDDEN}@", text)
    text = _URL_TOKEN.sub(rf"\g<scheme>{HIDDEN}@", text)
    for pattern in (_QUERY, _JSON, _HEADER, _ASSIGNED, _FLAGGED):
        text = pattern.sub(_hide_if_secret, text)
    text = _BEARER.sub(rf"\g<scheme> {HIDDEN}", text)
    return _SHAPED.sub(HIDDEN, text)


def _redact_argv(argv: Iterable[str]) -> tuple[str, ...]:
    shown: list[str] = []
    awaiting = _Awaiting.NOTHING
    for argument in argv:
        # A key may begin with one dash; two are the next flag, and the secret flag was given without a value.
        if awaiting is not _Awaiting.NOTHING and not argument.startswith("-" if awaiting is _Awaiting.MORE else "--"):
            shown.append(HIDDEN if argument else argument)
            awaiting = _Awaiting.MORE if awaiting in {_Awaiting.SEVERAL, _Awaiting.MORE} else _Awaiting.NOTHING
            continue
        awaiting = _Awaiting.NOTHING
        flag = _FLAG.fullmatch(argument)
        if flag is None:
            shown.append(_redact_value(argument))
        elif flag["value"] is not None:
            value = _redact_named(flag["name"], flag["value"])
            shown.append(f"{flag['dashes']}{flag['name']}={value}")
        else:
            shown.append(argument)
            if is_secret(flag["name"]):
                awaiting = _Awaiting.SEVERAL if flag["name"] == "api-key" else _Awaiting.ONE
    return tuple(shown)


def _redact_value(value: str) -> str:
    """An argument that stands alone, NAME=value among them."""
    assignment = _ASSIGNMENT.fullmatch(value)
    if assignment is None:
        return redact_text(value)
    return f"{assignment['name']}={_redact_named(assignment['name'], assignment['value'])}"


def _redact_named(name: str, value: str) -> str:
    if value and is_secret(name):
        return HIDDEN
    return _redact_value(value)


def _hide_if_secret(match: re.Match[str]) -> str:
    return match["head"] + (HIDDEN if is_secret(match["name"]) else match["value"])
