"""Campaigns that work within a maintenance window only."""

from __future__ import annotations

from collections.abc import Callable

from spectune.domain.ports import Clock
from spectune.domain.verdict import Conclusion
from spectune.domain.window import Pause, Window, minutes

_LOOK_S = 20.0
"""How often the time of day is looked at: it may jump, and machines sleep."""


def in_windows(
    window: Window, once: Callable[[], Conclusion | Pause], clock: Clock, say: Callable[[str], None]
) -> Conclusion:
    """Lets a campaign work whenever the window is open, until there is an answer.

    Args:
        once: takes the campaign up and goes on as long as the window allows; the service is as it was when it returns.
    """
    while True:
        outcome = once()
        if isinstance(outcome, Conclusion):
            return outcome
        opens, left = window.words(outcome.until), minutes(max(0.0, outcome.until - clock.now()))
        say(f"the window {window.label} (time zone of this machine): {outcome.reason}")
        say(f"pausing, with the service as it was; going on at {opens}, in {left} (Ctrl-C loses nothing)")
        while (until := outcome.until - clock.now()) > 0:
            clock.sleep(min(_LOOK_S, until))
