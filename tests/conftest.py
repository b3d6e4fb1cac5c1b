"""Test processes that run side by side use one thread each, and so do the processes they start.

The variables are set before numba is imported: it reads them again whenever it compiles, and
refuses another number than the first.
"""

import os

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ |= {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import torch

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)

LONG = (
    "test_tutorial.py",
    "test_quality.py",
    "test_add_a_method.py",
    "test_kill.py",
    "test_workers.py",
    "test_site.py",
)
"""Files with tests of half a minute: they begin first, so that no process waits for one at the
end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONG)
