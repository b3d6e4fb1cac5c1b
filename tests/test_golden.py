"""Run folders and living graphs of earlier releases are read, resumed and extended."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.faults import PowerCut
from tests.store.made import bytes_of

import lkge
from lkge import api
from lkge.config import RunConfig
from lkge.configure import read_toml
from lkge.data.checked_json import read_checked_json, write_checked_json
from lkge.errors import NewerFormat
from lkge.store.migration import migrate
from lkge.store.reader import open_reader
from lkge.store.records import to_json
from lkge.store.repairing import repair
from lkge.store.versions import Store

GOLDEN = Path(__file__).parent / "golden"
OLD = ("store", "store-2")
FORMAT_3 = [2.2005615, 1.0454498]
OLD_MRR = NEWER_MRR = 0.169
"""The MRR of `golden/run` and `golden/run-2` under the protocol `paper`, as they had it then."""


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / name, folder / name))


def test_flat_settings_are_read_into_sections() -> None:
    config = read_toml(GOLDEN / "run" / "config.toml")
    assert isinstance(config, RunConfig)
    assert (config.model.score, config.model.dim) == ("complex", 8)
    assert config.training.loss == "softmax"
    assert config.training.candidate_fraction == 0.3
    assert config.method.name == "evergreen"
    assert config.get("replay_weight") == 2.0
    assert config.get("replay_queries") == 400


def test_a_finished_run_is_opened_and_answers() -> None:
    run = api.opened(GOLDEN / "run")
    assert round(run.results.mrr, 3) == OLD_MRR
    answers = run.predictor.top_k("City 03", "lies in", k=3)
    assert len(answers) == 3


def test_a_run_of_format_2_times_is_opened_and_answers() -> None:
    run = api.opened(GOLDEN / "run-2")
    assert round(run.results.mrr, 3) == NEWER_MRR
    assert len(run.predictor.top_k("City 03", "lies in", k=3)) == 3


def test_a_living_graph_of_format_2_answers_as_it_did() -> None:
    graph = lkge.open(GOLDEN / "store-2")
    first, second, third = graph.predict(subject="City 03", relation="lies in", k=3)
    assert (first.entity, second.entity, third.entity) == ("Country 3", "Country 5", "City 17")
    np.testing.assert_allclose([first.score, second.score], [2.2005615, 1.0454498], rtol=1e-5)
    assert (first.known, second.known) == (True, False)
    assert graph.version == 4
    assert graph.entities("Old T") == ["Old Town"]
    assert graph.entities("City 23") == []
    assert [record.kind for record in graph.log()] == ["init", "add", "add", "edit", "edit"]
    assert lkge.open(GOLDEN / "store-2", version="first").version == 1


def test_a_stopped_run_ends_as_the_whole_run_did(tmp_path: Path) -> None:
    graph = lkge.load(GOLDEN / "data")
    ended = api.resume(copied("stopped", tmp_path), graph=graph)
    whole = api.opened(GOLDEN / "run")
    assert ended.results.protocols == whole.results.protocols


def test_an_old_living_graph_answers_as_it_did() -> None:
    graph = lkge.open(GOLDEN / "store")
    first, second, _ = graph.predict(subject="City 03", relation="lies in", k=3)
    assert (first.entity, second.entity) == ("Country 5", "Country 3")
    np.testing.assert_allclose([first.score, second.score], [1.2705549, 1.1761486], rtol=1e-5)
    assert (first.known, second.known) == (False, True)


def test_an_old_calibration_is_read_and_plausibility_is_the_prior() -> None:
    graph = lkge.open(GOLDEN / "store")
    assert graph.reader.manifest.calibration == (0.0, 0.0)
    assert not graph.reader.calibration.is_known
    answers = graph.predict(subject="City 03", relation="lies in", k=9)
    assert 0 < max(answer.plausibility for answer in answers) < 0.27


CHANGES: list[Callable[[lkge.LivingGraph], object]] = [
    lambda graph: graph.add([("a", "lies in", "b")]),
    lambda graph: graph.learn_waiting(),
    lambda graph: graph.rollback(1),
    lambda graph: graph.tag("x"),
    lambda graph: graph.keep(3),
    lambda graph: graph.compact(),
    lambda graph: repair(graph.store),
]


@pytest.mark.parametrize("name", OLD)
def test_a_graph_of_an_old_format_is_only_read(tmp_path: Path, name: str) -> None:
    folder = copied(name, tmp_path)
    graph, before = lkge.open(folder), bytes_of(folder)
    for change in CHANGES:
        with pytest.raises(lkge.RunError, match=f"lkge migrate {folder}"):
            change(graph)
    assert graph.check() == []
    assert bytes_of(folder) == before


@pytest.mark.parametrize("name", OLD)
def test_an_old_graph_is_migrated_and_answers_as_before(tmp_path: Path, name: str) -> None:
    folder = copied(name, tmp_path)
    old = lkge.open(folder)
    answers = old.predict(subject="City 03", relation="lies in", k=9)
    contents = {version: contents_of(folder, version) for version in old.store.versions()}
    log = list(old.log())
    assert migrate(Store(folder))
    new = lkge.open(folder)
    assert [to_json(record) for record in new.log()] == [to_json(record) for record in log]
    assert {version: contents_of(folder, version) for version in contents} == contents
    assert new.predict(subject="City 03", relation="lies in", k=9) == answers
    assert new.check() == []
    assert [path for path in (folder / "versions").iterdir() if path.is_dir()] == []
    assert migrate(Store(folder)) == []


def test_a_migration_that_is_cut_short_is_made_good_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, replace = copied("store-2", tmp_path), os.replace
    answers = lkge.open(folder).predict(subject="City 03", relation="lies in", k=9)
    cut = 0
    for allowed in range(99):
        left = iter(range(allowed))

        def limited(source: Path, target: Path, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise PowerCut
            replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", limited)
            try:
                migrate(Store(folder))
                break
            except PowerCut:
                cut += 1
        graph = lkge.open(folder)
        assert graph.predict(subject="City 03", relation="lies in", k=9) == answers
        assert graph.check() == []
    assert cut > 5
    assert lkge.open(folder).check() == []


def test_a_damaged_version_is_not_migrated_and_its_batch_is_learned_again(tmp_path: Path) -> None:
    folder = copied("store-2", tmp_path)
    path = folder / "versions" / "000004" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    assert [Path(damage.path).name for damage in lkge.open(folder).check()] == [path.name]
    done = migrate(Store(folder))
    assert any("batch 4 is to be learned again" in line for line in done)
    graph = lkge.open(folder)
    assert graph.version == 3
    assert (folder / "damaged" / "000004").is_dir()
    assert [record.kind for record in graph.learn_waiting()][:2] == ["edit", "add"]
    assert graph.entities("City 23") == []


def test_an_old_living_graph_learns_the_batch_that_waits_and_new_facts(tmp_path: Path) -> None:
    folder = copied("store", tmp_path)
    migrate(Store(folder))
    graph = lkge.open(folder)
    with pytest.raises(lkge.LkgeError, match="Last City"):
        graph.predict(subject="Last City", relation="lies in")
    graph.learn_waiting()
    graph.add(
        [("Last City", "capital of", "Country 2")], retract=[("City 00", "near to", "City 06")]
    )
    newest = lkge.open(folder)
    assert newest.version == 4
    assert newest.score([("Last City", "lies in", "Country 2")])[0].known
    assert not newest.score([("City 00", "near to", "City 06")])[0].known
    assert lkge.open(folder, version=2).predict(subject="City 03", relation="lies in", k=1)
    assert newest.check() == []


# Format 3

NEWEST = "versions/000004.json"


def test_a_living_graph_of_format_3_answers_as_it_did(tmp_path: Path) -> None:
    folder = copied("store-3", tmp_path)
    graph = lkge.open(folder)
    assert graph.store.format == (3, 3)
    first, second = graph.predict(subject="City 03", relation="lies in", k=2)
    assert (first.entity, second.entity) == ("Country 3", "Country 5")
    np.testing.assert_allclose([first.score, second.score], FORMAT_3, rtol=1e-5)
    assert graph.entities("Old T") == ["Old Town"]
    assert [record.kind for record in graph.log()] == ["init", "add", "add", "edit", "edit"]
    assert any(len(files) > 1 for files in graph.reader.manifest.files.values())
    assert graph.check() == []
    graph.learn_waiting()
    assert graph.score([("Last City", "lies in", "Country 2")])[0].known
    assert lkge.open(folder, version="first").version == 1


@pytest.mark.parametrize("files", [("store.json",), (NEWEST,), ("store.json", NEWEST)])
def test_a_later_writer_leaves_the_graph_readable(tmp_path: Path, files: tuple[str, ...]) -> None:
    folder = copied("store-3", tmp_path)
    for file in files:
        tree = read_checked_json(folder / file) | {"format": {"reader": 3, "writer": 4}}
        write_checked_json(folder / file, tree | {"later": 1})
    graph, before = lkge.open(folder), bytes_of(folder)
    assert graph.predict(subject="City 03", relation="lies in", k=1)
    assert len(graph.log()) == 5
    for change in CHANGES:
        with pytest.raises(NewerFormat, match="can only be read; upgrade lkge"):
            change(graph)
    assert bytes_of(folder) == before


def contents_of(folder: Path, version: int) -> dict[str, bytes]:
    contents = open_reader(folder, version).contents()
    return {f"{kind}.{n}": a.tobytes() for kind in contents for n, a in contents[kind].items()}
