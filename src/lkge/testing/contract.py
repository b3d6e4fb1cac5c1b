"""The contract of a method: each check is a function of the settings and raises `ContractBroken`.

A method sees no test fact, carries nothing of a retracted fact, and declares its whole state: a
resumed run ends with the same tables, bit for bit.
"""

import math
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, among, no_facts, with_inverses
from lkge.evaluation.ranking import Evaluator
from lkge.models.model import Model
from lkge.models.parameters import Parameters
from lkge.models.predictor import Predictor, View
from lkge.models.scores import SCORES
from lkge.testing import graphs
from lkge.testing.graphs import bytes_of, course_of, made_of, method_of, trained
from lkge.training import events
from lkge.training.checkpoint import Checkpoints
from lkge.training.loop import Learned, Loop
from lkge.training.trainer import restored

GRAPH = graphs.growing_graph()


class ContractBroken(AssertionError):
    """A method does not do what it owes; the message says what."""


def learns_any_growth(config: RunConfig) -> None:
    """Whatever a snapshot brings, everything has a finite row, and every query is ranked."""
    for kind, graph in graphs.difficult_graphs().items():
        place, evaluator = f"on a graph with {kind!r}", Evaluator(graph)
        for snapshot, model, method in trained(graph, config):
            for tables in (model.tables, method.inference_parameters(model)):
                _require(
                    len(tables.entity) == snapshot.num_entities
                    and len(tables.relation) == 2 * snapshot.num_relations,
                    f"{place} not everything has a row",
                )
                _require(_finite(tables), f"{place} a row is not finite")
            so_far = graph.snapshots[: snapshot.index + 1]
            row = evaluator.accuracies(method.predictor(model), snapshot.index, range(len(so_far)))
            for past, cell in zip(so_far, row, strict=True):
                for accuracy in cell.values():
                    _require(
                        accuracy.queries == 2 * len(past.test)
                        and math.isfinite(accuracy.mrr) == (len(past.test) > 0),
                        f"{place} not every query is ranked",
                    )


def is_its_hooks(config: RunConfig) -> None:
    """The loop learns just what the hooks, called in their order, learn."""
    learned, last = Loop(GRAPH, config).run(), course_of(GRAPH, config)[-1]
    _require(bytes_of(learned.tables) == last, "the loop and the hooks learn different tables")


def learns(config: RunConfig) -> None:
    """Training changes the tables."""
    before, after = Model(config), Model(config)
    method_of(config).grow(before, GRAPH.snapshots[0])
    graphs.train_snapshot(after, method_of(config), GRAPH, 0)
    _require(bytes_of(after.tables) != bytes_of(before.tables), "training changes nothing")


def follows_its_seed(config: RunConfig) -> None:
    """The seed decides every byte."""
    once, again, other = (course_of(GRAPH, config.with_changes(seed=seed)) for seed in (1, 1, 2))
    _require(once == again, "the same seed gives different tables")
    differ = all(one != another for one, another in zip(once, other, strict=True))
    _require(differ, "different seeds give the same tables")


def is_blind_to_tests(config: RunConfig) -> None:
    """Test facts have no part in learning: neither where a hook could see them, nor by evaluation
    between snapshots."""
    hidden, shown = trained(GRAPH, config), trained(GRAPH, config, with_tests=True)
    for (snapshot, model, method), (_, peeking_model, peeking) in zip(hidden, shown, strict=True):
        bare = replace(snapshot, test=no_facts())
        _require(
            bytes_of(model.tables) == bytes_of(peeking_model.tables)
            and _same(method.state(), peeking.state())
            and np.array_equal(peeking.facts(snapshot), peeking.facts(bare))
            and np.array_equal(peeking.validation(snapshot), peeking.validation(bare)),
            "a hook uses the test facts of its snapshot",
        )
    blind = made_of(*(replace(snapshot, test=no_facts()) for snapshot in GRAPH.snapshots))
    seen, unseen = (Loop(graph, config).run() for graph in (GRAPH, blind))
    _require(_learned_alike(seen, unseen), "evaluation on test facts changes what is learned")


