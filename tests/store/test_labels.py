"""Labels: set, removed, kept beside versions; and names found by them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lkge.data.files import held
from lkge.errors import DamageWarning, DataError, StoreLocked
from lkge.living import init, open
from lkge.store.backup import backup
from lkge.store.checking import check
from lkge.store.graph import LivingGraph
from lkge.store.labels import LABELS, LabelMap
from lkge.store.repairing import repair
from lkge.store.versions import INBOX_LOCK


@pytest.fixture
def graph(cities: LivingGraph, tmp_path: Path) -> LivingGraph:
    """A copy that a test may change."""
    return open(shutil.copytree(cities.store.folder, tmp_path / "KG"))


def test_labels_are_set_replaced_and_removed(graph: LivingGraph) -> None:
    version, before = graph.version, dict(graph.labels)
    graph.label({"City 03": "Town", "nobody yet": "Somebody", "lies in": ""})
    assert graph.labels == {"City 03": "Town", "Country 3": "Third land", "nobody yet": "Somebody"}
    assert before["City 03"] == "Third town"
    assert open(graph.store.folder).labels == graph.labels
    assert graph.version == version
    graph.label({})
    with pytest.raises(DataError, match="not valid Unicode"):
        graph.label({"City 03": "\ud800"})


def test_another_process_is_seen(graph: LivingGraph) -> None:
    other = open(graph.store.folder)
    assert "City 04" not in other.labels
    graph.label({"City 04": "Fourth"})
    assert other.labels["City 04"] == "Fourth"


def test_a_lock_is_waited_for_but_not_for_ever(graph: LivingGraph) -> None:
    with held(graph.store.folder / INBOX_LOCK) as alone:
        assert alone
        with pytest.raises(StoreLocked, match="another process"):
            graph.store.add_labels({"a": "b"}, patience=0.01)


def test_that_of_an_inverse_is_marked() -> None:
    labels = LabelMap({"lies in": "is part of"})
    assert labels.of(["lies in", "lies in⁻¹", "other"]) == {
        "lies in": "is part of",
        "lies in⁻¹": "is part of⁻¹",
    }


def test_damage_is_a_warning_and_is_repaired(graph: LivingGraph) -> None:
    path = graph.store.folder / LABELS
    path.write_text(path.read_text("utf-8").replace("town", "tomb"), "utf-8")
    fresh = open(graph.store.folder)
    with pytest.warns(DamageWarning, match="no labels are shown"):
        assert fresh.labels == {}
    assert [Path(damage.path).name for damage in check(graph.store)] == [LABELS]
    repair(graph.store)
    assert check(graph.store) == []
    assert open(graph.store.folder).labels == {}


def test_a_backup_has_the_labels(graph: LivingGraph, tmp_path: Path) -> None:
    backup(graph.store, tmp_path / "copy")
    assert open(tmp_path / "copy").labels == graph.labels


def test_a_file_of_rdf_brings_its_labels(tmp_path: Path) -> None:
    path = tmp_path / "facts.ttl"
    path.write_text(
        "@prefix : <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':a :r :b . :a rdfs:label "The first"@en .\n',
        "utf-8",
    )
    graph = init(tmp_path / "KG", dim=4, max_epochs=1, backend="torch")
    graph.add(path, valid=0)
    assert graph.labels == {"http://e/a": "The first"}


def test_names_are_found_by_beginning_part_label_and_likeness(cities: LivingGraph) -> None:
    def found(text: str, k: int = 10, relations: bool = False) -> list[str]:
        return [name for name, _ in cities.find(text, k, relations=relations)]

    assert found("city 0", 3) == ["City 00", "City 01", "City 02"]
    assert found("y 07") == ["City 07"]
    assert found("third") == ["Country 3", "City 03"]
    assert cities.find("THIRD T") == [("City 03", "Third town")]
    assert found("Citty 07", 1) == ["City 07"]
    assert found("thrid twon", 1) == ["City 03"]
    assert found("qqqqqq") == []
    assert found("part", relations=True) == ["lies in"]
    assert found("", 2, relations=True) == ["capital of", "lies in"]
    assert found("City 03", relations=True) == []
