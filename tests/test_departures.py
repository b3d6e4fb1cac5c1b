"""Each departure of `scripts/departures.py` is what it says, and several combine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from tests.backends.made import gradient_of
from tests.methods.hand_made import FIRST, NEW, SECOND
from tests.methods.inductive_graph import SNAPSHOTS, begun, course, some_batch
from tests.methods.plain_python import (
    difference,
    facts_of_entity,
    facts_of_relation,
    mean_of,
)
from tests.scripts import script_named
from torch import Tensor
from torch.nn import functional

from lkge import GrowingGraph, RunConfig, api
from lkge.methods import method_named
from lkge.methods.inductive import TRANSITION, Inductive
from lkge.models.encoders import EPSILON, Moments
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.testing import paper_config
from lkge.testing.graphs import growing_graph, train_snapshot, trained

FEW = {"dim": 16, "batch_size": 16, "learning_rate": 0.01, "max_epochs": 2}
SYSTEMS = {
    "select-on-test": "fine-tune",
    "select-on-newest": "re-train",
    "values-for-paths": "si",
    "values-for-slopes": "si",
    "signed-values-for-slopes": "si",
    "strong-damping": "si",
    "select-on-test+signed-values-for-slopes+strong-damping": "si",
    "slipped-average": "ewc",
    "from-new-facts": "lkge",
    "project-over-neighbours": "mean",
    "project-over-batch": "mean",
    "project-over-first": "mean",
    "select-on-test+project-over-neighbours": "lan",
}


@pytest.fixture(scope="module", autouse=True)
def script() -> Iterator[ModuleType]:
    with script_named("departures") as module:
        yield module


@pytest.fixture(scope="module")
def graph() -> GrowingGraph:
    return growing_graph()


def config_for(method: str) -> RunConfig:
    return paper_config(method=method).with_changes(FEW)


def test_every_departure_is_tried(script: ModuleType) -> None:
    tried = {name for departures in SYSTEMS for name in departures.split("+")}
    assert tried == set(script.DEPARTURES)


@pytest.mark.parametrize("departures", SYSTEMS)
def test_a_run_is_kept_under_the_name_of_its_departures(
    script: ModuleType,
    graph: GrowingGraph,
    departures: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = SYSTEMS[departures]
    few = [f"--set={name}={value}" for name, value in {**FEW, "max_epochs": 1}.items()]
    label = ["--label=short"] if "+" in departures else []
    options = ["--dataset=made", f"--method={method}", f"--out={tmp_path}", *few, *label]
    monkeypatch.setattr(api, "load", lambda dataset, data: graph)
    monkeypatch.setattr(sys, "argv", ["departures.py", departures, *options])
    script.main()
    (kept,) = tmp_path.iterdir()
    short = "-short" if label else ""
    assert kept.name == f"made-{method}{short}-{departures}-11.json"
    json.loads(kept.read_text("utf-8"))


def test_a_combination_applies_each(script: ModuleType, graph: GrowingGraph) -> None:
    names = "select-on-test+values-for-slopes"
    other, config = script.departed(names, graph, config_for("si"))
    assert config.method.name == "si-by-value-steps"
    for before, after in zip(graph.snapshots, other.snapshots, strict=True):
        assert np.array_equal(after.valid, before.test)
        assert np.array_equal(after.train, before.train)


@pytest.mark.parametrize(
    "names", ["values-for-slopes", "strong-damping", "slipped-average+slipped-average"]
)
def test_a_departure_about_another_system_is_refused(
    script: ModuleType, graph: GrowingGraph, names: str
) -> None:
    with pytest.raises(SystemExit, match="does not apply to ewc"):
        script.departed(names, graph, config_for("ewc"))


def test_strong_damping_is_a_setting_of_every_si(script: ModuleType, graph: GrowingGraph) -> None:
    for names, method in (("", "si"), ("values-for-slopes+", "si-by-value-steps")):
        _, config = script.departed(f"{names}strong-damping", graph, config_for("si"))
        assert (config.method.name, config.get("damping")) == (method, 0.1)


def test_an_unknown_departure_is_refused(
    monkeypatch: pytest.MonkeyPatch, script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["departures.py", "select-on-test+nothing", "--dataset=brick", "--method=si"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit):
        script.main()
    assert "there is no 'nothing'" in capsys.readouterr().err


def importance_of(name: str, graph: GrowingGraph) -> Parameters:
    """Ω after two snapshots."""
    learning = trained(graph, config_for(name))
    next(learning)
    _, _, method = next(learning)
    return Parameters.from_named(method.state(), "importance")


def test_only_signed_values_make_negative_importance_and_only_of_relations(
    graph: GrowingGraph,
) -> None:
    cut, signed = (
        importance_of(name, graph) for name in ("si-by-value-steps", "si-by-signed-value-steps")
    )
    assert (cut.relation >= 0).all()
    assert (cut.relation > 0).any()
    assert (signed.relation < 0).any()
    assert (signed.relation > 0).any()
    assert (signed.entity >= 0).all()


def test_paths_of_relations_sum_values_times_steps(graph: GrowingGraph) -> None:
    config = config_for("si-by-value-steps")
    model, method = Model(config), method_named(config.method.name)(config)
    before: list[Parameters] = []
    expected: list[Tensor] = []
    penalty, after_step = method.penalty, method.after_step

    def watched_penalty(model: Model, gradient: object) -> float:
        before.append(model.tables.clone())
        return penalty(model, gradient)  # type: ignore[arg-type]

    def watched_step(model: Model, gradient: object) -> None:
        after_step(model, gradient)  # type: ignore[arg-type]
        was, now = before[-1].relation.double(), model.tables.relation.double()
        path = expected[-1] if expected else torch.zeros_like(was)
        expected.append(path - was * (now - was))
        found = method.working_state()["path.relation"].double()
        torch.testing.assert_close(found, expected[-1], rtol=1e-3, atol=1e-6)

    method.penalty, method.after_step = watched_penalty, watched_step  # type: ignore[method-assign]
    train_snapshot(model, method, graph, 0)
    assert expected
    assert expected[-1].any()


def test_the_slip_divides_the_newest_information_alone(graph: GrowingGraph) -> None:
    config = config_for("ewc-by-slip")
    model, method = Model(config), method_named(config.method.name)(config)
    old: Parameters | None = None
    for index in range(3):
        train_snapshot(model, method, graph, index)
        found = Parameters.from_named(method.state(), "fisher")
        alone = method_named("ewc")(config)
        alone.end(model, graph.snapshots[index])
        new = Parameters.from_named(alone.state(), "fisher")
        expected = new.map(lambda now, i=index + 1: now / i)
        if old is not None:
            grown = old.grown_to(new.map(torch.zeros_like))
            expected = expected.map(lambda now, was, i=index: now + was * i, grown)
        for mine, true in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, true)
        old = found


def test_rows_are_rebuilt_from_new_facts_alone_and_entities_without_negatives() -> None:
    config = paper_config().with_changes({"method": "lkge-from-new-facts", "dim": 4})
    model, method = Model(config), method_named(config.method.name)(config)
    method.grow(model, FIRST)
    method.end(model, FIRST)
    method.grow(model, SECOND)
    method.begin(model, SECOND)
    entity, relation = (table.tolist() for table in model.tables)
    rebuilt = method._autoencoder.reconstruct(model.tables)  # type: ignore[attr-defined]
    for e in range(len(entity)):
        parts = [difference(entity[o], relation[r]) for _, r, o in facts_of_entity(e, NEW)]
        expected = torch.tensor(mean_of(parts or [[0.0] * 4], [1.0] * max(1, len(parts)))).relu()
        torch.testing.assert_close(rebuilt.entity[e], expected)
    assert (rebuilt.entity > 0).any()
    for r in range(len(relation)):
        parts = [difference(entity[o], entity[s]) for s, _, o in facts_of_relation(r, NEW)]
        expected = torch.tensor(mean_of(parts or [[0.0] * 4], [1.0] * max(1, len(parts))))
        torch.testing.assert_close(rebuilt.relation[r], expected)
    gradient = Gradient.like(model.tables)
    method._autoencoder.add_gradient(model.tables, gradient)  # type: ignore[attr-defined]
    assert all(part.touched.all() and part.values.any(dim=1).all() for part in gradient)


def moved_by_hand(method: Inductive, model: Model, tables: Parameters, over: str) -> list[Tensor]:
    """For each entity its neighbours, (m, d), each less Σ x ∘ w times its w, summed over its own
    neighbours or over those of all entities of D_1; `batch`: each as it came, and of those that
    come later every one comes alone."""
    rows = model.score.prepare_entities(tables.entity)
    directions = functional.normalize(tables.extra[TRANSITION], dim=-1)
    near, old = method.near, SNAPSHOTS[0].num_entities
    found = []
    for entity, (first, stop) in enumerate(pairwise(near.starts.tolist())):
        together = over == "first" or (over == "batch" and entity < old)
        items = slice(0, int(near.starts[old])) if together else slice(first, stop)
        products = rows[near.others[items]] * directions[near.relations[items]]
        x, w = rows[near.others[first:stop]], directions[near.relations[first:stop]]
        found.append(x - products.sum(0) * w)
    return found


def distinct(method: Inductive, moved: list[Tensor], over: str) -> Tensor:
    """One of all neighbours that are the same to the projection, (p, d)."""
    near, items = method.near, torch.cat(moved)
    if over == "neighbours":
        return items
    neighbours = zip(near.relations.tolist(), near.others.tolist(), strict=True)
    return torch.stack(list(dict(zip(neighbours, items, strict=True)).values()))


@pytest.mark.parametrize("over", ["neighbours", "batch", "first"])
def test_mean_projects_over_a_wrong_axis(over: str) -> None:
    moments: Moments | None = None
    for method, model in course(f"mean-over-{over}"):
        moved = moved_by_hand(method, model, model.tables, over)
        moments = moments or Moments.of(distinct(method, moved, over))
        scale, shift = model.tables.extra["scale"][0], model.tables.extra["shift"][0]
        served = method.inference_parameters(model).entity
        for entity, x in enumerate(moved):
            said = (x - moments.mean) / (moments.variance + EPSILON).sqrt() * scale + shift
            own = model.tables.entity[entity]
            expected = said.relu().mean(0) if len(x) else own
            torch.testing.assert_close(served[entity], expected, rtol=1e-4, atol=1e-5)


def test_lan_projects_over_neighbours() -> None:
    """Without anything that attention could tell neighbours apart by, a row is their mean."""
    for backend in ("numba", "torch"):
        method, model = begun("lan-over-neighbours", backend=backend)
        model.tables.extra["vector"].zero_()
        method._logic.implies.zero_()  # type: ignore[attr-defined]
        entities = torch.arange(4)
        rows = method.encode(model.score, model.tables, entities, torch.tensor([0, 1, 2, 3]))
        by_hand = moved_by_hand(method, model, model.tables, "neighbours")
        expected = torch.stack([by_hand[entity].mean(0) for entity in range(4)])
        torch.testing.assert_close(rows, expected)
        torch.testing.assert_close(method.vectors(model.score, model.tables, entities), expected)


def test_both_backends_of_lan_over_neighbours_agree() -> None:
    found, gradients = [], []
    for backend in ("numba", "torch"):
        method, model = begun("lan-over-neighbours", backend=backend)
        found.append(method.predictor(model).encoder.at(2).entity)  # type: ignore[attr-defined]
        gradients.append(gradient_of(method.loss(model), model.tables, some_batch())[1])
    torch.testing.assert_close(*found)
    for mine, twin in zip(*gradients, strict=True):
        torch.testing.assert_close(mine.values, twin.values)
        assert mine.values.any()
