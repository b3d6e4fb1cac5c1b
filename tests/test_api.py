from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.training.made import made_graph, names_of, single_threaded, without_seconds

import lkge
from lkge import api
from lkge.configure import EVERGREEN, read_toml
from lkge.data.files import held
from lkge.data.folders import write_growing_graph
from lkge.data.snapshots import GrowingGraph, no_facts
from lkge.data.vocabulary import Vocabulary
from lkge.errors import DamagedFile, DataError, RunError, SettingsError, UnknownName
from lkge.testing import paper_config
from lkge.training.checkpoint import Checkpoints
from lkge.training.events import (
    Compiling,
    EpochFinished,
    Event,
    RunFinished,
    RunStarted,
    SnapshotFinished,
)

SMALL: dict[str, Any] = {
    "method": "lkge",
    "dim": 8,
    "batch_size": 32,
    "max_epochs": 3,
    "patience": 3,
}
FILES = {
    "config.toml",
    "graph.json",
    "log.jsonl",
    "results.json",
    "model.safetensors",
    "model.json",
    ".lock",
}
GRAPH = made_graph()


class Crash(BaseException):
    """Nothing in the package can catch this by accident."""


def crash(*_: object, **__: object) -> NoReturn:
    raise Crash


def crash_in_second_snapshot(event: Event) -> None:
    if isinstance(event, EpochFinished) and event.snapshot == 1:
        raise Crash


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No threads and no figures: they would take longer than all the rest."""
    monkeypatch.setattr("lkge.reports.page.write_report", lambda results, folder: folder)
    with single_threaded():
        yield


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A run that stopped in its second snapshot."""
    folder = tmp_path / "run"
    with pytest.raises(Crash):
        api.run(GRAPH, out=folder, listener=crash_in_second_snapshot, **SMALL)
    return folder


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    folder = tmp_path / "finished"
    api.run(GRAPH, out=folder, **SMALL)
    return folder


def kept(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """What must be the same whether a run was interrupted or not."""
    opened = api.opened(folder)
    return (folder / "model.safetensors").read_bytes(), without_seconds(opened.results)


def test_run_without_out_keeps_nothing(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    run = api.run(GRAPH, **SMALL)
    assert run.folder is None
    assert without_seconds(run.results) == kept(finished)[1]
    assert not list(empty.iterdir())


def test_a_run_folder_holds_what_is_promised(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} == FILES
    for name in FILES:
        assert name in (api.__doc__ or "")
    assert read_toml(finished / "config.toml") == paper_config(dataset="made", **SMALL)
    events = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds[kinds[0] == "Compiling"] == "RunStarted"
    assert events[-1]["type"] == "RunFinished"


def test_the_report_is_drawn_into_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr("lkge.reports.page.write_report", lambda *args: asked.append(args))
    run = api.run(GRAPH, out=tmp_path / "run", **SMALL)
    assert asked == [([run.results], tmp_path / "run")]


def test_the_public_face_is_the_same() -> None:
    assert (lkge.run, lkge.load, lkge.Run) == (api.run, api.load, api.Run)


def test_the_embedded_graph_has_a_name() -> None:
    graph = api.load("brick")
    assert graph.name == "brick"
    assert len(graph) == 5


def test_load_reads_folders_and_names_what_is_missing(tmp_path: Path) -> None:
    write_growing_graph(GRAPH, tmp_path / "mine")
    assert len(api.load(tmp_path / "mine")) == len(api.load("mine", data=tmp_path)) == len(GRAPH)
    with pytest.raises(DataError, match="nowhere"):
        api.load("nowhere/at/all")
    with pytest.raises(UnknownName, match="'brick'"):
        api.load("brik")


def test_single_settings_outweigh_settings(tmp_path: Path) -> None:
    base = paper_config(seed=5, **SMALL)
    run = api.run(GRAPH, config=base, method="gem", memory_size=7, dim=4)
    chosen = {"seed": 5, "method": "gem", "memory_size": 7, "dim": 4}
    expected = paper_config(**{**SMALL, **chosen})
    assert run.results.config == expected.to_dict()
    assert run.predictor.entity.shape[1] == 4


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, EVERGREEN),
        ({"method": "evergreen"}, EVERGREEN),
        ({"preset": "evergreen", "method": "re-train"}, {**EVERGREEN, "method": "re-train"}),
        ({"preset": "paper"}, {"method": "lkge"}),
        ({"method": "lkge"}, {}),
        ({"method": "snapshot"}, {"method": "snapshot"}),
    ],
)
def test_a_run_is_evergreen_unless_a_preset_or_another_method_is_named(
    words: dict[str, Any], expected: dict[str, Any]
) -> None:
    small = {"dim": 8, "max_epochs": 1}
    found = api.run(GRAPH, **words, **small).results.config
    assert found == paper_config(**{**expected, **small, "dataset": "made"}).to_dict()


