"""How much the service takes on. What bounds a single request stands in its OpenAPI schema."""

from __future__ import annotations

from dataclasses import dataclass

MAX_NAME = 1_000
"""Characters of a name."""
MAX_ANSWERS = 1_000
"""Answers to one question."""
MAX_QUERIES = 100
"""Questions asked at once."""
MAX_SCORED = 1_000
"""Facts scored at once."""
MAX_FACTS = 10_000
"""Facts posted at once, and as many to retract."""
MAX_POINTS = 5_000
"""Entities on the map."""


@dataclass(frozen=True)
class Limits:
    """What the process bears at the same time; what is beyond is refused with a time to wait."""

    body_bytes: int = 8 << 20
    body_seconds: float = 30.0
    requests: int = 64
    streams: int = 64
    threads: int = 2
    waiting_batches: int = 100
    retry_seconds: int = 1
