"""Random histories beside plain Python sets; thousands more in `make torture`."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from tests.torture.machine import History

TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=6,
    stateful_step_count=12,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
