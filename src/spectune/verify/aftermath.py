"""Checks on what a server leaves behind when it has been stopped. They concern the next trial as much as this one."""

from __future__ import annotations

from spectune.domain.asked import Asked
from spectune.verify.check import Result, ok, unknown, violated
from spectune.verify.observed import Observed

SLACK_BYTES = 256 * 2**20
"""Other programs' memory comes and goes by less."""
_GIB = 2**30


def memory_back(asked: Asked, observed: Observed) -> Result:
    """Memory of the GPUs in use before the start against after the stop."""
    wanted = "as much GPU memory in use as before the start"
    left = observed.left
    if left is None or left.gpu_before is None or left.gpu_after is None:
        return unknown(wanted, "the GPU memory in use can't be told here")
    more = left.gpu_after - left.gpu_before
    if more <= SLACK_BYTES:
        return ok(wanted, f"{left.gpu_after / _GIB:.1f} GiB, {left.gpu_before / _GIB:.1f} GiB before")
    return violated(wanted, f"{more / _GIB:.1f} GiB more than before the start are still in use")
