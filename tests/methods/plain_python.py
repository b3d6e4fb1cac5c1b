"""The paper's equations on lists and tuples, term by term, for graphs of a few facts.

A vector is a list of floats, a table a list of vectors. Facts are (subject, relation, object) and
the inverse of relation r is r ^ 1. `past` holds the training facts of all earlier snapshots, `new`
those of this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Fact = tuple[int, int, int]
Vector = list[float]
Table = list[Vector]


@dataclass
class Rows:
    """An entity table and a relation table."""

    entity: Table
    relation: Table


def both_ways(facts: Sequence[Fact]) -> list[Fact]:
    """Every fact, then every fact read backwards."""
    return list(facts) + [(o, r ^ 1, s) for s, r, o in facts]


def facts_of_entity(entity: int, facts: Sequence[Fact]) -> list[Fact]:
    """N(e): the facts with e, each read from e's side."""
    return [(s, r, o) for s, r, o in both_ways(facts) if s == entity]


def facts_of_relation(relation: int, facts: Sequence[Fact]) -> list[Fact]:
    """N(r), where the facts of r⁻¹ are those of r read backwards."""
    return [(s, r, o) for s, r, o in both_ways(facts) if r == relation]


def difference(x: Vector, y: Vector) -> Vector:
    """x - y. This is f_sub(r, o) = o - r, and f_rel(s, o) = o - s."""
    return [a - b for a, b in zip(x, y, strict=True)]