def ranks_by_its_scores(config: RunConfig) -> None:
    """The rank of a test fact is that of its score among the scores of all candidates."""
    *_, (snapshot, model, method) = trained(GRAPH, config)
    predictor, facts = method.predictor(model), with_inverses(snapshot.test)
    parts = [(past.train, past.valid, past.test) for past in GRAPH.snapshots]
    answers = KnownFacts.build(list(map(np.concatenate, parts)))
    view = View(snapshot.num_entities, snapshot.index)
    for fact, rank in zip(facts, predictor.ranks(facts, [view], answers)[:, 0], strict=True):
        known = answers.of(int(fact[0]), int(fact[1]), view.until)
        best, worst = _rank_bounds(predictor, fact, known)
        _require(
            best <= rank <= worst,
            f"a test fact has rank {rank:g} where its score has rank {best} to {worst}: ranks "
            "depend on the answer",
        )


def _rank_bounds(predictor: Predictor, fact: Facts, known: Facts) -> tuple[int, int]:
    """The best and the worst filtered rank of a fact (3,) that rounding and ties allow."""
    subject, relation, target = map(int, fact)
    scores = predictor.candidate_scores(subject, relation).astype(np.float64)
    slack = 1e-5 * (1 + np.abs(scores).max())
    others = np.delete(scores, np.union1d(known, [target]))
    return (
        1 + int((others > scores[target] + slack).sum()),
        1 + int((others >= scores[target] - slack).sum()),
    )


def declares_what_it_carries(config: RunConfig) -> None:
    """With its tables and its `state` alone, a method goes on to the same bytes."""
    for index in (1, 2):
        course = trained(GRAPH, config)
        for _ in range(index):
            _, model, method = next(course)
        state = _copied(method.state())
        heir = method_of(config)
        heir.load_state(_copied(state))
        _require(_same(heir.state(), state), "`load_state` does not take back what `state` gave")
        size = sum(len(tensor.numpy().tobytes()) for tensor in state.values())
        sizes = {heir.carried_bytes(), method.carried_bytes()}
        _require(sizes == {size}, "the size of what is carried is wrong")
        successor = Model(config)
        successor.tables = model.tables.clone()
        graphs.train_snapshot(successor, heir, GRAPH, index)
        _, model, method = next(course)
        _require(
            bytes_of(successor.tables) == bytes_of(model.tables)
            and bytes_of(heir.inference_parameters(successor))
            == bytes_of(method.inference_parameters(model))
            and _same(heir.state(), method.state()),
            "something is carried that `state` does not declare",
        )


def resumes_within_a_snapshot(config: RunConfig) -> None:
    """A run that is interrupted after an epoch and resumed has the same losses in every epoch, and
    ends with the same bytes."""
    expected, losses = _Losses(), _Losses()
    whole = Loop(GRAPH, config, listener=expected).run()
    with tempfile.TemporaryDirectory() as folder:
        for losses.interrupted in (0, 1, None):
            with suppress(_Interruption):
                resumed = Loop(GRAPH, config, Checkpoints(Path(folder)), losses, 0.0).run()
    _require(
        losses == expected and _learned_alike(resumed, whole),
        "a resumed run learns something else: what a snapshot needs is neither in `state` nor in "
        "`working_state`",
    )


class _Interruption(BaseException):
    """Ends a run."""


class _Losses(dict[tuple[int, int], float]):
    """A listener: the loss of each epoch by snapshot and number. It ends the run at the second
    epoch of the snapshot `interrupted`, before that epoch is saved."""

    interrupted: int | None = None

    def __call__(self, event: events.Event) -> None:
        if not isinstance(event, events.EpochFinished):
            return
        if (event.snapshot, event.epoch) == (self.interrupted, 2):
            raise _Interruption
        self[event.snapshot, event.epoch] = event.loss


def answers_when_restored(config: RunConfig) -> None:
    """What was saved answers as what was learned."""
    learned = Loop(GRAPH, config).run()
    model, method = restored(config, learned.tensors())
    for relation in GRAPH.vocabulary.relations:
        mine, theirs = (
            predictor.with_names(GRAPH.vocabulary).top_k("entity 0", relation, 30)
            for predictor in (learned.predictor, method.predictor(model))
        )
        _require(mine == theirs, "a restored model gives other answers")


