"""What a method carries of a fact goes when the fact no longer holds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lkge.data.snapshots import Facts, among, with_inverses
from lkge.methods import Method
from lkge.models.model import Model
from lkge.testing.graphs import config_for, growing_graph, trained

GRAPH = growing_graph()
TRAIN = GRAPH.snapshots[0].train


def first_trained(name: str) -> tuple[Model, Method]:
    _, model, method = next(trained(GRAPH, config_for(name)))
    return model, method


@pytest.mark.parametrize("name", ["lkge", "cwr", "evergreen"])
def test_counts_fall_by_what_is_retracted_and_never_below_zero(name: str) -> None:
    _, method = first_trained(name)
    before = {key: counts.clone() for key, counts in method.state().items()}
    method.retract(TRAIN[:4])
    edges = torch.from_numpy(with_inverses(TRAIN[:4])).long()
    for key, column in (("facts.entity", 0), ("facts.relation", 1)):
        gone = torch.bincount(edges[:, column], minlength=len(before[key]))
        assert torch.equal(method.state()[key], before[key] - gone)
    for _ in range(9):
        method.retract(TRAIN[:4])
    left = [counts for key, counts in method.state().items() if key.startswith("facts.")]
    assert min(float(counts.min()) for counts in left) == 0


@pytest.mark.parametrize("name", ["emr", "gem", "dicgrl"])
def test_a_memory_loses_them(name: str) -> None:
    _, method = first_trained(name)
    assert among(TRAIN[:4], method.state()["facts"].numpy()).all()
    method.retract(TRAIN[:4])
    left = method.state()["facts"].numpy()
    assert not among(TRAIN[:4], left).any()
    assert len(left) == len(TRAIN) - 4 == len(method.state()["since"])


def test_retraining_no_longer_trains_on_them() -> None:
    _, method = first_trained("re-train")
    retracted = np.concatenate([TRAIN[:4], GRAPH.snapshots[0].valid[:2]])
    method.retract(retracted)
    assert not among(retracted, method.facts(GRAPH.snapshots[1])).any()
    assert not among(retracted, method.validation(GRAPH.snapshots[1])).any()
    assert len(method.facts(GRAPH.snapshots[1])) == 2 * len(TRAIN) - 4


@pytest.mark.parametrize("name", ["mean", "lan"])
def test_neighbourhoods_no_longer_contain_them(name: str) -> None:
    _, method = first_trained(name)

    def neighbours() -> Facts:
        state = method.state()
        counts = state["starts"].diff()
        subjects = torch.repeat_interleave(torch.arange(len(counts)), counts)
        rows = torch.stack([subjects, state["relations"], state["others"]], dim=1)
        return rows.numpy().astype(np.int32)

    before, retracted = neighbours(), with_inverses(TRAIN[:4])
    assert among(retracted, before).any()
    method.retract(TRAIN[:4])
    assert not among(retracted, neighbours()).any()
    assert np.array_equal(neighbours(), before[~among(before, retracted)])
