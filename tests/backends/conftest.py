from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """See `single_threaded`; the tests of threads ask for more."""
    from tests.training.made import single_threaded

    with single_threaded():
        yield
