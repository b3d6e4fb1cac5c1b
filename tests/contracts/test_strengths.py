"""Where methods meet: at strength zero, on the first snapshot, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from lkge.config import RunConfig
from lkge.methods import METHODS
from lkge.testing import paper_config
from lkge.testing.graphs import config_for, course_of, growing_graph, made_of

GRAPH = growing_graph()

STRENGTH_ZERO: dict[str, dict[str, Any]] = {
    "lkge": {"regularization_weight": 0.0, "autoencoder_weight": 0.0, "transfer": False},
    "ewc": {"regularization_weight": 0.0},
    "si": {"regularization_weight": 0.0},
    "gem": {"memory_size": 0},
    "emr": {"memory_size": 0},
    "evergreen": {"replay_weight": 0.0, "transfer": False, "carry_optimizer_state": False},
    "dicgrl": {"memory_size": 0, "components": 1, "active_components": 1},
}
"""Settings at which a method is Fine-tune."""

WITHOUT_STRENGTH = {"fine-tune", "snapshot", "re-train", "pnn", "cwr", "mean", "lan"}
"""Methods that have no such setting."""

LIKE_FINE_TUNE_AT_FIRST = {"snapshot", "re-train", "pnn", "cwr", "si", "ewc", "gem", "emr"}
"""Methods that differ from Fine-tune by what they do with the past, and so not on the first."""

DIFFERENT_FROM_THE_START = {"lkge", "mean", "lan", "dicgrl", "evergreen"}


def small_config(name: str, **changes: Any) -> RunConfig:
    """The small config, with a small memory where the method has one."""
    config = config_for(name)
    memory = {"memory_size": 20} if config.has("memory_size") else {}
    return config.with_changes({**memory, **changes})


def test_every_method_is_placed() -> None:
    assert set(METHODS) == set(STRENGTH_ZERO) | WITHOUT_STRENGTH
    others = LIKE_FINE_TUNE_AT_FIRST | DIFFERENT_FROM_THE_START
    assert set(METHODS) == others | {"fine-tune"}


@pytest.mark.parametrize("name", sorted(STRENGTH_ZERO))
def test_at_strength_zero_a_method_is_fine_tune(name: str) -> None:
    off = course_of(GRAPH, small_config(name, **STRENGTH_ZERO[name]))
    fine_tune = course_of(GRAPH, small_config("fine-tune"))
    if name == "dicgrl":  # its tables have the attention of relations besides
        off = [mine[: len(theirs)] for mine, theirs in zip(off, fine_tune, strict=True)]
    assert off == fine_tune


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"fine-tune"}))
def test_by_default_a_method_is_not_fine_tune(name: str) -> None:
    """GEM needs some epochs until a step would harm what it remembers."""
    changes = {"max_epochs": 20, "patience": 20} if name == "gem" else {}
    defaults = paper_config(method=name)
    weights = ("regularization_weight", "autoencoder_weight")
    strength = {weight: defaults.get(weight) for weight in weights if defaults.has(weight)}
    mine = course_of(GRAPH, small_config(name, **strength, **changes))
    theirs = course_of(GRAPH, small_config("fine-tune", **changes))
    assert mine[1] != theirs[1]
    assert mine[2] != theirs[2]


@pytest.mark.parametrize("name", sorted(LIKE_FINE_TUNE_AT_FIRST))
def test_on_the_first_snapshot_it_is_fine_tune(name: str) -> None:
    first = made_of(GRAPH.snapshots[0])
    assert course_of(first, small_config(name)) == course_of(first, small_config("fine-tune"))
