"""EMR trains on the new facts and those it remembers."""

from __future__ import annotations

from lkge.methods.memory import Emr
from lkge.testing.graphs import config_for, growing_graph, trained

GRAPH = growing_graph()


def test_old_facts_are_learned_together_with_new_ones() -> None:
    course = trained(GRAPH, config_for("emr", memory_size=10))
    _, _, method = next(course)
    assert isinstance(method, Emr)
    remembered = method.memory.facts.tolist()
    learned = GRAPH.snapshots[0].train.tolist()
    assert len(remembered) == 10
    assert all(fact in learned for fact in remembered)
    second = GRAPH.snapshots[1]
    assert method.facts(second).tolist() == second.train.tolist() + remembered
    assert method.carried_bytes() == 10 * (3 + 1) * 4

    next(course)
    kept = [fact for fact in method.memory.facts.tolist() if fact in remembered]
    fresh = [fact for fact in method.memory.facts.tolist() if fact in second.train.tolist()]
    assert (len(kept), len(fresh)) == (5, 5)
