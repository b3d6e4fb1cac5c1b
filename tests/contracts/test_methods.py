"""What every registered method owes, and what defines each of the first four."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lkge import methods
from lkge.config import LOSSES, RunConfig
from lkge.data.snapshots import no_facts
from lkge.methods import METHODS, method_named
from lkge.models.model import Model
from lkge.models.parameters import Parameters
from lkge.models.scores import SCORES
from lkge.testing import CHECKS, config_for, contract, paper_config
from lkge.testing.graphs import bytes_of, course_of, growing_graph, made_of, trained
from lkge.training.loop import Loop

GRAPH = growing_graph()
EVERY_SCORE = pytest.mark.parametrize("score", sorted(SCORES))


def snapshot_bytes(tables: Parameters, entities: int, relations: int) -> bytes:
    """The first rows of the tables."""
    return bytes_of(Parameters(tables.entity[:entities], tables.relation[:relations]))


FACTORS: tuple[tuple[str, ...], ...] = (
    tuple(sorted(METHODS)),
    tuple(check.__name__ for check in CHECKS),
    tuple(sorted(SCORES)),
    LOSSES,
    ("numba", "torch"),
)
"""Method, check, score, loss, backend."""


def pairs_of(case: tuple[str, ...]) -> set[tuple[tuple[int, str], ...]]:
    """Two factors and the value of each, for any two."""
    return set(itertools.combinations(enumerate(case), 2))


def pairwise(factors: tuple[tuple[str, ...], ...]) -> list[tuple[str, ...]]:
    """Every combination of the first two factors; values of the others by turns, so that any two
    values of any two factors are in a case."""
    seen: set[tuple[tuple[int, str], ...]] = set()
    cases = []
    for first in itertools.product(*factors[:2]):
        others = itertools.product(*factors[2:])
        case = max(
            ((*first, *rest) for rest in others), key=lambda each: len(pairs_of(each) - seen)
        )
        seen |= pairs_of(case)
        cases.append(case)
    return cases


CASES = pairwise(FACTORS)


def test_any_two_values_of_any_two_factors_are_in_a_case() -> None:
    covered = set().union(*map(pairs_of, CASES))
    for (i, mine), (j, yours) in itertools.combinations(enumerate(FACTORS), 2):
        assert {((i, a), (j, b)) for a in mine for b in yours} <= covered


@pytest.mark.parametrize(("name", "check", "score", "loss", "backend"), CASES)
def test_every_method_keeps_the_contract(
    name: str, check: str, score: str, loss: str, backend: str
) -> None:
    config = config_for(name, score)
    getattr(contract, check)(config.with_changes({"loss": loss, "backend": backend}))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_evergreen_with_partial_updates_keeps_the_contract(
    check: Callable[[RunConfig], None],
) -> None:
    """Without query counts, with the loss and the optimizer that it is made for."""
    made_for = {"memory": "none", "loss": "softmax", "optimizer": "adagrad"}
    check(config_for("evergreen", "complex").with_changes(made_for))


@EVERY_SCORE
def test_lkge_with_all_parts_switched_off_is_fine_tune(score: str) -> None:
    fine_tune = course_of(GRAPH, config_for("fine-tune", score))
    off = {"regularization": False, "autoencoder": False, "transfer": False}
    switched = config_for("lkge", score).with_changes(off)
    assert course_of(GRAPH, switched) == fine_tune


@EVERY_SCORE
@pytest.mark.parametrize(
    "only",
    [{"regularization_weight": 0.1}, {"autoencoder_weight": 0.1}, {"transfer": True}],
    ids=lambda only: next(iter(only)),
)
def test_each_part_of_lkge_makes_it_differ_from_fine_tune(
    only: dict[str, object], score: str
) -> None:
    nothing = {"regularization_weight": 0.0, "autoencoder_weight": 0.0, "transfer": False}
    parts = config_for("lkge", score).with_changes(nothing | only)
    some = course_of(GRAPH, parts)
    none = course_of(GRAPH, config_for("fine-tune", score))
    assert (some[0] == none[0]) == ("autoencoder_weight" not in only)
    assert some[1] != none[1]


def test_lkge_at_default_strength_differs_from_fine_tune() -> None:
    ours = course_of(
        GRAPH,
        config_for(
            "lkge",
            regularization_weight=paper_config().get("regularization_weight"),
            autoencoder_weight=paper_config().get("autoencoder_weight"),
        ),
    )
    theirs = course_of(GRAPH, config_for("fine-tune"))
    assert all(mine != other for mine, other in zip(ours, theirs, strict=True))


def test_regularization_holds_old_rows() -> None:
    """The stronger it is, the less the rows of the first snapshot move in the second."""
    moves = []
    for alpha in (0.0, 0.1, 10.0):
        course = trained(
            GRAPH,
            config_for("lkge", regularization_weight=alpha, autoencoder_weight=0.0, transfer=False),
        )
        before = next(course)[1].tables.entity.clone()
        after = next(course)[1].tables.entity[: len(before)]
        moves.append(float((after - before).square().sum()))
    assert moves[0] > moves[1] > moves[2]


def test_lkge_without_fine_tuning_only_transfers() -> None:
    config = config_for("lkge", fine_tuning=False)
    first, *later = tables_by_snapshot(config)
    entities, relations = 18, 4
    for tables in later:
        assert snapshot_bytes(tables, entities, relations) == bytes_of(first)
    full, *_ = tables_by_snapshot(config_for("lkge"))
    assert bytes_of(full) == bytes_of(first)

    model, method = Model(config), method_named("lkge")(config)
    model.tables = first.clone()
    method.grow(model, GRAPH.snapshots[1])
    assert bytes_of(later[0]) == bytes_of(model.tables)
    assert Loop(GRAPH, config).run().results.snapshots[1].epochs == 0


def tables_by_snapshot(config: RunConfig) -> list[Parameters]:
    """The tables after each snapshot."""
    return [model.tables.clone() for _, model, _ in trained(GRAPH, config)]


def test_on_the_second_snapshot_they_are_three() -> None:
    outcomes = [
        course_of(GRAPH, config_for(name))[1] for name in ("re-train", "snapshot", "fine-tune")
    ]
    assert len(set(outcomes)) == 3


def test_retrain_keeps_all_facts() -> None:
    for snapshot, _, method in trained(GRAPH, config_for("re-train")):
        so_far = GRAPH.snapshots[: snapshot.index + 1]
        for split in ("train", "valid"):
            kept = method.state()[split].numpy()
            facts = np.concatenate([getattr(past, split) for past in so_far])
            assert kept.tolist() == facts.tolist()


def test_snapshot_ignores_the_past() -> None:
    """Whatever the first snapshot was, the second is learned alike. Its validation set is empty
    here, for earlier facts do have a part in filtering."""
    first, second, _ = GRAPH.snapshots
    other = growing_graph(seed=1).snapshots[0]
    assert other.train.tolist() != first.train.tolist()
    second = replace(second, valid=no_facts())
    courses = {
        name: [course_of(made_of(past, second), config_for(name)) for past in (first, other)]
        for name in ("snapshot", "fine-tune")
    }
    (mine, yours), (heir, other_heir) = courses["snapshot"], courses["fine-tune"]
    assert mine[0] != yours[0]
    assert mine[1] == yours[1]
    assert heir[1] != other_heir[1]


def test_every_file_of_a_method_is_registered() -> None:
    """A method whose file nobody imports would be in no suite."""
    files = {
        path.stem
        for path in Path(methods.__path__[0]).glob("*.py")
        if "\n@register\n" in path.read_text(encoding="utf-8")
    }
    modules = [method.__module__.rpartition(".") for method in METHODS.values()]
    assert files == {module for package, _, module in modules if package == "lkge.methods"}
