"""Runs of streams: what is measured, and that a run that was stopped ends as one that was not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

import lkge
from lkge.data.facts import write_facts
from lkge.data.files import held
from lkge.errors import RunError, SettingsError
from lkge.store.graph import LivingGraph
from lkge.store.versions import Store
from lkge.studies import stream_runs
from lkge.studies.stream_results import Point, StreamResults, StreamRun, System, read_results
from lkge.studies.stream_runs import StreamJob, main, measure, run_stream
from lkge.studies.streams import Stream, file_stream, read_stream

SMALL = {"dim": 8, "max_epochs": 2, "training.backend": "torch"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Four hundred facts, in which new names come up all the time."""
    facts = [(f"e{n // 3}", f"r{n % 3}", f"e{(n * n + 7) % (n // 3 + 1)}") for n in range(400)]
    write_facts(tmp_path / "facts.tsv", facts)
    return tmp_path / "facts.tsv"


def run_of(file: Path, system: System = "living", **changes: Any) -> StreamRun:
    run = StreamRun(file_stream(file, 0.5, 40), system, 3, (0, 2, 5), settings=dict(SMALL))
    return replace(run, **changes)


def reciprocals(graph: LivingGraph, stream: Stream, adds: int) -> list[list[float]]:
    """1/rank of the two queries of each held-out fact, one query at a time, by name."""
    reader, names = graph.reader, stream.vocabulary
    known = set(names.named(stream.known.tolist()))
    entities = [reader.names.entity_name(number) for number in range(reader.num_entities)]
    found = []
    for subject, relation, object_ in names.named(stream.evaluated(adds).tolist()):
        of_fact = []
        for entity, query, answer, inverse in (
            (subject, relation, object_, False),
            (object_, relation + "⁻¹", subject, True),
        ):
            scores = reader.predictor.candidate_scores(
                reader.names.entity_id(entity), reader.names.relation_id(query)
            )
            others = [
                score
                for name, score in zip(entities, scores.tolist(), strict=True)
                if name != answer
                and ((name, relation, entity) if inverse else (entity, relation, name)) not in known
            ]
            own = float(scores[reader.names.entity_id(answer)])
            better, equal = sum(o > own for o in others), sum(o == own for o in others)
            of_fact.append(1 / (1 + better + equal / 2))
        found.append(of_fact)
    return found


def test_quality_is_that_of_a_plain_loop_over_all_entities(file: Path, tmp_path: Path) -> None:
    stream = read_stream(file_stream(file, 0.5, 40), "test")
    graph = lkge.init(tmp_path / "KG", seed=3, **SMALL)
    for add in range(4):
        graph.add(stream.batch(add))
    point, wanted = measure(graph.reader, stream, 3), reciprocals(graph, stream, 3)
    tenth = math.ceil(len(wanted) / 10)
    parts = {"all": wanted, "oldest": wanted[:tenth], "newest": wanted[-tenth:]}
    for group, values in parts.items():
        quality = getattr(point, group)
        assert quality.mrr == pytest.approx(np.mean(values), abs=1e-6)
        assert quality.hits10 == pytest.approx(np.mean(np.array(values) >= 0.1))
        assert quality.facts == len(values)
    assert 10 < len(wanted) < len(stream.held_out)
    assert (point.adds, point.facts) == (3, len(stream.so_far(3)))
    assert (point.entities, point.relations) == (graph.reader.num_entities, 3)


def test_no_held_out_fact_was_ever_given_to_the_graph(file: Path, tmp_path: Path) -> None:
    run_stream(run_of(file), tmp_path / "run")
    reader = lkge.open(tmp_path / "run" / "KG").reader
    stream = read_stream(run_of(file).stream, "test")
    held_out = list(stream.vocabulary.named(stream.evaluated(5).tolist()))
    assert not reader.answers.contains(reader.ids_of(held_out)).any()
    added = reader.ids_of(stream.so_far(5))
    assert reader.answers.contains(added).all()
    assert reader.num_facts == len(added)


def test_bytes_are_those_of_the_newest_version(file: Path, tmp_path: Path) -> None:
    results = run_stream(run_of(file), tmp_path / "run")
    graph = lkge.open(tmp_path / "run" / "KG")
    store = graph.store
    sizes = {
        kind: sum(path.stat().st_size for path in store.paths(graph.version, kind))
        for kind in graph.reader.manifest.files
    }
    assert results.last.version_bytes == sum(sizes.values())
    assert results.last.known_bytes == sizes["known"]
    tables = ("tables.entity", "tables.relation")
    arrays = graph.reader.model_arrays
    own = [each.nbytes for name, each in arrays.items() if name not in tables]
    assert results.last.carried_bytes == sum(own) > 0


