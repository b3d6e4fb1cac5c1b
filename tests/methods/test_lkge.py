"""Eqs. (1) to (12) of the paper, each against its plain evaluation on a graph of a few facts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from tests.methods import plain_python as paper
from tests.methods.hand_made import FIRST, NEW, PAST, SECOND, Scene, moved, plain, second_snapshot

from lkge.methods.lkge import Lkge, row_weight
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.testing import paper_config

Loss = Callable[..., float]

ALPHA, BETA = 0.3, 0.7
BASE = paper_config(dim=3, regularization_weight=ALPHA, autoencoder_weight=BETA)
BACKENDS = pytest.mark.parametrize("backend", ["numba", "torch"])
FORMS = pytest.mark.parametrize("form", ["linear", "squared"])
EVERY_ENTITY, EVERY_RELATION = range(10), range(6)
WITH_NEW_FACTS = ({0, 1, 2, 5, 6, 7, 9}, {0, 1, 4, 5})


def penalty(
    scene: Scene, entities: list[int] | range, relations: list[int] | range
) -> tuple[float, Gradient]:
    """The method's own loss and gradient in a step whose batch touches the given rows."""
    gradient = Gradient.like(scene.model.tables)
    gradient.entity.touched[list(entities)] = 1
    gradient.relation.touched[list(relations)] = 1
    return scene.method.penalty(scene.model, gradient), gradient


def assert_is_slope(gradient: Gradient, slope: paper.Rows) -> None:
    """Equal on every touched row, and zero elsewhere."""
    for part, rows in zip(gradient, (slope.entity, slope.relation), strict=True):
        expected = torch.tensor(rows) * part.touched[:, None]
        torch.testing.assert_close(part.values, expected, rtol=1e-4, atol=2e-5)


def losses(scene: Scene, squared: bool = False) -> tuple[paper.Rows, Loss, Loss]:
    """The rows now, and L_old and L_MAE as functions of rows."""
    old = plain(scene.old)
    return (
        plain(scene.model.tables),
        partial(paper.regularization_loss, old=old, past=PAST, new=NEW, squared=squared),
        partial(paper.autoencoder_loss, old=old, past=PAST, new=NEW),
    )


@BACKENDS
@FORMS
def test_the_penalty_is_alpha_l_old_plus_beta_l_mae(backend: str, form: str) -> None:
    """Eq. (12) with Eqs. (2), (5), (6), (10), (11), where a step touches every row."""
    scene = second_snapshot(BASE.with_changes({"backend": backend, "regularization_form": form}))
    rows, l_old, l_mae = losses(scene, squared=form == "squared")
    value, gradient = penalty(scene, EVERY_ENTITY, EVERY_RELATION)
    assert value == pytest.approx(ALPHA * l_old(rows) + BETA * l_mae(rows), rel=1e-5)
    assert_is_slope(gradient, paper.slope(lambda at: ALPHA * l_old(at) + BETA * l_mae(at), rows))


@BACKENDS
@FORMS
def test_a_step_pays_for_the_rows_that_it_touches(backend: str, form: str) -> None:
    """Old rows outside batch and new facts neither cost nor move."""
    scene = second_snapshot(BASE.with_changes({"backend": backend, "regularization_form": form}))
    rows, l_old, l_mae = losses(scene, squared=form == "squared")
    value, gradient = penalty(scene, [0, 8], [2])
    entities, relations = WITH_NEW_FACTS[0] | {0, 8}, WITH_NEW_FACTS[1] | {2}
    assert set(gradient.entity.rows().tolist()) == entities
    assert set(gradient.relation.rows().tolist()) == relations

    def paid(at: paper.Rows) -> float:
        return ALPHA * l_old(at, entities=entities, relations=relations) + BETA * l_mae(
            at, entities=entities, relations=relations
        )

    assert value == pytest.approx(paid(rows), rel=1e-5)
    assert_is_slope(gradient, paper.slope(paid, rows))


@BACKENDS
def test_the_first_snapshot_has_the_autoencoder_alone(backend: str) -> None:
    config = BASE.with_changes({"backend": backend})
    method, model = Lkge(config), Model(config)
    method.grow(model, FIRST)
    method.begin(model, FIRST)
    model.tables = moved(model.tables, 1)
    scene = Scene(method, model, model.tables, model.tables)
    value, gradient = penalty(scene, range(5), range(4))

    def loss(at: paper.Rows) -> float:
        return BETA * paper.autoencoder_loss(at, paper.Rows([], []), past=[], new=PAST)

    assert value == pytest.approx(loss(plain(model.tables)), rel=1e-5)
    assert_is_slope(gradient, paper.slope(loss, plain(model.tables)))


@BACKENDS
def test_without_regularization_the_autoencoder_is_whole(backend: str) -> None:
    """Eq. (2) over every row that has any fact, also those without new ones."""
    scene = second_snapshot(BASE.with_changes({"backend": backend, "regularization": False}))
    rows, _, l_mae = losses(scene)
    value, gradient = penalty(scene, EVERY_ENTITY, EVERY_RELATION)
    assert value == pytest.approx(BETA * l_mae(rows), rel=1e-5)
    assert l_mae(rows, entities=[3], relations=[]) > 0
    assert_is_slope(gradient, paper.slope(lambda at: BETA * l_mae(at), rows))


