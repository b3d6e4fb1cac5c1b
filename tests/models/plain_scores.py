"""Scores and losses on lists, term by term, for graphs of a few facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tests.methods.plain_python import Fact, Rows, Vector

Score = Callable[[Vector, Vector, Vector], float]


def distmult(head: Vector, relation: Vector, tail: Vector) -> float:
    """Σ h r t."""
    return sum(h * r * t for h, r, t in zip(head, relation, tail, strict=True))


def complex_numbers(row: Vector) -> list[complex]:
    """The first half are real parts, the second half imaginary parts."""
    half = len(row) // 2
    return [complex(a, b) for a, b in zip(row[:half], row[half:], strict=True)]


def complex_score(head: Vector, relation: Vector, tail: Vector) -> float:
    """Re Σ h r t̄."""
    rows = (complex_numbers(row) for row in (head, relation, tail))
    return sum((h * r * t.conjugate()).real for h, r, t in zip(*rows, strict=True))


def transe(head: Vector, relation: Vector, tail: Vector) -> float:
    """-Σ |ĥ + r̂ - t̂| on rows of length one."""
    units = ([x / math.hypot(*row) for x in row] for row in (head, relation, tail))
    return -sum(abs(h + r - t) for h, r, t in zip(*units, strict=True))


SCORES: dict[str, Score] = {"distmult": distmult, "complex": complex_score, "transe": transe}


def surprise(scores: Sequence[float], right: int, smoothing: float = 0.0) -> float:
    """-Σ y log softmax(scores), y = (1 - ε) on the right one and ε/n on each."""
    log_sum = math.log(sum(math.exp(score) for score in scores))
    mean = sum(scores) / len(scores)
    return log_sum - (1 - smoothing) * scores[right] - smoothing * mean


def softmax_loss(score: Score, rows: Rows, facts: Sequence[Fact], smoothing: float = 0.0) -> float:
    """Over all entities, averaged over facts."""
    total = 0.0
    for s, r, o in facts:
        scores = [score(rows.entity[s], rows.relation[r], tail) for tail in rows.entity]
        total += surprise(scores, o, smoothing)
    return total / len(facts)


def relation_loss(score: Score, rows: Rows, facts: Sequence[Fact]) -> float:
    """Over all relations, averaged over facts."""
    total = 0.0
    for s, r, o in facts:
        scores = [score(rows.entity[s], between, rows.entity[o]) for between in rows.relation]
        total += surprise(scores, r)
    return total / len(facts)


def row_penalty(
    sizes: Callable[[Vector], list[float]], rows: Rows, facts: Sequence[Fact], n3: float, l2: float
) -> float:
    """n3 Σ |x|³ + l2 Σ |x|² over the three rows of a fact, averaged over facts."""
    total = 0.0
    for s, r, o in facts:
        for row in (rows.entity[s], rows.relation[r], rows.entity[o]):
            total += sum(n3 * size**3 + l2 * size**2 for size in sizes(row))
    return total / len(facts)
