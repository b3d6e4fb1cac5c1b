"""A graph that lives: what is added is learned, what is old stays, and nothing depends on luck."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store.living import QUICK, bridge, bytes_of_version, made, mrr_of, ring
from tests.training.made import made_graph

from lkge import api
from lkge.config import RunConfig
from lkge.configure import LIVING, PRESETS, configure, from_tree, with_method
from lkge.data.formats import Triple
from lkge.data.snapshots import no_facts
from lkge.errors import DataError, RunError, SettingsError, UnknownName
from lkge.living import init, open
from lkge.methods import known_methods
from lkge.models.scores import SCORES
from lkge.store import update
from lkge.store.inbox import accept, waiting
from lkge.store.reader import Reader
from lkge.store.records import StoreConfig
from lkge.store.subgraph import whole_graph
from lkge.store.update import Update
from lkge.testing import paper_config
from lkge.training.checkpoint import Checkpoints
from lkge.training.events import EpochFinished, Event, ignore

NEWCOMERS = [*ring(40, 50), *bridge(0, 40, 10)]


class Unplugged(BaseException):
    """Stands for whatever ends a process."""


def living_config(method: str) -> RunConfig:
    """As `lkge init --method` has them."""
    return configure({"method": method}, living=True)


def by_section(config: RunConfig, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes by `section.name`."""
    return {".".join(config.place(key)): value for key, value in changes.items()}


