"""What the environment asks of the simulator: profile, pace, noise, faults."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spectune.domain.errors import InputError
from spectune.sim import library
from spectune.sim.model import Profile
from spectune.sim.sglang import faults

_PREFIX = "SPECTUNE_SIM_"
_NAMES = ("PROFILE", "LOAD_SECONDS", "FAULTS", "SEED", "NOISE", "SPEED", "GPU_FILE")
_NOISE_KEYS = ("sd", "boot", "drift", "outliers")


@dataclass(frozen=True, slots=True)
class Noise:
    """Disturbance of step times.

    Attributes:
        sd: relative standard deviation of one step.
        boot: the same of a factor drawn once per process.
        drift: relative slowing per minute.
        outliers: share of steps that take ten times as long.
    """

    sd: float = 0.0
    boot: float = 0.0
    drift: float = 0.0
    outliers: float = 0.0


@dataclass(frozen=True, slots=True)
class Environment:
    """Settings of a simulated server beside its flags.

    Attributes:
        load_seconds: wall time to load, speed already taken into account.
        speed: simulated times are divided by it.
        seed: of acceptance and noise.
    """

    profile: Profile
    load_seconds: float
    speed: float
    noise: Noise
    faults: faults.Faults
    seed: int
    gpu_file: Path | None

    @property
    def lifecycle(self) -> float:
        """Factor for the engine's own waits (health, drain): one at the profile's load time, less where it was cut."""
        real = self.profile.load_seconds
        return min(1.0, self.load_seconds / real) if real > 0 else 1.0 / self.speed


def read(environ: Mapping[str, str]) -> Environment:
    """The settings in `environ`.

    Raises:
        InputError: one is not what it must be; the message names it.
    """
    for name in environ:
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in _NAMES:
            raise InputError(f"unknown setting {name}", f"Known are {', '.join(_PREFIX + known for known in _NAMES)}")
    profile = library.load(environ.get("SPECTUNE_SIM_PROFILE") or library.DEFAULT)
    speed = _number(environ, "SPECTUNE_SIM_SPEED", 1.0)
    if speed <= 0:
        raise InputError("SPECTUNE_SIM_SPEED must be above 0", "1 is real time, 10 is ten times as fast")
    load = _number(environ, "SPECTUNE_SIM_LOAD_SECONDS", profile.load_seconds)
    if load < 0:
        raise InputError("SPECTUNE_SIM_LOAD_SECONDS is negative", "Give seconds, 0 or more")
    seed = environ.get("SPECTUNE_SIM_SEED")
    gpu_file = environ.get("SPECTUNE_SIM_GPU_FILE")
    if gpu_file and not Path(gpu_file).parent.is_dir():
        raise InputError(f"SPECTUNE_SIM_GPU_FILE={gpu_file}: no such folder", "Name a file in a folder that exists")
    return Environment(
        profile=profile,
        load_seconds=load / speed,
        speed=speed,
        noise=_noise(environ.get("SPECTUNE_SIM_NOISE", "")),
        faults=faults.parse(environ.get("SPECTUNE_SIM_FAULTS", "")),
        seed=int(_number(environ, "SPECTUNE_SIM_SEED", 0.0)) if seed else int.from_bytes(os.urandom(6)),
        gpu_file=Path(gpu_file) if gpu_file else None,
    )


class Disturbance:
    """Factor on a step's time: noise of the environment, and the faults that slow down."""

    def __init__(self, environment: Environment, rng: random.Random) -> None:
        self._noise, self._rng = environment.noise, rng
        self._boot = max(0.2, rng.gauss(1.0, self._noise.boot)) if self._noise.boot else 1.0
        self._drift = self._noise.drift + (environment.faults.get("slow-drift") or 0.0) / 100.0
        self._neighbour = "noisy-neighbour" in environment.faults

    def factor(self, seconds: float) -> float:
        """The factor so many seconds after the start."""
        factor = self._boot * (1.0 + self._drift * seconds / 60.0)
        if self._noise.sd:
            factor *= max(0.1, self._rng.gauss(1.0, self._noise.sd))
        if self._noise.outliers and self._rng.random() < self._noise.outliers:
            factor *= 10.0
        if self._neighbour and seconds % 3.0 < 1.0:
            factor *= 1.5
        return max(0.05, factor)


def _noise(text: str) -> Noise:
    values: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, given, value = part.partition("=")
        if not given:
            name, value = "sd", part
        if name not in _NOISE_KEYS:
            raise InputError(f"SPECTUNE_SIM_NOISE: unknown key {name!r}", f"Known are {', '.join(_NOISE_KEYS)}")
        values[name] = _number({"SPECTUNE_SIM_NOISE": value}, "SPECTUNE_SIM_NOISE", 0.0)
    return Noise(**values)


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(f"{name}={text} is no number", "Give a number") from error
    if not math.isfinite(value):
        raise InputError(f"{name}={text} is not finite", "Give a finite number")
    return value