def test_a_run_has_the_defaults_of_init_and_its_times(file: Path, tmp_path: Path) -> None:
    results = run_stream(run_of(file), tmp_path / "run")
    made = lkge.init(tmp_path / "KG", seed=3, **SMALL)
    assert results.config == made.config.to_dict()
    assert results.config["method"]["name"] == "evergreen"
    assert results.is_complete
    assert [point.adds for point in results.points] == [0, 2, 5]
    assert len(results.batches) == 6
    for seconds in results.batches:
        assert seconds.wall >= seconds.training > 0
    assert results.add_seconds(2) == list(results.batches[1:3])
    assert results.provenance["lkge"] == lkge.__version__
    assert read_results(tmp_path / "run" / "results.json") == results


def test_fine_tune_has_the_base_model_of_the_preset_living(file: Path, tmp_path: Path) -> None:
    run = run_of(file, "fine-tune", settings={**SMALL, "method.replay_queries": 7})
    config, living = run.config(), run_of(file).config()
    assert config.method.name == "fine-tune"
    assert config.model == living.model
    assert config.training == living.training
    assert run_stream(run, tmp_path / "run").last.carried_bytes == 0


def test_at_once_is_a_graph_of_all_facts_so_far(file: Path, tmp_path: Path) -> None:
    run = run_of(file, "at-once", points=(0, 5))
    results = run_stream(run, tmp_path / "run")
    living = run_stream(run_of(file), tmp_path / "living")
    stream = read_stream(run.stream, "test")
    for point in results.points:
        graph = lkge.open(tmp_path / "run" / f"KG-{point.adds}")
        assert graph.version == 1
        assert graph.reader.num_facts == len(stream.so_far(point.adds)) == point.facts
        assert point.seconds.wall >= point.seconds.training > 0
        assert point.entities == getattr(living.point(point.adds), "entities", None)
    assert results.points[0].all == living.points[0].all, "nothing was added yet"


class Killed(BaseException):
    """The process ends here."""


