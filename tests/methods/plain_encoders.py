"""MEAN's and LAN's encoders on lists and tuples, one entity at a time, and their margin loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.methods.plain_python import Fact, Table, Vector

from lkge.data.batches import Batch
from lkge.methods.neighbours import Neighbourhoods

Pair = tuple[int, int]
Near = list[list[Pair]]
"""The neighbours (r, o) of each entity."""
EPSILON = 1e-5


class Moments(NamedTuple):
    mean: Vector
    variance: Vector


def listed(near: Neighbourhoods) -> Near:
    """Neighbourhoods as lists."""
    starts, relations, others = near.starts.tolist(), near.relations.tolist(), near.others.tolist()
    pairs = list(zip(relations, others, strict=True))
    return [pairs[a:b] for a, b in pairwise(starts)]


def dot(x: Vector, y: Vector) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def unit(x: Vector) -> Vector:
    length = math.sqrt(dot(x, x))
    return [a / max(length, 1e-12) for a in x]


def transition(pair: Pair, entity: Table, directions: Table) -> Vector:
    """T_r(x_o) for (r, o)."""
    relation, other = pair
    x, w = unit(entity[other]), unit(directions[relation])
    along = dot(x, w)
    return [a - along * b for a, b in zip(x, w, strict=True)]


def moments_of(pairs: Iterable[Pair], entity: Table, directions: Table) -> Moments:
    """Mean and variance of T over the distinct pairs."""
    columns = list(zip(*(transition(pair, entity, directions) for pair in set(pairs)), strict=True))
    means = [sum(column) / len(column) for column in columns]
    return Moments(
        means,
        [
            sum((x - mean) ** 2 for x in column) / len(column)
            for column, mean in zip(columns, means, strict=True)
        ],
    )


def mean_row(of: int, near: Near, moments: Moments, tables: dict[str, Table]) -> Vector:
    """MEAN: the mean over neighbours of ReLU(BN(T))."""
    entity, directions = tables["entity"], tables["transition"]
    (scale,), (shift,) = tables["scale"], tables["shift"]
    if not near[of]:
        return entity[of]
    total = [0.0] * len(entity[0])
    for pair in near[of]:
        moved = transition(pair, entity, directions)
        for i, x in enumerate(moved):
            normal = (x - moments.mean[i]) / math.sqrt(moments.variance[i] + EPSILON)
            total[i] += max(0.0, scale[i] * normal + shift[i])
    return [x / len(near[of]) for x in total]


def implied(p: int, q: int, edges: Sequence[Sequence[int]]) -> float:
    """P(p ⇒ q): of the entities with p, the share that has q."""
    with_p = {s for s, r, _ in edges if r == p}
    with_q = {s for s, r, _ in edges if r == q}
    return len(with_p & with_q) / len(with_p) if with_p else 0.0


def discount(p: int, relations: set[int], implies: Table, least: float) -> float:
    """The largest P(u ⇒ p) over the other relations of an entity."""
    return max([least, *(implies[u][p] for u in relations if u != p)])


def lan_weights(
    of: int, query: int, near: Near, implies: Table, least: float, tables: dict[str, Table]
) -> Vector:
    """LAN: the weight of each neighbour of an entity, for a query relation."""
    relations = {relation for relation, _ in near[of]}
    logic = [implies[p][query] / discount(p, relations, implies, least) for p, _ in near[of]]
    projected = [dot(row, tables["query"][query]) for row in tables["from_query"]]
    exponentials = []
    for pair in near[of]:
        moved = transition(pair, tables["entity"], tables["transition"])
        key = [dot(row, moved) for row in tables["from_neighbour"]]
        squashed = [math.tanh(a + b) for a, b in zip(projected, key, strict=True)]
        exponentials.append(math.exp(dot(tables["vector"][0], squashed)))
    learned = [e / sum(exponentials) for e in exponentials]
    if not sum(logic):
        return learned
    return [(a / sum(logic) + b) / 2 for a, b in zip(logic, learned, strict=True)]


def lan_row(
    of: int, query: int, near: Near, implies: Table, least: float, tables: dict[str, Table]
) -> Vector:
    """LAN: the weighted sum of what the neighbours say."""
    entity, directions = tables["entity"], tables["transition"]
    if not near[of]:
        return entity[of]
    total = [0.0] * len(entity[0])
    weights = lan_weights(of, query, near, implies, least, tables)
    for pair, weight in zip(near[of], weights, strict=True):
        for i, x in enumerate(transition(pair, entity, directions)):
            total[i] += weight * x
    return total


def entities_of(batch: Batch) -> set[int]:
    """Every entity that a batch names."""
    return {*batch.facts[:, 0].tolist(), *batch.facts[:, 2].tolist()} | {
        *batch.corruptions.ravel().tolist()
    }


def margin_loss(
    batch: Batch, relation: Table, margin: float, row: Callable[[int, int], Vector]
) -> float:
    """The mean margin loss of TransE, with `row` giving an entity as a query relation sees it."""

    def distance(fact: Fact) -> float:
        s, r, o = fact
        head, way, tail = unit(row(s, r)), unit(relation[r]), unit(row(o, r ^ 1))
        return sum(abs(a + b - c) for a, b, c in zip(head, way, tail, strict=True))

    total = 0.0
    for b, (s, r, o) in enumerate(batch.facts.tolist()):
        negatives = [
            distance((s, r, entity) if on_object else (entity, r, o))
            for entity, on_object in zip(
                batch.corruptions[b].tolist(), batch.corrupt_object[b].tolist(), strict=True
            )
        ]
        mean = sum(negatives) / len(negatives)
        total += max(0.0, margin + distance((s, r, o)) - mean)
    return total / len(batch)
