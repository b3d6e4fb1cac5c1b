"""Which known facts speak most for a fact.

A fact is trained on in both directions. Its score here is F(s, r, o) = f(s, r, o) + f(o, r⁻¹, s),
a function of the rows of s, o, r and r⁻¹. The weight of a known fact z for a fact t is

    weight = ⟨∇F(t), ∇F(z)⟩ / ‖∇F(z)‖²

over the rows that both have: how much F(t) rises with each 1 that F(z) is raised by the smallest
change of the rows of z. Facts that share no row have the weight 0. The rows are those that the
score gets. This is the first order of a training step on z (as TracIn and gradient similarity are).
Nothing is trained: it does not say what the model would be without z.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lkge.data.array_types import Doubles
from lkge.data.known_facts import KnownFacts, ranges, unpack
from lkge.data.rows import Rows
from lkge.data.snapshots import Facts
from lkge.errors import DataError, SettingsError
from lkge.models.predictor import TablePredictor
from lkge.store.contradictions import names_damage
from lkge.store.reader import Reader, ScoredFact

if TYPE_CHECKING:
    import torch

MOST_FACTS = 2_000
"""Known facts of the subject, of the object, and of the relation, that are compared at most; of
more, these are spread evenly."""

Ints = NDArray[np.int64]


class Reason(NamedTuple):
    """A known fact, its weight for another fact, and what the two share, in words."""

    subject: str
    relation: str
    object: str
    weight: float
    text: str


class Explanation(NamedTuple):
    """A fact, the known facts that speak most for it, best first, and how many were compared."""

    fact: ScoredFact
    reasons: Rows[Reason]
    compared: int


@names_damage
def explain(reader: Reader, subject: str, relation: str, object: str, k: int = 10) -> Explanation:
    """The k known facts with the greatest weights above 0 for a fact."""
    if not reader.keeps_known:
        raise DataError("an explanation needs the known facts, which this graph does not keep")
    (scored,) = reader.score([(subject, relation, object)])
    fact = _forward(reader.ids_of([(subject, relation, object)]))
    known = known_near(reader.answers, fact[0])
    rows = _rows_of(reader)
    weights = weights_of(rows, fact, known)
    best = np.argsort(-weights, kind="stable")[:k]
    best = best[weights[best] > 0]
    texts = _texts(rows, fact[0], known[best])
    names = reader.names
    reasons = Rows(
        Reason(
            names.entity_name(s), names.relation_name(r), names.entity_name(o), float(weight), text
        )
        for (s, r, o), weight, text in zip(known[best].tolist(), weights[best], texts, strict=True)
    )
    return Explanation(scored, reasons, len(known))


def known_near(answers: KnownFacts, fact: NDArray[np.int32]) -> Facts:
    """Known facts that share an entity or the relation with a fact (3,), which is left out; (n, 3),
    without inverses, each once."""
    subject, relation, object_ = fact.tolist()
    same_subject = answers.lookup([subject], [relation])
    same_object = answers.lookup([object_], [relation ^ 1])
    subjects = _spread(answers.subjects_of(relation))
    parts = [
        *(same_subject, same_object, answers.spans_of(fact[[0]]), answers.spans_of(fact[[2]])),
        answers.lookup(subjects, np.full(len(subjects), relation)),
    ]
    places = np.unique(np.concatenate([_spread(ranges(*part)) for part in parts]))
    queries, objects, _ = answers.entries(places)
    facts = np.stack([*unpack(queries), objects], axis=1).astype(np.int32)
    found = np.unique(_forward(facts), axis=0)
    others: Facts = found[(found != fact).any(axis=1)]
    return others


def weights_of(rows: TablePredictor, fact: Facts, known: Facts) -> Doubles:
    """The weight of each known fact (n, 3) for one fact (1, 3), (n,)."""
    mine, theirs = _gradients(rows, fact), _gradients(rows, known)
    shared, norms = np.zeros(len(known)), np.zeros(len(known))
    for one in (0, 2):
        for other in (0, 2):
            same = fact[0, one] == known[:, other]
            shared += same * _dot(mine[one], theirs[other])
            norms += (known[:, one] == known[:, other]) * _dot(theirs[one], theirs[other])
    for one in (1, 3):  # the relation and its inverse
        shared += (fact[0, 1] == known[:, 1]) * _dot(mine[one], theirs[one])
        norms += _dot(theirs[one], theirs[one])
    weights: Doubles = np.where(norms > 0, shared / np.maximum(norms, 1e-300), 0.0)
    return weights


def _gradients(rows: TablePredictor, facts: Facts) -> list[torch.Tensor]:
    """∂F for the rows of subject, relation, object and inverse relation, each (n, d)."""
    import torch

    from lkge.models.parameters import index

    subjects, relations, objects = index(facts, rows.entity.device).T
    with torch.enable_grad():
        parts = [
            table[ids].detach().requires_grad_()
            for table, ids in (
                (rows.entity, subjects),
                (rows.relation, relations),
                (rows.entity, objects),
                (rows.relation, relations ^ 1),
            )
        ]
        head, relation, tail, inverse = parts
        total = rows.score.score(head, relation, tail) + rows.score.score(tail, inverse, head)
        return list(torch.autograd.grad(total.sum(), parts))


def _dot(one: torch.Tensor, other: torch.Tensor) -> Doubles:
    """Inner products of rows (n, d) or (1, d), (n,)."""
    from lkge.models.parameters import host

    product: Doubles = host((one.double() * other.double()).sum(-1))
    return product


def _texts(rows: TablePredictor, fact: NDArray[np.int32], known: Facts) -> list[str]:
    """What each known fact shares with a fact, in words."""
    from torch.nn.functional import cosine_similarity

    from lkge.models.parameters import host, index

    def alike(place: int) -> list[float]:
        ids = index(known[:, place], rows.entity.device)
        mine = rows.entity[int(fact[place])][None]
        found: list[float] = host(cosine_similarity(rows.entity[ids], mine)).tolist()
        return found

    triples = zip(known.tolist(), alike(0), alike(2), strict=True)
    return [_text(fact.tolist(), *each) for each in triples]


def _text(fact: list[int], other: list[int], subjects: float, objects: float) -> str:
    subject, relation, object_ = (mine == theirs for mine, theirs in zip(fact, other, strict=True))
    if relation and object_:
        return f"same relation and object, subjects alike by {subjects:.2f}"
    if relation and subject:
        return f"same subject and relation, objects alike by {objects:.2f}"
    if relation and fact[0] == other[2] and fact[2] == other[0]:
        return "same relation in the other direction"
    if relation:
        return f"same relation, subjects alike by {subjects:.2f}, objects by {objects:.2f}"
    if {fact[0], fact[2]} == {other[0], other[2]}:
        return "another relation between the two"
    return "another fact of the " + ("subject" if fact[0] in (other[0], other[2]) else "object")


def _rows_of(reader: Reader) -> TablePredictor:
    """The rows, in torch, which has the gradients."""
    try:
        predictor = reader.torch_predictor
    except ImportError as error:
        raise SettingsError("an explanation needs torch: pip install torch") from error
    if not isinstance(predictor, TablePredictor) or predictor.subject is not None:
        raise DataError(
            f"an entity has no row of its own under the method {reader.config.method.name!r}; "
            "ask a graph that another method learns"
        )
    return predictor


def _forward(facts: Facts) -> Facts:
    """The same facts without inverse relations."""
    inverse = (facts[:, 1] % 2 == 1)[:, None]
    turned = facts[:, ::-1] ^ np.array([0, 1, 0], dtype=np.int32)
    forward: Facts = np.where(inverse, turned, facts)
    return forward


def _spread(values: NDArray[np.integer]) -> NDArray[np.integer]:
    """At most `MOST_FACTS` of some values, evenly."""
    if len(values) <= MOST_FACTS:
        return values
    return values[np.linspace(0, len(values) - 1, MOST_FACTS).astype(np.int64)]