def killed_at(method: Callable[..., Any], call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The given call of a method of the store or of the graph kills the process."""
    calls = 0
    owner = {"publish": Store, "add": LivingGraph}[method.__name__]

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return method(*args, **more)

    monkeypatch.setattr(owner, method.__name__, counted)


def without_times(results: StreamResults) -> list[Point]:
    return list(results.points)


@pytest.mark.parametrize(
    ("method", "call", "unknown"),
    [(LivingGraph.add, 3, []), (Store.publish, 4, [2]), (Store.publish, 2, [0])],
)
def test_a_run_that_was_killed_goes_on_to_the_same_figures(
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: Callable[..., Any],
    call: int,
    unknown: list[int],
) -> None:
    """Between two adds, or with a batch that was accepted and not published."""
    whole = run_stream(run_of(file), tmp_path / "whole")
    with monkeypatch.context() as patch:
        killed_at(method, call, patch)
        with pytest.raises(Killed):
            run_stream(run_of(file), tmp_path / "run")
    before = read_results(tmp_path / "run" / "results.json")
    assert not before.is_complete
    again = run_stream(run_of(file), tmp_path / "run")
    assert without_times(again) == without_times(whole)
    assert again.batches[: len(before.batches)] == before.batches
    assert [n for n, each in enumerate(again.batches) if math.isnan(each.wall)] == unknown
    assert len(again.add_seconds(5)) == 5 - len([n for n in unknown if n])


def test_a_point_that_was_not_written_is_measured_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: object) -> Point:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(stream_runs, "measure", kill)
        with pytest.raises(Killed):
            run_stream(run_of(file), tmp_path / "run")
    results = run_stream(run_of(file), tmp_path / "run")
    assert without_times(results) == without_times(run_stream(run_of(file), tmp_path / "whole"))


def test_a_finished_run_measures_and_adds_nothing_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run_of(file), run_of(file, "at-once", points=(5,))]
    done = [run_stream(run, tmp_path / run.system) for run in runs]
    monkeypatch.setattr(stream_runs, "measure", None)
    monkeypatch.setattr(LivingGraph, "add", None)
    assert [run_stream(run, tmp_path / run.system) for run in runs] == done


def test_at_once_goes_on_without_a_time(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(file, "at-once", points=(5,))
    whole = run_stream(run, tmp_path / "whole")
    with monkeypatch.context() as patch:
        killed_at(Store.publish, 2, patch)
        with pytest.raises(Killed):
            run_stream(run, tmp_path / "run")
    again = run_stream(run, tmp_path / "run")
    assert math.isnan(again.last.seconds.wall)
    assert again.last.all == whole.last.all


def test_another_run_in_the_folder_is_an_error(file: Path, tmp_path: Path) -> None:
    run_stream(run_of(file, points=(0,)), tmp_path / "run")
    for changes, words in (
        ({"points": (0, 1)}, r"results.json: was made with points = \(0,\), but \(0, 1\)"),
        ({"points": (0,), "split": "valid"}, "split = 'test', but 'valid'"),
        ({"points": (0,), "settings": {**SMALL, "dim": 4}}, "model.dim = 8, but 4"),
    ):
        run = run_of(file, **changes)
        with pytest.raises(RunError, match=words):
            run_stream(run, tmp_path / "run")
        with pytest.raises(RunError, match=words):
            StreamJob(run.name, run.config(), tmp_path / "run", run).require_same()
    lines = file.read_text(encoding="utf-8")
    file.write_text(lines + "new\tr0\te1\n", encoding="utf-8")
    with pytest.raises(RunError, match="was made of other facts"):
        run_stream(run_of(file, points=(0,)), tmp_path / "run")


def test_a_file_in_another_place_is_the_same_stream(file: Path, tmp_path: Path) -> None:
    done = run_stream(run_of(file, points=(0,)), tmp_path / "run")
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    run = run_of(file.rename(moved / file.name), points=(0,))
    assert run_stream(run, tmp_path / "run") == done


def test_settings_that_a_system_gives_itself_are_refused(file: Path) -> None:
    for name in ("method", "seed", "training.seed"):
        with pytest.raises(SettingsError, match=f"--set {name}: every system has its own"):
            run_of(file, settings={name: 1}).config()
    with pytest.raises(SettingsError, match="no setting 'replay_wait'"):
        run_of(file, "fine-tune", settings={"replay_wait": 1}).config()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "not the results of a stream: run: Field required"),
        ("{", "not the results of a stream"),
        (None, "cannot be read"),
    ],
)
def test_a_damaged_state_is_an_error(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "results.json").write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=words):
        read_results(tmp_path / "results.json")


def test_every_field_of_a_state_is_checked(file: Path, tmp_path: Path) -> None:
    run_stream(run_of(file, points=(0,)), tmp_path / "run")
    path = tmp_path / "run" / "results.json"
    tree = json.loads(path.read_text(encoding="utf-8"))
    tree["points"][0]["all"]["mrr"] = "high"
    path.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(RunError, match=r"points\.0\.all\.mrr"):
        read_results(path)


def test_the_process_ends_with_a_code(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(file, points=(0,))
    job = StreamJob(run.name, run.config(), tmp_path / "run", run)
    assert job.status() == "starting"
    words = job.command(None)[3:]
    assert words == [TypeAdapter(StreamRun).dump_json(run).decode(), str(tmp_path / "run")]

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LivingGraph, "add", stop)
        assert main(words) == 130
    assert "to go on:" in capsys.readouterr().err
    assert main(words) == 0
    assert job.is_begun
    assert job.status() == "0 of 0 adds"
    other = replace(run, seed=4)
    assert main([TypeAdapter(StreamRun).dump_json(other).decode(), str(tmp_path / "run")]) == 2
    assert "error: " in capsys.readouterr().err


def test_removed_facts_are_ranked(file: Path, tmp_path: Path) -> None:
    spec = file_stream(file, 0.5, 40, 0.2)
    points = {}
    for system in ("living", "at-once"):
        run = StreamRun(spec, system, 3, (5,), settings=SMALL)
        points[system] = run_stream(run, tmp_path / system).last
    living, at_once = points["living"], points["at-once"]
    assert living.removed.facts > 20
    assert 0 < at_once.removed.facts <= living.removed.facts, "some names may not be known"
    assert living.removed.mrr < living.all.mrr + 0.5


def test_one_process_at_a_time_makes_a_run(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with held(folder / "run.lock"), pytest.raises(RunError, match="another process makes this run"):
        run_stream(run_of(file), folder)
    assert [each.name for each in folder.iterdir()] == ["run.lock"]