def test_settings_leave_nothing_to_a_preset() -> None:
    with pytest.raises(SettingsError, match="preset 'paper'; leave one of them out"):
        api.run(GRAPH, config=paper_config(), preset="paper")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"dimension": 8}, SettingsError),
        ({"dim": "8"}, SettingsError),
        ({"dim": 0}, SettingsError),
        ({"method": "lkgee"}, UnknownName),
        ({"score": "transee"}, UnknownName),
        ({"preset": "papers"}, SettingsError),
        ({"method": ["lkge"]}, SettingsError),
        ({"backend": "numba", "device": "cuda"}, SettingsError),
    ],
)
def test_bad_settings_leave_no_folder(
    tmp_path: Path, change: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        api.run(GRAPH, out=tmp_path / "run", **SMALL | change)
    assert not (tmp_path / "run").exists()


def test_the_folder_must_be_new_or_empty(tmp_path: Path, finished: Path) -> None:
    before = kept(finished)
    with pytest.raises(RunError, match=r"finished: not empty; resume"):
        api.run(GRAPH, out=finished, **SMALL)
    assert kept(finished) == before
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="file: cannot be written"):
        api.run(GRAPH, out=tmp_path / "file", **SMALL)
    with pytest.raises(RunError, match="inside: cannot be written"):
        api.run(GRAPH, out=tmp_path / "file" / "inside", **SMALL)
    (tmp_path / "empty").mkdir()
    assert api.run(GRAPH, out=tmp_path / "empty", **SMALL).folder == tmp_path / "empty"
    api.run(GRAPH, out=str(tmp_path / "deep" / "er"), **SMALL)
    assert (tmp_path / "deep" / "er" / "results.json").is_file()


