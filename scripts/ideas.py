"""Ideas that evergreen does without, each beside what it does: are they good for something?

    python scripts/ideas.py ENTITY as-it-is at-random pulled shifted --data dataset.zip

as-it-is        evergreen
at-random       new rows begin at random, not by transfer; so they do in all that follows
pulled          old rows are pulled to where they were, by α·(old facts of the row) / |D_i|, α = 1
lightly-pulled  the same with α = 0.1
pulled-by-sums  as pulled, and each coordinate by its share of Adagrad's sums in its row
least-squares   the row of a new entity begins where its facts with old rows score what old facts
                do, as nearly as can be
shifted         when all is learned, entities of the last snapshot get something added to each of
                their scores: a row for every shift

Each idea is a run, but that `shifted` has one for all its rows. The table has the MRR of the last
model and backward transfer on all validation facts, in both protocols, and forward transfer; test
facts have no part in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from forgetting import VIEWS, Witness
from parts import parser_of
from torch import Tensor

from lkge import GrowingGraph, api
from lkge.config import configure
from lkge.data.snapshots import Facts, Snapshot, with_inverses
from lkge.learning.loop import Loop
from lkge.methods import Method, register
from lkge.methods.evergreen import Evergreen
from lkge.methods.parts.anchor import Anchor, held
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import TablePredictor

HEAD = """| {} | MRR, `paper` | `current` | BWT, `paper` | `current` | FWT |
| --- | ---: | ---: | ---: | ---: | ---: |"""
PROTOCOLS = ("paper", "current")
ASKED = 2000
"""Old questions that tell what old facts score."""
SHIFTS = (-2.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0)


class Pulled(Evergreen):
    """Old rows are told and pulled as well."""

    strength: ClassVar[float] = 1.0

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """See how hard each row is pulled."""
        super().begin(model, snapshot)
        self._anchor: Anchor | None = held(
            model.tables, self._pull(), self.strength / max(1, len(snapshot.train))
        )

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """That of evergreen, and the pull."""
        loss = super().penalty(model, gradient)
        if self._anchor is not None:
            loss += self._anchor.add_gradient(model.tables, gradient, model.backend)
        return loss

    def _pull(self) -> Parameters:
        """How many facts each row had, (k, 1)."""
        return self._past.map(lambda counts: counts[:, None])


class LightlyPulled(Pulled):
    """By a tenth of that."""

    strength: ClassVar[float] = 0.1


class PulledBySums(Pulled):
    """A coordinate with steep gradients more than others of its row."""

    def _pull(self) -> Parameters:
        """How many facts each row had, times what each coordinate has of its sums, (k, d)."""
        counts = super()._pull()
        if not self._optimizer:
            return counts
        return counts.map(_spread, Parameters.from_named(self._optimizer, "sums"))


class LeastSquares(Evergreen):
    """New rows begin where they fit their facts best."""

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Draw new rows, then set those of entities that have facts with old rows."""
        super().grow(model, snapshot)
        if self._heart is None or not len(self._profile.counts):
            return
        places = np.arange(len(self._profile.counts))[:: 1 + len(self._profile.counts) // ASKED]
        told = torch.from_numpy(self._heart.told(self._profile, places)).long()
        heads, relations, tails = told.T
        old = self._old
        wanted = model.score.score(old.entity[heads], old.relation[relations], old.entity[tails])
        rows, facing = _facing(model, snapshot.train, old)
        fitted, values = fit(rows, facing, float(wanted.mean()))
        model.tables.entity[fitted] = values


IDEAS: Mapping[str, type[Evergreen]] = {
    "as-it-is": Evergreen,
    "at-random": Evergreen,
    "pulled": Pulled,
    "lightly-pulled": LightlyPulled,
    "pulled-by-sums": PulledBySums,
    "least-squares": LeastSquares,
    "shifted": Evergreen,
}


def fit(rows: Tensor, facing: Tensor, wanted: float) -> tuple[Tensor, Tensor]:
    """The distinct rows (m,), and for each the x (d,) with the least
    Σ over its facts of (x·v - wanted)² + ρ‖x‖², where ρ is the mean of ‖v‖²; `facing` has the v
    (k, d) of the facts of `rows` (k,)."""
    order = torch.argsort(rows, stable=True)
    distinct, counts = torch.unique_consecutive(rows[order], return_counts=True)
    ridge = facing.square().sum(1).mean() * torch.eye(facing.shape[1])
    values = [
        torch.linalg.solve(part.T @ part + ridge, wanted * part.sum(0))
        for part in facing[order].split(counts.tolist())
    ]
    return distinct, torch.stack(values) if values else facing.new_zeros(0, facing.shape[1])


def shifted(predictor: TablePredictor, first: int, shift: float) -> TablePredictor:
    """The same, but that each score of an entity from `first` on has something added: one more
    coordinate, which is 1 wherever a question is asked."""
    asking, relation = (_wider(table, 1.0) for table in (predictor.entity, predictor.relation))
    answering = _wider(predictor.entity, 0.0)
    answering[first:, answering.shape[1] // 2 - 1] = shift
    return replace(predictor, entity=answering, relation=relation, subject=asking)


def rows(graph: GrowingGraph, idea: str, seed: int, max_epochs: int) -> Iterator[str]:
    """The rows of an idea in the table."""
    graph = asked_of_validation(graph)
    found: list[TablePredictor] = []

    class Watched(IDEAS[idea]):  # type: ignore[misc]
        name: ClassVar[str] = f"watched-{idea}"

        def end(self, model: Model, snapshot: Snapshot) -> None:
            super().end(model, snapshot)
            found.append(self.predictor(model))

    method: type[Method] = register(Watched)
    changes = {
        "method": method.name,
        "seed": seed,
        "max_epochs": max_epochs,
        "transfer": idea == "as-it-is",
    }
    results = Loop(graph, configure(changes, preset="evergreen")).run().results
    if idea == "shifted":
        yield from _shifted_rows(graph, found)
    else:
        both = [results.protocols[name] for name in PROTOCOLS]
        figures = [*(each.final.mrr for each in both), *(each.bwt for each in both), both[0].fwt]
        yield _row(idea, figures)


def asked_of_validation(graph: GrowingGraph) -> GrowingGraph:
    """The same, but that its test facts are its validation facts."""
    snapshots = tuple(replace(each, test=each.valid) for each in graph.snapshots)
    return replace(graph, snapshots=snapshots)


def _shifted_rows(graph: GrowingGraph, found: Sequence[TablePredictor]) -> Iterator[str]:
    """A row for each shift of the last model."""
    witness, newcomers = Witness(graph), graph.snapshots[-2].num_entities
    for predictor, snapshot in zip(found, graph.snapshots, strict=True):
        witness.look(predictor, snapshot)
    for shift in SHIFTS:
        witness.look(shifted(found[-1], newcomers, shift), graph.snapshots[-1])
        mrr, asked = witness.mrr(), witness.asked()
        places = [0, len(VIEWS) - 1]
        changes = [
            float(np.mean([(each.last - each.first)[:, place].mean() for each in asked]))
            for place in places
        ]
        yield _row(f"shifted by {shift:+g}", [*(float(mrr[place]) for place in places), *changes])


def _row(name: str, figures: Sequence[float]) -> str:
    """MRR and BWT in both protocols, and FWT where it is known."""
    cells = [f"{figure:{'.4f' if place < 2 else '+.4f'}}" for place, figure in enumerate(figures)]
    return f"| {' | '.join([name, *cells, *[''] * (5 - len(cells))])} |"


def _spread(counts: Tensor, sums: Tensor) -> Tensor:
    """Counts (k, 1) times each coordinate's share of its row of sums (n, d), 1 in the mean."""
    known = sums[: len(counts)]
    return counts * known / known.mean(dim=1, keepdim=True).clamp(min=1e-12)


def _facing(model: Model, facts: Facts, old: Parameters) -> tuple[Tensor, Tensor]:
    """Of the facts of new entities e with old r and o: the e (k,), and the v (k, d) with
    f(e, r, o) = e·v."""
    subjects, relations, objects = torch.from_numpy(with_inverses(facts)).long().T
    wanted = (
        (subjects >= len(old.entity))
        & (relations < len(old.relation))
        & (objects < len(old.entity))
    )
    score = model.score
    assert score.is_bilinear
    facing = score.towards(old.relation[relations[wanted]], old.entity[objects[wanted]])
    return subjects[wanted], facing


def _wider(table: Tensor, value: float) -> Tensor:
    """A table with one more complex coordinate, which is a real number."""
    real, imaginary = table.chunk(2, dim=1)
    more = torch.full((len(table), 1), value)
    return torch.cat([real, more, imaginary, torch.zeros_like(more)], dim=1)


def main() -> None:
    """Learn with each idea, and print the table as it grows."""
    options = parser_of(__doc__, "ideas", IDEAS).parse_args()
    graph = api.load(options.dataset, options.data)
    print(HEAD.format(graph.name), flush=True)
    for idea in options.ideas:
        for row in rows(graph, idea, options.seed, options.max_epochs):
            print(row, flush=True)


if __name__ == "__main__":
    main()
