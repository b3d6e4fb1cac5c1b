"""Run folders and living graphs of earlier releases are read, resumed and extended."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import lkge
from lkge import api
from lkge.config import RunConfig
from lkge.configure import read_toml

GOLDEN = Path(__file__).parent / "golden"
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


def test_an_old_living_graph_learns_the_batch_that_waits_and_new_facts(tmp_path: Path) -> None:
    folder = copied("store", tmp_path)
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