def test_what_is_added_can_be_asked_about(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG")
    record = graph.add(NEWCOMERS, valid=0.1)
    assert graph.version == record.version == 2
    assert (record.facts, record.new_entities, record.new_relations) == (40, 10, 0)
    assert (record.entities, record.relations, record.known_facts) == (50, 3, 160)
    answers = graph.predict(subject="person 45", relation="knows 1", k=50)
    assert len(answers) == 49  # all but person 45
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    known = {a.entity for a in answers if a.known}
    assert known == {"person 46", "person 5"}
    scored = graph.score([("person 45", "knows 1", a.entity) for a in answers])
    assert [a.plausibility for a in answers] == pytest.approx([f.plausibility for f in scored])
    backwards = graph.predict(relation="knows 1", object="person 46", k=1, new_only=True)
    assert not backwards[0].known
    assert graph.reader.neighbourhood("person 45")[0].since == 2


def test_it_learns_what_it_is_taught(tmp_path: Path) -> None:
    """Known facts are more plausible than made up ones."""
    graph = made(tmp_path / "KG", max_epochs=150, dim=24, learning_rate=0.01, patience=150)
    true = graph.score(ring(0, 40))
    false = graph.score(
        [(s, r, f"person {(k * 7 + 11) % 40}") for k, (s, r, _) in enumerate(ring(0, 40))]
    )
    assert np.mean([f.plausibility for f in true]) > 0.7
    assert np.mean([f.plausibility for f in false if not f.known]) < 0.4
    assert graph.log()[-1].mrr_new > 0.2


def test_each_version_is_calibrated_the_same_way_and_keeps_its_calibration(tmp_path: Path) -> None:
    first, second = (made(tmp_path / name) for name in "ab")
    calibration = first.reader.calibration
    assert calibration.is_known
    assert calibration.facts == len(first.reader.hold_out)
    assert calibration == second.reader.calibration
    first.add(NEWCOMERS, valid=0.5)
    assert first.reader.calibration.facts > calibration.facts
    assert first.reader.calibration != calibration
    first.rollback(1)
    assert open(tmp_path / "a").reader.calibration == calibration


def test_a_calibration_among_a_sample_of_the_candidates(tmp_path: Path) -> None:
    graph = init(tmp_path / "KG", store_config=StoreConfig(evaluation_candidates=10), **QUICK)
    graph.add(ring(0, 200), valid=0.1)
    assert graph.log()[-1].candidates < 200
    assert graph.reader.calibration.is_known


def test_few_held_out_facts_are_not_enough_to_calibrate(tmp_path: Path) -> None:
    graph = init(tmp_path / "KG", **QUICK)
    assert not graph.reader.calibration.is_known
    graph.add(ring(0, 40), valid=0.05)
    assert 0 < len(graph.reader.hold_out) < 10
    assert not graph.reader.calibration.is_known
    answers = graph.predict(subject="person 3", relation="knows 1", k=40)
    assert max(answer.plausibility for answer in answers) < 0.27


def test_answers_in_range_are_those_of_known_facts(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG")
    graph.add([("person 1", "lives in", "Basel"), ("person 2", "lives in", "Turin")], valid=0)
    query: dict[str, Any] = {"subject": "person 9", "relation": "lives in"}
    every = graph.predict(**query, k=99)
    inside = graph.predict(**query, k=99, in_range=True)
    assert {answer.entity for answer in inside} == {"Basel", "Turin"}
    assert inside == [answer for answer in every if answer.in_range]
    people = graph.predict(relation="lives in", object="Turin", in_range=True, new_only=True)
    assert [answer.entity for answer in people] == ["person 1"]
    first, second = graph.score(
        [("person 9", "lives in", "Basel"), ("person 9", "lives in", "person 3")]
    )
    assert (first.in_range, second.in_range) == (True, False)
    unknown = init(tmp_path / "unknown", known=False, **QUICK)
    unknown.add(ring(0, 40))
    with pytest.raises(DataError, match="needs the known facts"):
        unknown.predict(subject="person 3", relation="knows 1", in_range=True)


def test_a_graph_is_evergreen_unless_a_preset_or_a_method_is_named(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({}, "living", "evergreen"),
        ({"method": "lkge"}, "living-paper", "lkge"),
        ({"preset": "living-paper"}, "living-paper", "lkge"),
        ({"preset": "living"}, "living", "evergreen"),
        ({"preset": "living", "method": "re-train"}, "living", "re-train"),
    ]
    for number, (words, preset, method) in enumerate(cases):
        graph = init(tmp_path / str(number), **words, dim=8)
        given = {key: value for key, value in PRESETS[preset].items() if graph.config.has(key)}
        default = with_method(method).with_changes(loss=graph.config.training.loss)
        expected = {**default.flat(), **by_section(graph.config, given)}
        assert graph.config.flat() == {**expected, "method.name": method, "model.dim": 8}


def test_a_preset_and_settings_stand_neither_side_by_side_nor_beside_a_run(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="preset 'paper'; leave one of them out"):
        init(tmp_path / "KG", config=paper_config(), preset="paper")
    with pytest.raises(SettingsError, match="its own settings; leave preset out"):
        init(tmp_path / "KG", run=tmp_path / "run", preset="paper")
    with pytest.raises(SettingsError, match="its own settings; leave config out"):
        init(tmp_path / "KG", run=tmp_path / "run", config=paper_config())
    assert not (tmp_path / "KG").exists()


def test_a_run_of_evergreen_goes_on_at_its_own_pace(tmp_path: Path) -> None:
    run = api.run(made_graph(), out=tmp_path / "run", dim=8, max_epochs=1, backend="torch")
    begun = init(tmp_path / "KG", run=tmp_path / "run", known=False)
    of_run = from_tree(run.results.config)
    assert begun.config == of_run.with_changes({**LIVING, "memory": "none"})
    assert not any("query_counts" in name for name in begun.reader.model_arrays)


def test_query_counts_are_kept_on_demand_and_only_where_there_is_one(tmp_path: Path) -> None:
    few = {"dim": 8, "max_epochs": 1, "backend": "torch"}
    for counted in ("generative", "none"):
        api.run(made_graph(), out=tmp_path / f"run {counted}", memory=counted, **few)
    kept = init(tmp_path / "KG", run=tmp_path / "run generative", known=False, memory="generative")
    assert len(kept.reader.model_arrays["method.query_counts.counts"])
    with pytest.raises(SettingsError, match="kept no query counts"):
        init(tmp_path / "KG2", run=tmp_path / "run none", known=False, memory="generative")


def test_the_open_version_stays_while_another_writes(tmp_path: Path) -> None:
    graph, reader = made(tmp_path / "KG"), open(tmp_path / "KG")
    before = reader.predict(subject="person 3", relation="knows 2", k=5)
    graph.add(NEWCOMERS)
    assert reader.version == 1
    assert reader.predict(subject="person 3", relation="knows 2", k=5) == before
    with pytest.raises(UnknownName):
        reader.predict(subject="person 45", relation="knows 1")
    assert reader.refresh()
    assert not reader.refresh()
    assert reader.predict(subject="person 45", relation="knows 1", k=1)


@pytest.mark.parametrize("method", sorted(known_methods()))
def test_any_method_serves(tmp_path: Path, method: str) -> None:
    graph = made(tmp_path / "KG", method=method, max_epochs=2)
    graph.add(NEWCOMERS)
    again = open(tmp_path / "KG")
    asked = {"subject": "person 44", "relation": "knows 1", "k": 5}
    assert again.predict(**asked) == graph.predict(**asked)
    assert len(graph.score(NEWCOMERS)) == len(NEWCOMERS)
    assert graph.add([], retract=NEWCOMERS[:3]).retracted == 3


@pytest.mark.parametrize("score", sorted(SCORES))
@pytest.mark.parametrize("method", ["evergreen", "lkge", "lan"])
def test_any_score_serves(tmp_path: Path, method: str, score: str) -> None:
    """Two methods answer with tables, the last with what each relation sees."""
    graph = made(tmp_path / "KG", method=method, score=score, max_epochs=2)
    record = graph.add(NEWCOMERS, valid=0.1)
    assert record.mrr_new == pytest.approx(mrr_of(graph, 2), abs=0.01)
    again = open(tmp_path / "KG")
    asked = {"subject": "person 44", "relation": "knows 1", "k": 50}
    answers = graph.predict(**asked)
    assert again.predict(**asked) == answers
    facts = [("person 44", "knows 1", answer.entity) for answer in answers]
    alone = [fact.score for fact in graph.score(facts)]
    assert [answer.score for answer in answers] == pytest.approx(alone, abs=1e-5)


def test_what_answers_are_prepared_rows(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", score="rotate")
    learned, answering = graph.reader.model_arrays, graph.reader.inference_arrays
    assert np.array_equal(answering["entity"], learned["tables.entity"])
    turns = answering["relation"].reshape(-1, 2, 4)
    assert np.hypot(turns[:, 0], turns[:, 1]) == pytest.approx(1, abs=1e-5)


def test_a_graph_of_products_learns_what_it_is_taught(tmp_path: Path) -> None:
    changes = {"dim": 32, "max_epochs": 100, "patience": 100, "learning_rate": 0.02}
    graph = made(tmp_path / "KG", score="complex", **changes)
    true = graph.score(ring(0, 40))
    false = graph.score([(s, r, "person 1") for s, r, _ in ring(0, 40)])
    assert np.mean([f.score for f in true]) > np.mean([f.score for f in false if not f.known]) + 1


PARTIAL = [
    name
    for name, method in known_methods().items()
    if method(living_config(name)).supports_partial_updates
]


@pytest.mark.parametrize("method", PARTIAL)
def test_rows_that_nobody_touched_keep_every_bit(tmp_path: Path, method: str) -> None:
    memory = {"memory": "none"} if method == "evergreen" else {}  # replay names more rows
    graph = made(tmp_path / "KG", method=method, **memory)
    config = StoreConfig(subgraph_entities=6, subgraph_entities_per_fact=0)
    graph.store_config = config
    before = {name: np.array(array) for name, array in graph.reader.model_arrays.items()}
    answered = np.array(graph.reader.inference_arrays["entity"])
    batch = accept(graph.store, bridge(0, 40, 3))
    step = Update(graph.reader, batch, config, ignore, Checkpoints(tmp_path / "unused"))
    chosen = set(step.choose(step.split(), no_facts()).ids.tolist())
    assert {0, 1, 2, 40, 41, 42} <= chosen
    assert len(chosen) < 20
    graph.learn_waiting()
    after = graph.reader.model_arrays
    others = [row for row in range(40) if row not in chosen]
    for name, array in before.items():
        if name.endswith(".entity"):
            assert np.array_equal(array[others], after[name][others])
            assert len(after[name]) == 43
    assert np.array_equal(answered[others], graph.reader.inference_arrays["entity"][others])
    if method != "pnn":
        assert not np.array_equal(before["tables.entity"], after["tables.entity"][:40])


@pytest.mark.parametrize("method", ["evergreen", "lkge"])
def test_a_pool_of_everyone_is_the_whole_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Learning on rows and learning on the whole are the same where the rows are all."""
    graphs = [made(tmp_path / name, method=method) for name in ("rows", "whole")]
    graphs[0].add(NEWCOMERS)
    monkeypatch.setattr(
        update, "choose_subgraph", lambda _, old, total, *__: whole_graph(old, total)
    )
    graphs[1].add(NEWCOMERS)
    assert bytes_of_version(graphs[0], 2) == bytes_of_version(graphs[1], 2)


def test_what_was_not_carried_before_is_zero_where_nothing_was_learned(tmp_path: Path) -> None:
    """A run that began anew with its optimizer goes on in a graph that keeps it."""
    run = {"dim": 8, "max_epochs": 1, "backend": "torch", "carry_optimizer_state": False}
    api.run(made_graph(), out=tmp_path / "run", **run)
    graph = init(tmp_path / "KG", run=tmp_path / "run", known=False, carry_optimizer_state=True)
    graph.store_config = StoreConfig(subgraph_entities=2, subgraph_entities_per_fact=0)
    name = graph.entities()[0]
    relation = graph.reader.names.relation_name(0)
    old = graph.reader.num_entities
    graph.add([(name, relation, "newcomer")])
    sums = graph.reader.model_arrays["method.optimizer.sums.entity"]
    learned = sums.any(axis=1)
    assert len(sums) == old + 1
    assert learned[[graph.reader.names.entity_id(name), old]].all()
    assert learned.sum() <= 4
    assert graph.check() == []


def test_the_same_facts_give_the_same_bytes(tmp_path: Path) -> None:
    graphs = [made(tmp_path / name) for name in ("one", "two")]
    for graph in graphs:
        graph.add(NEWCOMERS)
    assert bytes_of_version(graphs[0], 2) == bytes_of_version(graphs[1], 2)


@pytest.mark.parametrize("method", ["evergreen", "lkge", "si", "gem", "mean"])
def test_an_interrupted_update_goes_on_to_the_same_bytes(tmp_path: Path, method: str) -> None:
    graph = made(tmp_path / "KG", method=method, max_epochs=6)
    graph.store_config = StoreConfig(seconds_between_checkpoints=0.0)
    shutil.copytree(tmp_path / "KG", tmp_path / "twin")
    twin = open(tmp_path / "twin")
    accept(graph.store, NEWCOMERS, source="python")
    accept(twin.store, NEWCOMERS, source="python")
    twin.learn_waiting()
    epochs = []

    def unplug(event: Event) -> None:
        if isinstance(event, EpochFinished):
            epochs.append(event.epoch)
            if len(epochs) == 3:
                raise Unplugged

    learns = method != "mean"  # which trains on its first facts alone
    if learns:
        with pytest.raises(Unplugged):
            graph.learn_waiting(unplug)
        assert open(tmp_path / "KG").version == 1
        assert len(waiting(graph.store)) == 1
    open(tmp_path / "KG").learn_waiting(
        lambda e: epochs.append(e.epoch) if isinstance(e, EpochFinished) else None
    )
    if learns:
        assert epochs[:4] == [1, 2, 3, 3], "it goes on behind the last epoch that was saved"
    assert bytes_of_version(graph, 2) == bytes_of_version(twin, 2)


def test_retracted_facts_are_unknown_uncounted_and_less_plausible(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=40, learning_rate=0.01)
    gone: list[Triple] = [("person 3", "knows 2", "person 5"), ("person 9", "knows 1", "person 10")]
    before, counts = graph.score(gone), np.array(graph.reader.model_arrays["method.facts.entity"])
    assert all(fact.known for fact in before)
    record = graph.add([], retract=[*gone, ("person 3", "knows 1", "person 30")])
    after = graph.score(gone)
    assert record.retracted == 2
    assert "1 of the retracted facts were not known" in record.warnings
    assert not any(fact.known for fact in after)
    assert all(b.score > a.score for b, a in zip(before, after, strict=True))
    lost = counts - graph.reader.model_arrays["method.facts.entity"]
    named = {graph.reader.names.entity_id(name) for s, _, o in gone for name in (s, o)}
    assert set(np.flatnonzero(lost).tolist()) == named
    assert lost.sum() == 4
    assert record.known_facts == 118


def test_known_facts_are_not_learned_twice(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG")
    record = graph.add([*ring(0, 40)[:7], ("person 3", "knows 1", "person 30")])
    assert record.facts == 1
    assert record.warnings == ("7 of the added facts were known already",)
    assert graph.reader.num_facts == 121


def test_held_out_facts_have_no_part_in_learning(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG")
    batch = accept(graph.store, NEWCOMERS, valid=0.3)
    checkpoints = Checkpoints(tmp_path / "unused")
    split = Update(graph.reader, batch, graph.store_config, ignore, checkpoints).split()
    assert (len(split.train), len(split.valid), len(split.hold_out)) == (28, 6, 6)
    trained = {tuple(fact) for fact in split.train.tolist()}
    held = {tuple(fact) for fact in np.concatenate([split.valid, split.hold_out]).tolist()}
    assert not trained & held
    assert set(range(40, 50)) <= set(split.train[:, (0, 2)].ravel().tolist())
    graph.learn_waiting()
    hold_out = graph.reader.hold_out
    assert np.array_equal(hold_out.facts[hold_out.since == 2], split.hold_out)


def test_with_nothing_to_select_by_all_epochs_are_learned(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=12, patience=1, memory="none")
    assert graph.add(bridge(0, 40, 2)).epochs == 12


def test_rollback_is_a_new_version_with_the_old_content(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG")
    asked = {"subject": "person 3", "relation": "knows 2", "k": 40}
    before = graph.predict(**asked)
    graph.add(NEWCOMERS)
    record = graph.rollback(1)
    assert (record.version, record.kind, record.new_entities) == (3, "rollback", -10)
    assert graph.predict(**asked) == before
    assert [line.kind for line in graph.log()] == ["init", "add", "add", "rollback"]
    assert graph.check() == []
    assert graph.add(NEWCOMERS).new_entities == 10
    assert graph.reader.age(np.array([0, 39, 40, 49])).tolist() == [1, 1, 4, 4]


def test_a_version_that_is_gone_is_named(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=1)
    with pytest.raises(RunError, match=r"there is no version 7; there are: 0, 1"):
        graph.rollback(7)
    for count in range(5):
        graph.add([("person 3", "knows 1", f"newcomer {count}")])
    assert graph.store.versions() == [2, 3, 4, 5, 6]
    with pytest.raises(RunError, match="there is no version 1"):
        open(tmp_path / "KG", 1)
    assert [line.version for line in graph.log()] == list(range(7))


def test_a_question_needs_one_entity(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=1)
    with pytest.raises(DataError, match="either a subject or an object"):
        graph.predict(relation="knows 1")
    with pytest.raises(UnknownName, match="Did you mean 'person 3'"):
        graph.predict(subject="persn 3", relation="knows 1")


def test_similar_entities_and_their_degrees(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG")
    (first, *_rest) = graph.similar("person 3", k=39)
    rows = graph.reader.rows(np.arange(40))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    number = graph.reader.names.entity_id("person 3")
    cosines = rows @ rows[number]
    cosines[number] = -1
    assert first.entity == graph.reader.names.entity_name(int(cosines.argmax()))
    assert first.similarity == pytest.approx(cosines.max(), abs=1e-5)
    assert graph.reader.degree(np.arange(40)).tolist() == [6] * 40


def test_without_known_answers_nothing_is_marked(tmp_path: Path) -> None:
    graph = init(tmp_path / "KG", known=False, **QUICK)
    graph.add(ring(0, 40))
    assert graph.reader.num_facts == 0
    assert not any(a.known for a in graph.predict(subject="person 3", relation="knows 2"))


def test_an_empty_graph_answers_that_it_knows_nobody(tmp_path: Path) -> None:
    graph = init(tmp_path / "KG", **QUICK)
    assert graph.entities() == []
    with pytest.raises(UnknownName):
        graph.predict(subject="Ada", relation="knows")


def test_readers_are_independent_of_what_they_hand_out(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG")
    before = graph.predict(subject="person 3", relation="knows 2", new_only=True)
    assert graph.predict(subject="person 3", relation="knows 2", new_only=True) == before
    assert isinstance(graph.reader, Reader)
