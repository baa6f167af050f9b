"""Events as JSON and back, exactly. Records of requests are not part of it: they have a table of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from spectune.domain.errors import LedgerError
from spectune.domain.events import Event, Measured

# Intervals of unknown spread are infinite, so the JSON has to hold infinities. Keys that this version does not know
# would be dropped silently, and the event would then say something else than was written: they are refused.
_EVENT: TypeAdapter[Event] = TypeAdapter(
    Annotated[Event, Field(discriminator="kind")],
    config=ConfigDict(ser_json_inf_nan="constants", extra="forbid"),
)


def encode(event: Event) -> str:
    """The JSON text of an event, a measurement's records left out.

    Raises:
        LedgerError: when the event holds what could not be read back: a value outside its type or bounds, or text
            that is not Unicode.
    """
    bare = replace(event, records=()) if isinstance(event, Measured) else event
    try:
        body = _EVENT.dump_json(bare, warnings="error")
        _EVENT.validate_json(body)
    except (PydanticSerializationError, ValidationError) as error:
        raise LedgerError(
            f"the event {event.kind!r} can't be recorded: {_reason(error)}", "This is a fault of spectune; report it."
        ) from error
    return body.decode()


def decode(body: str, campaign: str, seq: int) -> Event:
    """The event in a JSON text; a measurement comes without records.

    Raises:
        LedgerError: when the text is not an event that this version knows; names campaign and seq.
    """
    try:
        return _EVENT.validate_json(body)
    except ValidationError as error:
        raise unreadable(campaign, seq, _reason(error)) from error


def unreadable(campaign: str, seq: int, reason: str) -> LedgerError:
    """The error for a stored event that can't be understood."""
    return LedgerError(
        f"event {seq} of campaign {campaign!r} can't be read: {reason}",
        "The ledger is damaged, or a newer spectune wrote it: upgrade spectune, or restore the ledger from a copy.",
    )


def _reason(error: PydanticSerializationError | ValidationError) -> str:
    """The first complaint, without the data: a body may be long."""
    if isinstance(error, PydanticSerializationError):
        return str(error).splitlines()[0]
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]
