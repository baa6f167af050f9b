"""Profiles: those that come with spectune, files of the user's, and random ones."""

from __future__ import annotations

import json
import random
from importlib import resources
from pathlib import Path

from spectune.domain.errors import InputError
from spectune.sim.model import Capacity, Profile

DEFAULT = "hand-run"
_FOLDER = resources.files("spectune.sim").joinpath("profiles")


def names() -> tuple[str, ...]:
    """Names of the packaged profiles."""
    files = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in files if name.endswith(".json")))


def load(name: str) -> Profile:
    """A packaged profile by name, or one from a JSON file by path.

    Raises:
        InputError: there is none, or it is not a profile.
    """
    if name in names():
        text, where = _FOLDER.joinpath(f"{name}.json").read_text(encoding="utf-8"), name
    else:
        try:
            text, where = Path(name).read_text(encoding="utf-8"), name
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"no simulator profile {name!r}: {error}", f"Give a path, or one of {', '.join(names())}"
            ) from error
    try:
        plain = json.loads(text)
    except ValueError as error:
        raise InputError(f"profile {where}: not JSON: {error}", "Correct the file") from error
    if not isinstance(plain, dict):
        raise InputError(f"profile {where}: expected a JSON object", "Compare it with the packaged profiles")
    return Profile.from_json(plain)


def random_profile(rng: random.Random) -> Profile:
    """A profile that could be some model on some GPU: memory-bound alone, compute-bound in company.

    Among them are draft heads that are dead, acceptance that collapses after a position (a sharp optimum), compute so
    scarce that speculation loses at many users (a crossover), and memory that runs out above a depth (a cliff).
    """
    floor = rng.uniform(0.004, 0.025)
    crossing = rng.uniform(30, 400)
    first = rng.uniform(0.0, 0.04) if rng.random() < 0.1 else rng.uniform(0.55, 0.93)
    decay = rng.uniform(0.82, 0.99)
    collapse = rng.randint(1, 4) if rng.random() < 0.25 else None

    def row(shift: float) -> tuple[float, ...]:
        values = []
        for position in range(8):
            chance = min(0.99, first * (1.0 + shift)) * decay**position
            values.append(chance * 0.15 if collapse is not None and position >= collapse else chance)
        return tuple(values)

    cliff = rng.randint(2, 6) if rng.random() < 0.2 else None
    base = rng.uniform(1.5, 8.0) if rng.random() < 0.5 else rng.uniform(60.0, 400.0)
    weights = rng.uniform(8.0, 60.0)
    return Profile(
        name="random",
        about="A random profile.",
        invented="Everything: drawn at random.",
        published_depths=(),
        architecture="LlamaForCausalLM",
        draft_architecture="LlamaForCausalLMEagle3",
        hybrid=base < 20.0,
        load_seconds=rng.uniform(20.0, 200.0),
        gpu_gb=80.0,
        weights_gb=weights,
        draft_gb=weights * rng.uniform(0.01, 0.06),
        mem_fraction=0.88,
        kv_bytes_per_token=rng.choice((24576, 65536, 131072)),
        context_length=rng.choice((8192, 32768, 131072)),
        memory_floor_s=floor,
        compute_token_s=floor / crossing,
        context_token_s=rng.uniform(0.0, 4e-8),
        draft_step_s=floor * rng.uniform(0.01, 0.12),
        draft_request_s=floor * rng.uniform(0.0001, 0.003),
        overhead_s=rng.uniform(0.0003, 0.003),
        prefill_token_s=floor / crossing / 4,
        prefill_overhead_s=0.001,
        acceptance={"chat": row(0.0), "code": row(0.08), "extraction": row(0.12), "looping": row(0.2)},
        kv_tokens=Capacity(rng.uniform(1e5, 9e5) * (base + 2), base, cliff, 0.3),
        requests=Capacity(rng.uniform(20, 140) * (base + 2), base, cliff, 0.3),
        temperature_slope=rng.uniform(0.0, 0.5),
    )
