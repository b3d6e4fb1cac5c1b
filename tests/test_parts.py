"""`scripts/parts.py` changes what it says, in a run, and puts it back."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from tests.scripts import script_named

from lkge.config import configure
from lkge.testing.graphs import growing_graph


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with script_named("parts") as module:
        yield module


def test_each_part_is_another_value_for_a_run_and_no_longer(script: ModuleType) -> None:
    for name, changes in script.PARTS.items():
        before = [getattr(room, constant) for room, constant, _ in changes]
        with script.changed(name):
            for (room, constant, value), old in zip(changes, before, strict=True):
                assert getattr(room, constant) == value != old
        assert [getattr(room, constant) for room, constant, _ in changes] == before


def test_a_changed_part_learns_otherwise_and_both_have_a_row(script: ModuleType) -> None:
    graph = growing_graph()
    config = configure({"max_epochs": 8}, preset="evergreen")
    found = {part: script.learned(graph, part, config) for part in ("as-it-is", "short-patience")}
    assert found["as-it-is"].mrr != found["short-patience"].mrr
    for part, results in found.items():
        cells = [cell.strip() for cell in script.row(part, results).strip("|").split("|")]
        assert cells[0] == part
        assert float(cells[1]) == pytest.approx(results.protocols["paper"].final.mrr, abs=1e-4)
        assert float(cells[4]) == pytest.approx(results.protocols["current"].bwt, abs=1e-4)
        assert script.HEAD.splitlines()[0].count("|") == len(cells) + 1
