"""A limit on how much is logged, so that nobody can fill a disk with messages of the service."""

import logging
import time
from collections.abc import Callable

BURST, SECONDS = 5, 60.0
"""Messages from one place in the code that are logged in so many seconds."""


class RateLimit(logging.Filter):
    """Lets the first messages of each place in the code pass; after a while again, with the number
    of those that were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place, now = (record.pathname, record.lineno), self._clock()
        started, count = self._counts.get(place, (now, 0))
        if now - started >= SECONDS:
            if count > BURST:
                record.msg = f"{record.getMessage()} (and {count - BURST} more before)"
                record.args = ()
            started, count = now, 0
        self._counts[place] = started, count + 1
        return count < BURST
