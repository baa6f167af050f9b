"""Outcomes of simulated campaigns in a file of lines, so that a long series can be made in parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.search.simulate import Outcome
from spectune.domain.errors import InputError

_ROOT = Path(__file__).resolve().parents[2]
_DECIDING = ("bench/search", "src/spectune/predict", "src/spectune/search", "src/spectune/domain")


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """One campaign. `noise` is the standard deviation of a trial's log speed."""

    strategy: str
    noise: float
    surface: str
    seed: int


def fingerprint() -> str:
    """Of the code that decides the outcomes."""
    digest = hashlib.sha256()
    for folder in _DECIDING:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class OutcomeFile:
    """One JSON object a line: the code's fingerprint first, then the outcomes of one block of campaigns each."""

    def __init__(self, path: Path, code: str) -> None:
        self._path, self._code = path, code

    def load(self) -> dict[Key, Outcome]:
        """All outcomes; a last line that was cut off is dropped.

        Raises:
            InputError: it is no such file, or other code made it.
        """
        if not self._path.exists():
            return {}
        whole, _, cut_off = self._path.read_text(encoding="utf-8").rpartition("\n")
        if cut_off:
            self._path.write_text(whole + "\n" if whole else "", encoding="utf-8")
        lines = whole.splitlines()
        if not lines:
            return {}
        try:
            head, *rows = map(json.loads, lines)
            made_by = head["code"]
            found = {
                Key(row["strategy"], row["noise"], row["surface"], seed): Outcome(tuple(regrets))
                for row in rows
                for seed, regrets in row["regrets"]
            }
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._path}: not a file of outcomes", "Name another file: --out") from error
        if made_by != self._code:
            raise InputError(
                f"{self._path}: its outcomes come from other code ({made_by}, now {self._code})",
                "Name another file with --out; outcomes of two versions can't be mixed",
            )
        return found

    def append(self, outcomes: Mapping[Key, Outcome]) -> None:
        """Adds outcomes that share strategy, noise and surface."""
        fresh = not self._path.exists() or not self._path.stat().st_size
        with self._path.open("a", encoding="utf-8") as file:
            if fresh:
                file.write(json.dumps({"code": self._code}) + "\n")
            file.write(_line(outcomes) + "\n")


def _line(outcomes: Mapping[Key, Outcome]) -> str:
    first = next(iter(outcomes))
    # Six digits of a share are more than any table shows.
    regrets = [[key.seed, [round(regret, 6) for regret in found.regrets]] for key, found in outcomes.items()]
    return json.dumps(
        {"strategy": first.strategy, "noise": first.noise, "surface": first.surface, "regrets": regrets},
        separators=(",", ":"),
    )


def grouped(
    outcomes: Mapping[Key, Outcome], wanted: Iterable[Key]
) -> dict[tuple[float, str], dict[str, list[Outcome]]]:
    """(noise, strategy) -> surface -> outcomes, of those wanted that are there."""
    found: dict[tuple[float, str], dict[str, list[Outcome]]] = {}
    for key in wanted:
        if key in outcomes:
            found.setdefault((key.noise, key.strategy), {}).setdefault(key.surface, []).append(outcomes[key])
    return found
