"""`scripts/ideas.py` does to evergreen what it says."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import torch
from tests.backends.made import NUMBA
from tests.scripts import script_named

from lkge.models.parameters import Parameters
from lkge.models.predictor import TablePredictor
from lkge.models.scores import ComplEx
from lkge.testing.graphs import growing_graph


@pytest.fixture
def script() -> Iterator[ModuleType]:
    with script_named("ideas") as module:
        yield module


def test_a_fitted_row_has_the_least_squares(script: ModuleType) -> None:
    generator = torch.Generator().manual_seed(5)
    facing = torch.randn(7, 4, generator=generator)
    rows = torch.tensor([9, 3, 9, 9, 3, 9, 6])
    distinct, values = script.fit(rows, facing, 2.0)
    assert distinct.tolist() == [3, 6, 9]
    ridge = float(facing.square().sum(1).mean()) ** 0.5
    for row, value in zip(distinct, values, strict=True):
        design = np.vstack([facing[rows == row].numpy(), ridge * np.eye(4)])
        wanted = np.append(np.full(int((rows == row).sum()), 2.0), np.zeros(4))
        expected = np.linalg.lstsq(design, wanted, rcond=None)[0]
        np.testing.assert_allclose(value.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_shift_is_added_to_the_scores_of_newcomers_and_no_others(script: ModuleType) -> None:
    generator = torch.Generator().manual_seed(5)
    tables = Parameters(
        torch.randn(6, 8, generator=generator), torch.randn(4, 8, generator=generator)
    )
    plain = TablePredictor.of(tables, ComplEx(), backend=NUMBA)
    moved = script.shifted(plain, 4, 0.75)
    for subject, relation in ((0, 1), (5, 2)):
        change = moved.candidate_scores(subject, relation) - plain.candidate_scores(
            subject, relation
        )
        np.testing.assert_allclose(change, [0, 0, 0, 0, 0.75, 0.75], atol=1e-5)


def test_an_idea_learns_otherwise_and_a_shift_of_nothing_changes_nothing(
    script: ModuleType,
) -> None:
    ideas = ("at-random", "as-it-is", "pulled", "least-squares", "shifted")
    found = {idea: list(script.rows(growing_graph(), idea, 11, 3)) for idea in ideas}
    shifts = [_figures(row) for row in found.pop("shifted")]
    (at_random,), *others = ([_figures(row) for row in rows] for rows in found.values())
    assert all(at_random not in figures for figures in others)
    assert shifts[script.SHIFTS.index(0)] == at_random
    assert len(set(shifts)) > 1


def test_a_row_is_pulled_as_hard_by_its_sums_as_without_them_in_the_mean(
    script: ModuleType,
) -> None:
    sums = torch.tensor([[1.0, 3.0], [2.0, 2.0], [5.0, 5.0]])
    assert script._spread(torch.tensor([[4.0], [7.0]]), sums).tolist() == [[2, 6], [7, 7]]


def _figures(row: str) -> tuple[str, ...]:
    """MRR and BWT in both protocols."""
    return tuple(row.split("|")[2:6])
