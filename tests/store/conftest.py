from __future__ import annotations

import pytest
from tests.serve.helpers import world

from lkge.living import init
from lkge.store.graph import LivingGraph

LABELS = {"City 03": "Third town", "Country 3": "Third land", "lies in": "is part of"}


@pytest.fixture(scope="session")
def cities(tmp_path_factory: pytest.TempPathFactory) -> LivingGraph:
    """Thirty cities in six countries, with labels; no test changes it."""
    folder = tmp_path_factory.mktemp("cities") / "KG"
    graph = init(folder, dim=16, max_epochs=20, batch_size=32, seed=3, backend="torch")
    graph.add(world(), valid=0.3)
    graph.label(LABELS)
    return graph
