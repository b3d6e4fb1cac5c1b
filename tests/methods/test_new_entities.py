"""Known queries as negatives of new entities."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lkge.data.history import History
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import with_inverses
from lkge.methods.new_entities import NewEntityNegatives
from lkge.models.model import xavier_parameters
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import ComplEx, Score, TransE

OLD, NEW, RELATIONS, DIM = 12, 3, 2, 6
GENERATOR = np.random.default_rng(4)
FACTS = np.unique(GENERATOR.integers(0, [OLD, 1, OLD], (40, 3)).astype(np.int32), axis=0)
TABLES = xavier_parameters(OLD + NEW, RELATIONS, DIM, GENERATOR)


def negatives(score: Score, facts: int = 3000, candidates: int = OLD) -> NewEntityNegatives:
    history = History(KnownFacts.build([FACTS]))
    return NewEntityNegatives(score, history, OLD, OLD, facts, candidates, weight=2.5)


def gradient_of(term: NewEntityNegatives, tables: Parameters = TABLES, seed: int = 0) -> Gradient:
    gradient = Gradient.like(tables)
    term.add_gradient(tables, gradient, np.random.default_rng(seed))
    return gradient


@pytest.mark.parametrize("score", [ComplEx(), TransE()])
def test_the_gradient_is_that_of_the_softmax_over_all_old_candidates(score: Score) -> None:
    """A plain twin: each query's probability of a new entity, among all entities and once more the
    object of the fact."""
    rows = TABLES.entity.clone().requires_grad_()
    total = torch.zeros(())
    entities, relations = score.prepare_entities(rows), score.prepare_relations(TABLES.relation)
    edges = with_inverses(FACTS)
    for head, relation, tail in edges.tolist():
        scores = [score.score(entities[head], relations[relation], other) for other in entities]
        others = torch.stack([*scores[:OLD], scores[tail]]).detach()
        total = total + torch.logsumexp(torch.cat([others, torch.stack(scores[OLD:])]), dim=0)
    (wanted,) = torch.autograd.grad(2.5 * total / len(edges), [rows])
    found = gradient_of(negatives(score))
    own = torch.zeros(OLD + NEW, DIM)  # the twin's queries move with the rows of their heads
    own[OLD:] = wanted[OLD:]
    torch.testing.assert_close(found.entity.values, own, rtol=1e-4, atol=1e-6)
    assert found.entity.rows().tolist() == list(range(OLD, OLD + NEW))
    assert not len(found.relation.rows())


def test_fewer_candidates_estimate_the_same() -> None:
    whole = gradient_of(negatives(ComplEx())).entity.values[OLD:]
    drawn = [
        gradient_of(negatives(ComplEx(), facts=20, candidates=6), seed=n).entity.values[OLD:]
        for n in range(300)
    ]
    mean = torch.stack(drawn).mean(0)
    assert float((mean - whole).norm() / whole.norm()) < 0.1


def test_entities_outside_of_the_tables_count() -> None:
    """Old entities like those in the tables, ten for each, take most of the probability."""
    whole, part = gradient_of(negatives(ComplEx())), negatives(ComplEx())
    among_more = gradient_of(replace(part, num_old=10 * OLD))
    share = among_more.entity.values[OLD:].norm() / whole.entity.values[OLD:].norm()
    assert 0.1 < float(share) < 0.2


def test_steps_take_the_scores_of_new_entities_down() -> None:
    """A new entity with a row like that of a common answer is ranked before old answers; after some
    steps it is not."""
    score = ComplEx()
    rows = TABLES.entity.clone()
    rows[OLD:] = 3 * rows[FACTS[0, 2]]
    tables = replace(TABLES, entity=rows)

    def share() -> float:
        """The mean probability of new entities over all known queries."""
        edges = torch.from_numpy(with_inverses(FACTS)).long()
        queries = score.compose(rows[edges[:, 0]], tables.relation[edges[:, 1]])
        return float((queries @ rows.T).softmax(1)[:, OLD:].sum(1).mean())

    before = share()
    for seed in range(60):
        gradient = gradient_of(negatives(score, facts=20), tables, seed)
        rows[OLD:] -= 100 * gradient.entity.values[OLD:]
    assert share() < 0.85 * before


def test_without_known_facts_nothing_happens() -> None:
    none = History(KnownFacts.build([]))
    gradient = gradient_of(replace(negatives(ComplEx()), history=none))
    assert not len(gradient.entity.rows())