@BACKENDS
def test_rows_without_any_fact_are_free(backend: str) -> None:
    """Entity 4 is old and 8 new; no training fact has shown either."""
    scene = second_snapshot(BASE.with_changes({"backend": backend}))
    _, gradient = penalty(scene, EVERY_ENTITY, EVERY_RELATION)
    assert not gradient.entity.values[[4, 8]].any()
    assert gradient.entity.values[[0, 1, 2, 3, 5, 6, 7, 9]].any(dim=1).all()
    assert gradient.relation.values.any(dim=1).all()


@BACKENDS
@FORMS
def test_without_the_autoencoder_regularization_is_left(backend: str, form: str) -> None:
    scene = second_snapshot(
        BASE.with_changes({"backend": backend, "regularization_form": form, "autoencoder": False})
    )
    rows, l_old, _ = losses(scene, squared=form == "squared")
    value, gradient = penalty(scene, EVERY_ENTITY, EVERY_RELATION)
    assert value == pytest.approx(ALPHA * l_old(rows), rel=1e-5)
    assert_is_slope(gradient, paper.slope(lambda at: ALPHA * l_old(at), rows))
    _, alone = penalty(scene, [0], [])
    assert alone.entity.rows().tolist() == [0]


def test_the_two_forms_of_regularization_differ() -> None:
    values = [
        penalty(
            second_snapshot(BASE.with_changes({"regularization_form": form})),
            EVERY_ENTITY,
            range(6),
        )[0]
        for form in ("linear", "squared")
    ]
    assert values[0] > values[1] * 1.01


def test_row_weights() -> None:
    """Eq. (11): nothing new, nothing old, some of both, nothing at all."""
    weights = row_weight(torch.tensor([4.0, 0.0, 1.0, 0.0]), torch.tensor([0.0, 2.0, 3.0, 0.0]))
    assert weights.tolist() == [1.0, 0.0, 0.25, 0.0]
    for past, new in [(4, 0), (0, 2), (1, 3), (0, 0), (7, 2)]:
        mine = row_weight(torch.tensor([float(past)]), torch.tensor([float(new)])).item()
        assert mine == pytest.approx(paper.regularization_weight(new, past))


def test_growth_transfers_to_new_rows() -> None:
    """Eqs. (8) and (9); what has no fact with old rows alone keeps its random value."""
    scene = second_snapshot(BASE)
    old, drawn = plain(scene.old), scene.model.drawn(SECOND)
    torch.testing.assert_close(
        scene.grown.entity[5], torch.tensor(paper.transferred_entity(5, old, NEW))
    )
    for relation in (4, 5):
        torch.testing.assert_close(
            scene.grown.relation[relation],
            torch.tensor(paper.transferred_relation(relation, old, NEW)),
        )
    for entity in (6, 7, 8, 9):
        assert paper.transferred_entity(entity, old, NEW) is None
        assert torch.equal(scene.grown.entity[entity], drawn.entity[entity])
    assert torch.equal(scene.grown.entity[:5], scene.old.entity)
    assert torch.equal(scene.grown.relation[:4], scene.old.relation)


def test_without_transfer_new_rows_are_drawn() -> None:
    scene = second_snapshot(BASE.with_changes({"transfer": False}))
    expected = scene.old.grown_to(scene.model.drawn(SECOND))
    assert torch.equal(scene.grown.entity, expected.entity)
    assert torch.equal(scene.grown.relation, expected.relation)


def test_without_fine_tuning_later_snapshots_train_on_nothing() -> None:
    method = Lkge(BASE.with_changes({"fine_tuning": False}))
    assert method.facts(FIRST).tolist() == FIRST.train.tolist()
    assert len(method.facts(SECOND)) == 0
    assert Lkge(BASE).facts(SECOND).tolist() == SECOND.train.tolist()


def test_the_counts_of_two_snapshots_are_carried() -> None:
    """A fact counts for each of its ends, a loop twice, and for its relation and the inverse."""
    scene = second_snapshot(BASE)
    assert scene.method.state()["facts.entity"].tolist() == [2, 2, 3, 3, 0]
    assert scene.method.state()["facts.relation"].tolist() == [3, 3, 2, 2]
    scene.method.end(scene.model, SECOND)
    together = Parameters.from_named(scene.method.state(), "facts")
    assert together.entity.tolist() == [
        len(paper.facts_of_entity(e, PAST + NEW)) for e in EVERY_ENTITY
    ]
    assert together.relation.tolist() == [
        len(paper.facts_of_relation(r, PAST + NEW)) for r in EVERY_RELATION
    ]
    assert together.entity.tolist() == [6, 6, 4, 3, 0, 2, 1, 1, 0, 1]
    assert scene.method.carried_bytes() == 4 * (10 + 6)


def test_counts_that_were_loaded_weigh_as_those_that_were_counted() -> None:
    counted = second_snapshot(BASE)
    loaded = Lkge(BASE)
    loaded.load_state({"facts.entity": torch.tensor([2.0, 2, 3, 3, 0]),
                       "facts.relation": torch.tensor([3.0, 3, 2, 2])})  # fmt: skip
    model = Model(BASE)
    model.tables = counted.old.clone()
    loaded.grow(model, SECOND)
    loaded.begin(model, SECOND)
    model.tables = counted.model.tables
    again = Scene(loaded, model, counted.old, counted.grown)
    every = (EVERY_ENTITY, EVERY_RELATION)
    assert penalty(again, *every)[0] == penalty(counted, *every)[0]


def test_a_snapshot_that_is_learned_leaves_no_penalty() -> None:
    scene = second_snapshot(BASE)
    scene.method.end(scene.model, SECOND)
    assert penalty(scene, EVERY_ENTITY, EVERY_RELATION)[0] == 0
