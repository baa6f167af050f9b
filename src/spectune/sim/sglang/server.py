"""The state that all endpoints share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from spectune.sim.sglang.capacity import Fit
from spectune.sim.sglang.environment import Environment
from spectune.sim.sglang.log import Log
from spectune.sim.sglang.resolve import Resolution
from spectune.sim.sglang.scheduler import Scheduler

VERSION = "0.5.15+sim"
OTHER_MODEL = "simulated/another-model"


@dataclass(slots=True)
class Server:
    """One simulated server.

    Attributes:
        ready: warm-up is over.
        draining: a SIGTERM has come.
    """

    environment: Environment
    resolution: Resolution
    fit: Fit
    scheduler: Scheduler
    log: Log
    started: float = field(default_factory=time.time)
    ready: bool = False
    draining: bool = False

    @property
    def args(self) -> Mapping[str, object]:
        """Server arguments in effect."""
        return self.resolution.args

    @property
    def model(self) -> str:
        """Name of the served model."""
        return OTHER_MODEL if "wrong-model" in self.environment.faults else str(self.args["served_model_name"])

    @property
    def model_path(self) -> str:
        """Where the model that was loaded lies."""
        return OTHER_MODEL if "wrong-model" in self.environment.faults else str(self.args["model_path"])

    def simulated(self) -> dict[str, object]:
        """What every read-back says of itself: that it is simulated, by which profile, and what of it is invented."""
        profile, draft = self.environment.profile, self.resolution.draft
        plain = draft.topk == 1 and not draft.ngram
        return {
            "profile": profile.name,
            "about": profile.about,
            "invented": profile.invented,
            "depth_is_published": plain and draft.depth in profile.published_depths,
            "speed": self.environment.speed,
            "worst_lag_seconds": round(self.scheduler.worst_lag_s, 6),
            "lost_seconds": round(self.scheduler.lost_s, 6),
        }