def carries_rows_if_it_says_so(config: RunConfig) -> None:
    """With partial updates, all that a method learns is a row for each entity and relation."""
    if not method_of(config).supports_partial_updates:
        return
    for _, model, method in trained(GRAPH, config):
        _require(not model.tables.extra, "a method with partial updates learns more than rows")
        for name, rows in method.state().items():
            kind = name.rpartition(".")[2]
            _require(
                kind in ("entity", "relation") and len(rows) == len(getattr(model.tables, kind)),
                f"partial updates need a row for each entity or relation, and {name!r} has not",
            )


def can_retract(config: RunConfig) -> None:
    """After a retraction of facts that it has learned, a method goes on to finite rows."""
    course = trained(GRAPH, config)
    _, model, method = next(course)
    method.retract(GRAPH.snapshots[0].train[:5])
    _, model, method = next(course)
    _require(_finite(model.tables), "after a retraction a row is not finite")


def drops_retracted_facts(config: RunConfig) -> None:
    """Facts, ids and counts in `state` are, after a retraction, those of a method that has never
    learned the retracted facts; and the method does not train on them again.

    Facts, ids and counts are the tensors of whole numbers, compared in any order. What training
    leaves behind (parameters, Fisher information, the optimizer's state) is not compared.
    """
    first, second, *rest = GRAPH.snapshots
    retracted, kept = first.train[:5], first.train[5:]
    _, model, method = next(trained(GRAPH, config))
    never = made_of(replace(first, train=kept), second, *rest)
    _, _, other = next(trained(never, config))
    method.retract(retracted)
    expected, steps = other.state(), (method.optimizer_state() or {}).values()
    for name, tensor in method.state().items():
        if any(torch.equal(tensor, part) for part in steps):
            continue
        if _whole(tensor) and name in expected and _whole(expected[name]):
            _require(
                torch.equal(tensor.flatten().sort().values, expected[name].flatten().sort().values),
                f"after a retraction {name!r} of `state` still holds something of the facts",
            )
    method.grow(model, replace(second, test=no_facts()))
    method.begin(model, replace(second, test=no_facts()))
    again = np.concatenate([method.facts(second), method.validation(second)])
    is_again = among(retracted, again).any()
    _require(not is_again, "retracted facts are trained on or validated again")


def _whole(tensor: Tensor) -> bool:
    """Whether all values are whole numbers, as ids and counts are."""
    return bool(torch.equal(tensor, tensor.round()) if tensor.is_floating_point() else True)


def learns_alike_on_both_backends(config: RunConfig) -> None:
    """Kernels and torch agree within what rounding does in a few steps, which is far less than
    what learning does."""
    gentle = config.with_changes(max_epochs=2, learning_rate=0.001)
    fused, plain = (
        trained(GRAPH, gentle.with_changes(backend=backend)) for backend in ("numba", "torch")
    )
    for (_, model, _), (_, twin, _) in zip(fused, plain, strict=True):
        for table, other in zip(model.tables, twin.tables, strict=True):
            alike = torch.allclose(table, other, rtol=0, atol=1e-4)
            _require(alike, "the backends learn different tables")


CHECKS: tuple[Callable[[RunConfig], None], ...] = (
    learns_any_growth,
    is_its_hooks,
    learns,
    follows_its_seed,
    is_blind_to_tests,
    ranks_by_its_scores,
    declares_what_it_carries,
    resumes_within_a_snapshot,
    answers_when_restored,
    carries_rows_if_it_says_so,
    can_retract,
    drops_retracted_facts,
    learns_alike_on_both_backends,
)


def check_method(name: str) -> None:
    """All checks of a registered method, each with two score functions; all scores have turns."""
    scores = list(SCORES)
    for turn, check in enumerate(CHECKS):
        for score in {scores[0], scores[1 + turn % (len(scores) - 1)]}:
            check(graphs.config_for(name, score))


def _require(holds: bool, complaint: str) -> None:
    if not holds:
        raise ContractBroken(complaint)


def _finite(tables: Parameters) -> bool:
    return all(bool(torch.isfinite(table).all()) for table in tables)


def _learned_alike(one: Learned, other: Learned) -> bool:
    """Whether two runs end with the same tables and the same state."""
    same_state = _same(one.method.state(), other.method.state())
    return bytes_of(one.tables) == bytes_of(other.tables) and same_state


def _copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}


def _same(state: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether two states have the same tensors."""
    return state.keys() == other.keys() and all(torch.equal(state[k], other[k]) for k in state)
