"""What spectune keeps on a host about a unit: the plan of a change that is not finished, and promotions."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from spectune.domain.errors import HostError
from spectune.domain.service_state import Plan, Promotion
from spectune.systemd.unit import ManagedUnit

_Kept = TypeVar("_Kept", Plan, Promotion)
_PLAN: TypeAdapter[Plan] = TypeAdapter(Plan)
_PROMOTION: TypeAdapter[Promotion] = TypeAdapter(Promotion)
_PROMOTED = re.compile(r"promoted-(\d{1,6})")
_PREPARE = 'umask 022 && mkdir -p -- "${1%/*}" && umask 077 && mkdir -p -- "$1" && chmod 700 -- "$1"'
_LIST = '[ ! -d "$1" ] || ls -1 -- "$1"'
_DROP = 'rm -rf -- "$1" && sync -- "$2"'
# Units may hold secrets, and so do copies of them.
_PRIVATE = 0o600


class Records:
    """The folder of one unit on its host.

    Everything here raises HostError: the folder can't be read or written, or holds something damaged.
    """

    def __init__(self, unit: ManagedUnit) -> None:
        self._unit = unit

    @property
    def folder(self) -> str:
        return self._unit.state_folder

    def prepare(self) -> None:
        """Makes the folder, for its owner alone."""
        self._unit.command(["/bin/sh", "-c", _PREPARE, "sh", self.folder], f"making {self.folder}")

    def plan(self) -> Plan | None:
        """The plan of a change that was begun and not finished."""
        return self._read(f"{self.folder}/plan.json", _PLAN)

    def write_plan(self, plan: Plan) -> None:
        """On disk when it returns."""
        self._write(f"{self.folder}/plan.json", _PLAN.dump_python(plan))

    def remove_plan(self) -> None:
        self._drop("plan.json")

    def promotions(self) -> tuple[Promotion, ...]:
        """Oldest first."""
        listed = self._unit.command(["/bin/sh", "-c", _LIST, "sh", self.folder], f"listing {self.folder}").text.split()
        numbers = sorted(int(match[1]) for name in listed if (match := _PROMOTED.fullmatch(name)))
        found = (self._read(f"{self.folder}/promoted-{number}/record.json", _PROMOTION) for number in numbers)
        # A folder without a record was cut off while it was made: nothing had been changed yet.
        return tuple(promotion for promotion in found if promotion is not None)

    def write_promotion(self, promotion: Promotion) -> None:
        """On disk when it returns."""
        self._write(f"{self.folder}/promoted-{promotion.number}/record.json", _PROMOTION.dump_python(promotion))

    def remove_promotion(self, number: int) -> None:
        self._drop(f"promoted-{number}")

    def _write(self, path: str, value: Any) -> None:
        text = json.dumps(value, indent=1, default=_spelled, ensure_ascii=True)
        self._unit.write(path, text.encode() + b"\n", _PRIVATE)

    def _read(self, path: str, adapter: TypeAdapter[_Kept]) -> _Kept | None:
        data = self._unit.host.get(path, sudo=self._unit.sudo)
        if data is None:
            return None
        try:
            return adapter.validate_python(json.loads(data, object_hook=_with_bytes))
        except (ValueError, ValidationError) as error:
            advice = (
                f"The unit's own files are untouched by this: delete {self._unit.drop_in} to get the unit back as it"
                f" is written, run daemon-reload, then remove {path}."
            )
            raise HostError(f"{path} on {self._unit.where} is damaged or of another spectune", advice) from error

    def _drop(self, name: str) -> None:
        words = ["/bin/sh", "-c", _DROP, "sh", f"{self.folder}/{name}", self.folder]
        self._unit.command(words, f"removing {self.folder}/{name}")


def _spelled(value: object) -> object:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} can't be kept")


def _with_bytes(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["base64"], validate=True) if value.keys() == {"base64"} else value
