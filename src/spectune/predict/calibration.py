"""Room at other depths, from the figures that one deployment read back.

What a configuration file can't tell (activations, other programs on the GPU, which of an engine's ways of dividing
memory is at work) is in those figures: they are inverted for the bytes that were left, and divided anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor

from spectune.domain.deployment import Capacity
from spectune.predict.capacity import DraftStates, Setup, cell_bytes, predicted, state_bytes
from spectune.predict.model_config import ModelShape

_STATE_TOLERANCE = 0.03
"""Engines round state sizes in their logs, and allocate a slot or two more than they hand out."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """The figures can't be explained; nothing is predicted from them."""

    reason: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """Attributes:
    room: what is expected.
    low, high: least and most KV room among all explanations of the measured figures; equal where there is one only.
    """

    room: Capacity
    low: Capacity
    high: Capacity


@dataclass(frozen=True, slots=True)
class Fit:
    """One explanation of the measured figures: how memory is divided, and how many bytes there were to divide."""

    setup: Setup
    left: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Attributes:
    shape: of the model.
    fits: every explanation that gives the measured figures exactly, likeliest first. The number of state slots is
        rounded down by engines and not always told, so there are mostly two, one slot apart.
    """

    shape: ModelShape
    fits: tuple[Fit, ...]

    def at_depth(self, depth: int) -> Forecast | None:
        """The room with a chain of another depth, all else alike, the draft model included; None where nothing fits.
        From or to no speculation a draft model comes or goes: see `at`."""
        return self._forecast(tuple(fit.setup.at_depth(depth) for fit in self.fits))

    def at(self, setup: Setup, loaded: float = 0.0) -> Forecast | None:
        """The room under another setup; the way of dividing memory stays as it was found.

        Args:
            loaded: bytes a GPU that are loaded beyond what the measured deployment had loaded (draft weights).
        """
        return self._forecast(tuple(replace(setup, draft_states=fit.setup.draft_states) for fit in self.fits), loaded)

    def _forecast(self, setups: tuple[Setup, ...], loaded: float = 0.0) -> Forecast | None:
        rooms = [predicted(self.shape, setup, fit.left - loaded) for setup, fit in zip(setups, self.fits, strict=True)]
        found = [room for room in rooms if room is not None]
        if rooms[0] is None:
            return None
        ranked = sorted(found, key=lambda room: (room.kv_tokens or 0, room.max_running or 0))
        return Forecast(rooms[0], ranked[0], ranked[-1])


def calibrated(shape: ModelShape, measured: Capacity, setup: Setup) -> Calibration | Unfit:
    """Explains a deployment's own figures.

    Args:
        measured: as read back; kv_tokens is needed, for hybrid models max_running too. memory["state"], bytes of one
            GPU, narrows the explanations down where it is told.
        setup: how that deployment ran. Its draft_states is tried first; the other way is tried too.
    """
    per_token = cell_bytes(shape, setup)
    if measured.kv_tokens is None:
        return Unfit("the engine did not tell how many KV tokens it has room for")
    if per_token is None:
        return Unfit("the model's configuration does not tell the size of a token in the KV cache")
    left = measured.kv_tokens * per_token
    if not shape.hybrid:
        return Calibration(shape, (Fit(setup, left),))
    slot = state_bytes(shape, setup.gpus)
    if slot is None or measured.max_running is None:
        what = "the size of a state" if slot is None else "how many requests run at a time"
        return Unfit(f"it is not told {what}")
    fits = tuple(
        Fit(way, found)
        for draft_states in sorted(DraftStates, key=lambda kind: kind is not setup.draft_states)
        for way in (replace(setup, draft_states=draft_states),)
        for found in _lefts(shape, way, measured, left, slot)
    )
    if not fits:
        return Unfit(
            f"{measured.kv_tokens:,} KV tokens and {measured.max_running} requests at a time fit no known way of "
            f"sharing memory between states and KV with {setup.slots_per_request} state slots a request"
        )
    return Calibration(shape, _told_apart(shape, fits, measured.memory.get("state")))


def _lefts(shape: ModelShape, setup: Setup, measured: Capacity, for_kv: float, slot: int) -> Iterator[float]:
    """Bytes that may have been left, most slots first: those that give the measured figures when divided."""
    running = measured.max_running or 0
    if setup.draft_states is DraftStates.FIRST:
        for_drafts = (setup.asked_requests or 0) * setup.draft_tokens * slot
        most = setup.state_ratio * for_kv / slot
    else:
        for_drafts = running * setup.draft_tokens * slot
        share = setup.state_ratio / (1 + setup.state_ratio)
        weight = 1 + setup.draft_tokens / setup.slots_per_request
        most = share * (for_kv + for_drafts) / slot / (weight - share)
    for slots in range(floor(most) + 1, max(floor(most) - 4, 0), -1):
        left = for_kv + slots * slot + for_drafts
        room = predicted(shape, setup, left)
        if room is not None and (room.kv_tokens, room.max_running) == (measured.kv_tokens, measured.max_running):
            yield left


def _told_apart(shape: ModelShape, fits: tuple[Fit, ...], state: int | None) -> tuple[Fit, ...]:
    """The fits whose states take as much memory as the engine says, drafts' states included or not; all of them where
    it does not say, or where none does."""
    if state is None:
        return fits

    def close(fit: Fit) -> bool:
        room = predicted(shape, fit.setup, fit.left)
        parts = room.memory if room is not None else {}
        slots = parts.get("state", 0)
        return any(abs(state / size - 1) <= _STATE_TOLERANCE for size in (slots, slots + parts["draft state"]) if size)

    return tuple(fit for fit in fits if close(fit)) or fits
