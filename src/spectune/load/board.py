"""What the processes of one measurement must agree on at every moment, in memory that they share.

All values are 64-bit integers, each written by one process only; one such write is seen whole or not at all.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

START, OPENED, CLOSED, OVER = range(4)
"""Times in ns of the monotonic clock, 0 while not yet: sending starts, the window opens and closes, all ends."""
READY, WARM, COUNTED, LOST = range(4)
"""Of each worker: connections are open; its warm-up is over; requests in flight that count; the server is gone."""

_OWN: Final = 8  # a cache line, so that workers do not slow each other down


class Board:
    """The shared memory. `fd` is handed to the workers, each of which opens it by its number."""

    def __init__(self, workers: int, fd: int | None = None) -> None:
        size = 8 * _OWN * (workers + 1)
        self.workers = workers
        if fd is None:
            fd = os.memfd_create("spectune-load")
            os.ftruncate(fd, size)
        self.fd = fd
        self._map = mmap.mmap(fd, size)
        self._values = memoryview(self._map).cast("q")

    def close(self) -> None:
        self._values.release()
        self._map.close()
        os.close(self.fd)

    def common(self, what: int) -> int:
        return self._values[what]

    def set_common(self, what: int, value: int) -> None:
        self._values[what] = value

    def own(self, worker: int, what: int) -> int:
        return self._values[_OWN * (worker + 1) + what]

    def set_own(self, worker: int, what: int, value: int) -> None:
        self._values[_OWN * (worker + 1) + what] = value

    def all_own(self, what: int) -> list[int]:
        return [self.own(worker, what) for worker in range(self.workers)]