def test_a_new_folder_appears_with_all_that_resume_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash at any rename while it is made leaves either no folder or one that goes on."""
    replace, outcomes = os.replace, list[bool]()
    for crash_at in range(1, 5):
        folder, left = tmp_path / str(crash_at), [crash_at]

        def counted(*args: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Crash
            replace(*args)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", counted)
            with pytest.raises(Crash):
                api.run(GRAPH, out=folder, **SMALL)
        outcomes.append(folder.exists())
        if not folder.exists():
            api.run(GRAPH, out=folder, **SMALL)
        assert len(api.resume(folder, graph=GRAPH).results.snapshots) == 3
    assert outcomes == [False, False, False, True]


def test_resume_goes_on_and_ends_the_same(interrupted: Path, finished: Path) -> None:
    assert (interrupted / "checkpoint").is_dir()
    events: list[Event] = []
    run = api.resume(interrupted, graph=GRAPH, listener=events.append)
    started = RunStarted("made", "lkge", snapshots=3, snapshot=1, epochs_done=0)
    assert events[isinstance(events[0], Compiling)] == started
    assert kept(interrupted) == kept(finished)
    assert run.predictor.entity.equal(api.opened(finished).predictor.entity)
    assert {path.name for path in interrupted.iterdir()} == FILES
    log = (interrupted / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in log].count("RunStarted") == 2


def test_resume_finds_the_graph_by_its_name(tmp_path: Path) -> None:
    write_growing_graph(GRAPH, tmp_path / "data" / "mine")
    graph = api.load("mine", data=tmp_path / "data")
    with pytest.raises(Crash):
        api.run(graph, out=tmp_path / "run", listener=crash_in_second_snapshot, **SMALL)
    with pytest.raises(UnknownName, match="mine"):
        api.resume(tmp_path / "run")
    assert api.resume(tmp_path / "run", data=tmp_path / "data").results.dataset == "mine"


def without_a_fact(graph: GrowingGraph) -> GrowingGraph:
    first, *rest = graph.snapshots
    fewer = dataclasses.replace(first, train=first.train[1:])
    return dataclasses.replace(graph, snapshots=(fewer, *rest))


def with_facts_swapped(graph: GrowingGraph) -> GrowingGraph:
    first, *rest = graph.snapshots
    swapped = dataclasses.replace(first, train=first.train[::-1].copy())
    return dataclasses.replace(graph, snapshots=(swapped, *rest))


def with_a_fact_in_another_split(graph: GrowingGraph) -> GrowingGraph:
    first, *rest = graph.snapshots
    moved = dataclasses.replace(first, train=no_facts(), valid=first.train)
    return dataclasses.replace(graph, snapshots=(moved, *rest))


def with_other_names(graph: GrowingGraph) -> GrowingGraph:
    names = graph.vocabulary.to_json()
    names["entities"][0] += "!"
    return dataclasses.replace(graph, vocabulary=Vocabulary.from_json(names))


@pytest.mark.parametrize(
    "changed",
    [without_a_fact, with_facts_swapped, with_a_fact_in_another_split, with_other_names],
)
def test_resume_with_other_facts_is_refused(
    interrupted: Path, changed: Callable[[GrowingGraph], GrowingGraph]
) -> None:
    with pytest.raises(RunError, match="was begun with other facts than 'made' has now"):
        api.resume(interrupted, graph=changed(GRAPH))
    assert api.resume(interrupted, graph=GRAPH).folder == interrupted


def test_two_processes_do_not_learn_the_same_run(interrupted: Path) -> None:
    before = {path: path.read_bytes() for path in interrupted.rglob("*") if path.is_file()}
    with held(interrupted / ".lock"), pytest.raises(RunError, match="run: another process"):
        api.resume(interrupted, graph=GRAPH)
    assert before == {path: path.read_bytes() for path in interrupted.rglob("*") if path.is_file()}
    assert api.resume(interrupted, graph=GRAPH).folder == interrupted


def test_resume_needs_a_run_folder(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(RunError, match=r"not a run folder: it has no config\.toml"):
            api.resume(folder)


def test_a_finished_run_is_opened_without_the_graph(finished: Path) -> None:
    """A graph of that name does not exist, so it cannot have been loaded."""
    before = kept(finished)
    events: list[Event] = []
    run = api.resume(finished, listener=events.append)
    assert events == []
    assert run.folder == finished
    assert run.results == api.opened(finished).results
    assert kept(finished) == before
    assert run.predictor.names == GRAPH.vocabulary


def test_an_unfinished_run_cannot_be_opened(interrupted: Path) -> None:
    with pytest.raises(RunError, match=r"model\.json: cannot be read"):
        api.opened(interrupted)


@pytest.mark.parametrize(
    "step",
    [
        "lkge.api.write_tensors",
        "lkge.api.write_checked_json",
        "lkge.reports.page.write_report",
        "lkge.api.Checkpoints.remove",
        "shutil.rmtree",
    ],
)
def test_a_crash_while_the_outcome_is_written(
    tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(step, crash)
        with pytest.raises(Crash):
            api.run(GRAPH, out=folder, **SMALL)
    events: list[Event] = []
    api.resume(folder, graph=GRAPH, listener=events.append)
    assert not any(isinstance(event, EpochFinished) for event in events)
    assert kept(folder) == kept(finished)
    assert {path.name for path in folder.iterdir()} == FILES


def test_a_checkpoint_half_removed_does_not_stop_a_finished_run(finished: Path) -> None:
    (finished / "checkpoint").mkdir()
    (finished / "checkpoint" / "start-9.safetensors").touch()
    before = kept(finished)
    assert api.resume(finished).folder == finished
    assert kept(finished) == before
    assert {path.name for path in finished.iterdir()} == FILES


def test_leftovers_of_a_killed_process_are_cleaned_up(interrupted: Path) -> None:
    (interrupted / ".model.safetensors.01ab.part").write_bytes(b"half")
    api.resume(interrupted, graph=GRAPH)
    assert {path.name for path in interrupted.iterdir()} == FILES


def damage_in(folder: Path, name: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
def test_a_damaged_model_is_noticed(finished: Path, name: str) -> None:
    damage_in(finished, name)
    with pytest.raises(DamagedFile, match=name):
        api.opened(finished)


@pytest.mark.parametrize("name", ["model.json", "results.json"])
@pytest.mark.parametrize("garbage", ["", "{}", "[]", '{"snapshots": 3, "protocols": 4}'])
def test_garbage_is_noticed(finished: Path, name: str, garbage: str) -> None:
    (finished / name).write_text(garbage)
    with pytest.raises(DamagedFile, match=name):
        api.opened(finished)


def test_a_damaged_checkpoint_is_noticed(interrupted: Path) -> None:
    checkpoint = Checkpoints(interrupted / "checkpoint")
    assert checkpoint.exists
    (tensors,) = (interrupted / "checkpoint").glob("start-*.safetensors")
    damage_in(interrupted, f"checkpoint/{tensors.name}")
    with pytest.raises(DamagedFile, match=tensors.name):
        api.resume(interrupted, graph=GRAPH)


def no_constant(token: str) -> NoReturn:
    pytest.fail(f"{token} is not JSON")


def test_json_is_strict_even_where_nothing_was_measured(tmp_path: Path) -> None:
    shots = tuple(
        dataclasses.replace(s, valid=no_facts(), test=no_facts()) for s in GRAPH.snapshots
    )
    mute = dataclasses.replace(GRAPH, snapshots=shots)
    run = api.run(mute, out=tmp_path, **SMALL)
    text = (tmp_path / "results.json").read_text(encoding="utf-8")
    tree = json.loads(text, parse_constant=no_constant)
    assert tree["snapshots"][0]["valid_mrr"] is None
    for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line, parse_constant=no_constant)
    assert api.opened(tmp_path).results.to_json() == run.results.to_json() == tree


def test_top_k_answers_with_names(finished: Path) -> None:
    for predictor in (api.run(GRAPH, **SMALL).predictor, api.opened(finished).predictor):
        answers = predictor.top_k("entity 3", "relation 1", k=5)
        assert len(answers) == 5
        assert {answer.entity for answer in answers} <= set(GRAPH.vocabulary.entities)
        scores = [answer.score for answer in answers]
        assert scores == sorted(scores, reverse=True)
        everything = predictor.top_k("entity 3", "relation 1", k=10**6)
        assert len(everything) == GRAPH.vocabulary.num_entities
        backwards = predictor.top_k("entity 3", "relation 1⁻¹", k=10**6)
        assert [a.entity for a in backwards] != [a.entity for a in everything]


def test_top_k_is_the_score_of_the_tables() -> None:
    predictor = api.run(GRAPH, **SMALL).predictor
    (best,) = predictor.top_k("entity 3", "relation 1", k=1)
    distances = (predictor.entity[3] + predictor.relation[2] - predictor.entity).abs().sum(1)
    assert best.entity == f"entity {int(distances.argmin())}"
    assert best.score == pytest.approx(-float(distances.min()), rel=1e-5)


def test_unknown_names_come_with_the_nearest() -> None:
    predictor = api.run(GRAPH, **SMALL).predictor
    with pytest.raises(UnknownName, match=r"no entity named 'entty 3'.*'entity 3'"):
        predictor.top_k("entty 3", "relation 1")
    with pytest.raises(UnknownName, match=r"no relation named 'relatoin 1'.*'relation 1'"):
        predictor.top_k("entity 3", "relatoin 1")


def test_listeners_hear_every_event(tmp_path: Path) -> None:
    heard: list[Event] = []
    api.run(GRAPH, out=tmp_path / "run", listener=heard.append, **SMALL)
    log = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in log] == names_of(heard)
    assert sum(isinstance(event, SnapshotFinished) for event in heard) == 3
    assert isinstance(heard[-1], RunFinished)