def mean_of(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
    """Σ w x / Σ w."""
    total = sum(weights)
    return [
        sum(weight * vector[i] for vector, weight in zip(vectors, weights, strict=True)) / total
        for i in range(len(vectors[0]))
    ]


def squared_length(x: Vector) -> float:
    """‖x‖₂²."""
    return sum(a * a for a in x)


def rebuilt(
    old_facts: int, old_row: Vector | None, from_neighbours: Sequence[Vector]
) -> Vector | None:
    """Eqs. (5) and (6): the old value, weighed by the number of old facts, averaged with what each
    new fact says. None without any fact."""
    vectors, weights = list(from_neighbours), [1.0] * len(from_neighbours)
    if old_facts:
        assert old_row is not None
        vectors, weights = [*vectors, old_row], [*weights, float(old_facts)]
    return mean_of(vectors, weights) if vectors else None


def rebuilt_entity(
    e: int, rows: Rows, old: Rows, past: Sequence[Fact], new: Sequence[Fact]
) -> Vector | None:
    """ē, Eq. (5)."""
    said = [difference(rows.entity[o], rows.relation[r]) for _, r, o in facts_of_entity(e, new)]
    old_row = old.entity[e] if e < len(old.entity) else None
    return rebuilt(len(facts_of_entity(e, past)), old_row, said)


def rebuilt_relation(
    r: int, rows: Rows, old: Rows, past: Sequence[Fact], new: Sequence[Fact]
) -> Vector | None:
    """r̄, Eq. (6)."""
    said = [difference(rows.entity[o], rows.entity[s]) for s, _, o in facts_of_relation(r, new)]
    old_row = old.relation[r] if r < len(old.relation) else None
    return rebuilt(len(facts_of_relation(r, past)), old_row, said)


def autoencoder_loss(
    rows: Rows,
    old: Rows,
    past: Sequence[Fact],
    new: Sequence[Fact],
    entities: Iterable[int] | None = None,
    relations: Iterable[int] | None = None,
) -> float:
    """L_MAE, Eq. (2), averaged over |E_i| entities and |R_i| relations with their inverses; given
    `entities` or `relations`, the terms of these alone."""
    entities = range(len(rows.entity)) if entities is None else entities
    relations = range(len(rows.relation)) if relations is None else relations
    total = 0.0
    for e in entities:
        mean = rebuilt_entity(e, rows, old, past, new)
        if mean is not None:
            total += squared_length(difference(rows.entity[e], mean)) / len(rows.entity)
    for r in relations:
        mean = rebuilt_relation(r, rows, old, past, new)
        if mean is not None:
            total += squared_length(difference(rows.relation[r], mean)) / len(rows.relation)
    return total


def transferred_entity(e: int, old: Rows, new: Sequence[Fact]) -> Vector | None:
    """Eq. (8), over the facts of a new entity whose relation and other entity are old."""
    said = [
        difference(old.entity[o], old.relation[r])
        for _, r, o in facts_of_entity(e, new)
        if r < len(old.relation) and o < len(old.entity)
    ]
    return mean_of(said, [1.0] * len(said)) if said else None


def transferred_relation(r: int, old: Rows, new: Sequence[Fact]) -> Vector | None:
    """Eq. (9), over the facts of a new relation whose entities are old."""
    said = [
        difference(old.entity[o], old.entity[s])
        for s, _, o in facts_of_relation(r, new)
        if s < len(old.entity) and o < len(old.entity)
    ]
    return mean_of(said, [1.0] * len(said)) if said else None


def regularization_weight(new_facts: int, old_facts: int) -> float:
    """ω, Eq. (11); a row without any fact holds no knowledge, and weighs nothing."""
    total = old_facts + new_facts
    return 1 - new_facts / total if total else 0.0


def regularization_loss(
    rows: Rows,
    old: Rows,
    past: Sequence[Fact],
    new: Sequence[Fact],
    squared: bool = False,
    entities: Iterable[int] | None = None,
    relations: Iterable[int] | None = None,
) -> float:
    """L_old, Eq. (10), summed; `squared` puts ω inside the square. Given `entities` or `relations`,
    the terms of these alone."""

    def part(
        table: Table,
        before: Table,
        facts_of: Callable[[int, Sequence[Fact]], list[Fact]],
        chosen: Iterable[int] | None,
    ) -> float:
        total = 0.0
        for x in range(len(before)) if chosen is None else chosen:
            if x >= len(before):
                continue
            weight = regularization_weight(len(facts_of(x, new)), len(facts_of(x, past)))
            moved = squared_length(difference(table[x], before[x]))
            total += (weight * weight if squared else weight) * moved
        return total

    return part(rows.entity, old.entity, facts_of_entity, entities) + part(
        rows.relation, old.relation, facts_of_relation, relations
    )


def distance(rows: Rows, fact: Fact) -> float:
    """f(s, r, o) = ‖ŝ + r̂ - ô‖₁ on rows of length one."""
    s, r, o = fact

    def unit(row: Vector) -> Vector:
        length = max(math.sqrt(squared_length(row)), 1e-12)
        return [x / length for x in row]

    parts = zip(unit(rows.entity[s]), unit(rows.relation[r]), unit(rows.entity[o]), strict=True)
    return sum(abs(a + b - c) for a, b, c in parts)


def margin_loss(rows: Rows, facts: Sequence[tuple[Fact, Sequence[Fact]]], margin: float) -> float:
    """L_new, Eq. (7), for facts with their negatives: distances of negatives averaged before the
    hinge, facts averaged after it."""
    total = 0.0
    for fact, negatives in facts:
        apart = sum(distance(rows, negative) for negative in negatives) / len(negatives)
        total += max(0.0, margin + distance(rows, fact) - apart)
    return total / len(facts)


def slope(loss: Callable[[Rows], float], rows: Rows, step: float = 1e-5) -> Rows:
    """The gradient of `loss` by central differences."""

    def along(table: Table, x: int, i: int) -> float:
        kept = table[x][i]
        table[x][i] = kept + step
        above = loss(rows)
        table[x][i] = kept - step
        below = loss(rows)
        table[x][i] = kept
        return (above - below) / (2 * step)

    def gradient(table: Table) -> Table:
        return [[along(table, x, i) for i in range(len(table[x]))] for x in range(len(table))]

    return Rows(gradient(rows.entity), gradient(rows.relation))
