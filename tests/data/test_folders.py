from __future__ import annotations

import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lkge.data.folders import dataset_names, read_growing_graph, write_growing_graph
from lkge.data.snapshots import GrowingGraph
from lkge.errors import DataError, UnknownName

PUBLISHED = Path(__file__).parents[2] / ".." / "shared" / "data" / "dataset.zip"

GROWING = {
    "0/train.txt": "a\tr\tb\nb\tr\tc\n",
    "0/valid.txt": "a\tr\tc\n",
    "0/test.txt": "b\tr\ta\n",
    "1/train.txt": "d\tq\ta\n",
    "1/valid.txt": "",
    "1/test.txt": "d\tr\tb\n",
}
Files = Mapping[str, str]


def folder(root: Path, files: Files) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def archive(path: Path, files: Files) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return path


def under(prefix: str, files: Files = GROWING) -> dict[str, str]:
    return {f"{prefix}/{name}": text for name, text in files.items()}


def same(one: GrowingGraph, other: GrowingGraph) -> bool:
    return one.vocabulary == other.vocabulary and all(
        np.array_equal(getattr(a, split), getattr(b, split))
        and (a.index, a.num_entities, a.num_relations) == (b.index, b.num_entities, b.num_relations)
        for a, b in zip(one.snapshots, other.snapshots, strict=True)
        for split in ("train", "valid", "test")
    )


def test_a_folder_of_snapshots(tmp_path: Path) -> None:
    graph = read_growing_graph(folder(tmp_path / "small", GROWING))
    first, second = graph.snapshots
    assert graph.name == "small"
    assert list(graph.vocabulary.entities) == ["a", "b", "c", "d"]
    assert list(graph.vocabulary.relations) == ["r", "q"]
    assert first.train.tolist() == [[0, 0, 1], [1, 0, 2]]
    assert first.valid.tolist() == [[0, 0, 2]]
    assert first.test.tolist() == [[1, 0, 0]]
    assert second.train.tolist() == [[3, 2, 0]]
    assert second.valid.shape == (0, 3)
    assert (first.index, first.num_entities, first.num_relations) == (0, 3, 1)
    assert (second.index, second.num_entities, second.num_relations) == (1, 4, 2)
    assert all(facts.dtype == np.int32 for facts in (first.train, second.valid))
    assert graph.warnings == ()


def test_numbering_may_start_at_one_and_pass_ten(tmp_path: Path) -> None:
    files = {f"{number}/train.tsv": f"e{number}\tr\tf\n" for number in range(1, 13)}
    graph = read_growing_graph(folder(tmp_path, files))
    assert [shot.index for shot in graph.snapshots] == list(range(12))
    assert graph.vocabulary.entities[-1] == "e12"
    assert all(len(shot.valid) == len(shot.test) == 0 for shot in graph.snapshots)


def test_files_may_have_different_formats(tmp_path: Path) -> None:
    files = {"0/train.csv": "a,r,b\n", "0/test.nt": "<x:a> <x:r> <x:b> .\n", "0/notes.md": "hello"}
    assert read_growing_graph(folder(tmp_path, files)).snapshots[0].num_facts == 2


@pytest.mark.parametrize("prefix", ["", "ENTITY/", "data/ENTITY/"])
def test_archives_equal_folders(tmp_path: Path, prefix: str) -> None:
    files = {f"{prefix}{name}": text for name, text in GROWING.items()}
    packed = read_growing_graph(archive(tmp_path / "ENTITY.zip", files))
    unpacked = read_growing_graph(folder(tmp_path / "ENTITY", files))
    assert same(packed, unpacked)
    assert packed.name == unpacked.name == "ENTITY"


def test_one_of_several_datasets_is_chosen_by_name(tmp_path: Path) -> None:
    files = under("data/ENTITY") | {"data/FACT/0/train.txt": "x\ty\tz\n", "data/README": ""}
    for root in (archive(tmp_path / "all.zip", files), folder(tmp_path / "all", files)):
        assert dataset_names(root) == ["ENTITY", "FACT"]
        assert read_growing_graph(root, "fact").name == "FACT"
        assert len(read_growing_graph(root, "Entity")) == 2
        with pytest.raises(DataError, match="ENTITY, FACT"):
            read_growing_graph(root)
        with pytest.raises(UnknownName, match="'FACT'"):
            read_growing_graph(root, "FACTS")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"0/train.txt": ""}, r"snapshot 0 has no training facts"),
        ({"1/train.txt": "a\tr\tb\n"}, r"snapshot 1 has no training facts"),
        ({"2/valid.txt": "a\tr\tb\n"}, r"/2: snapshot 2 has no training facts"),
        ({"3/train.txt": "a\tr\tx\n"}, r"snapshot 2 is missing before snapshot 3"),
        ({"1/train.csv": "a,r,b\n"}, r"same facts as"),
        ({"01/train.txt": "a\tr\tx\n"}, r"same facts as"),
        ({"1/test.txt": "a\tr\tb\nc\n"}, r"1/test\.txt:2: .*found 1 field"),
        ({"1/test.txt": "a\tr⁻¹\tb\n"}, r"1/test\.txt: .*rename"),
    ],
)
def test_malformed_datasets(tmp_path: Path, changes: Files, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_growing_graph(folder(tmp_path, GROWING | changes))


def test_numbering_from_two_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="snapshot 1 is missing"):
        read_growing_graph(folder(tmp_path, {"2/train.txt": "a\tr\tb\n"}))


def test_facts_that_stood_before_are_left_out(tmp_path: Path) -> None:
    changes = {
        "0/test.txt": "b\tr\ta\na\tr\tc\n",
        "1/train.txt": "d\tq\ta\na\tr\tb\nb\tr\ta\n",
    }
    graph = read_growing_graph(folder(tmp_path, GROWING | changes))
    assert len(graph.snapshots[0].test) == 1
    assert len(graph.snapshots[1].train) == 1
    leak, repeat = graph.warnings
    assert leak.startswith(f"{tmp_path}/0/test.txt:2: ")
    assert "0/valid.txt" in leak
    assert leak.endswith(": 1")
    assert repeat.startswith(f"{tmp_path}/1/train.txt:2: ")
    assert "0/train.txt" in repeat
    assert repeat.endswith(": 2")


def test_warnings_of_single_files_are_passed_on(tmp_path: Path) -> None:
    changes = {"1/train.txt": "d\tq\ta\nd\tq\ta\n"}
    graph = read_growing_graph(folder(tmp_path, GROWING | changes))
    assert len(graph.snapshots[1].train) == 1
    assert graph.warnings[0].startswith(f"{tmp_path}/1/train.txt:2: ")


def test_names_that_no_training_fact_has_shown(tmp_path: Path) -> None:
    changes = {"0/valid.txt": "a\tr\tc\na\tnew\tc\nd\tr\ta\n", "1/test.txt": "d\tnew\tb\n"}
    graph = read_growing_graph(folder(tmp_path, GROWING | changes))
    assert [warning.rsplit(": ", 1)[1] for warning in graph.warnings] == ["2", "1"]
    assert graph.warnings[0].startswith(f"{tmp_path}/0/valid.txt:2: ")
    assert graph.warnings[1].startswith(f"{tmp_path}/1/test.txt:1: ")
    assert graph.snapshots[0].num_entities == 4


def test_missing_or_empty_places(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        read_growing_graph(tmp_path / "none")
    with pytest.raises(DataError, match="holds no snapshots"):
        read_growing_graph(tmp_path)
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(DataError, match="neither a folder nor a zip"):
        read_growing_graph(tmp_path / "text.zip")


@pytest.mark.parametrize(
    "name", ["../0/train.txt", "/0/train.txt", "x/../../0/train.txt", "..\\x", "C:\\x", "C:/x"]
)
def test_unsafe_archive_paths(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "unsafe.zip", GROWING | {name: "a\tr\tb\n"})
    with pytest.raises(DataError, match="unsafe path"):
        read_growing_graph(path)


def test_archives_of_unreasonable_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "large.zip", GROWING)
    monkeypatch.setattr("lkge.data.folders.MAX_MEMBERS", 5)
    with pytest.raises(DataError, match="too many files"):
        read_growing_graph(path)
    monkeypatch.undo()
    monkeypatch.setenv("LKGE_MAX_MEMORY", "20")
    with pytest.raises(DataError, match="LKGE_MAX_MEMORY"):
        read_growing_graph(path)


def test_a_damaged_archive_member(tmp_path: Path) -> None:
    path = tmp_path / "damaged.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as packed:
        packed.writestr("0/train.txt", "subject\tr\tb\n")
    path.write_bytes(path.read_bytes().replace(b"subject", b"sujbect", 1))
    with pytest.raises(DataError, match=r"0/train\.txt: cannot be unpacked"):
        read_growing_graph(path)


def test_two_datasets_of_the_same_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="same name"):
        read_growing_graph(folder(tmp_path, under("one/X") | under("two/X")), "X")


def test_a_written_graph_is_read_back(tmp_path: Path) -> None:
    graph = read_growing_graph(folder(tmp_path / "old", GROWING))
    write_growing_graph(graph, tmp_path / "deep" / "new")
    assert same(graph, read_growing_graph(tmp_path / "deep" / "new"))
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["new"]


facts = st.tuples(st.sampled_from("abcdef"), st.sampled_from("rq"), st.sampled_from("abcdef"))


@settings(max_examples=25, deadline=None)
@given(st.lists(facts, min_size=6, unique=True), st.data())
def test_any_division_survives_a_folder(
    tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("graph")
    files = {"0/train.txt": [facts[0]], "1/train.txt": [facts[1]]}
    places = st.sampled_from([f"{i}/{split}.txt" for i in (0, 1) for split in ("train", "test")])
    for fact in facts[2:]:
        files.setdefault(data.draw(places), []).append(fact)
    texts = {name: "".join("\t".join(fact) + "\n" for fact in held) for name, held in files.items()}
    graph = read_growing_graph(folder(root / "old", texts))
    assert sum(shot.num_facts for shot in graph.snapshots) == len(facts)
    for shot in graph.snapshots:
        every = np.concatenate([shot.train, shot.valid, shot.test])
        assert every[:, [0, 2]].max() < shot.num_entities
        assert every[:, 1].max() < 2 * shot.num_relations
    write_growing_graph(graph, root / "new")
    assert same(graph, read_growing_graph(root / "new"))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    graph = read_growing_graph(folder(tmp_path / "old", GROWING))
    (tmp_path / "empty").mkdir()
    write_growing_graph(graph, tmp_path / "empty")
    (tmp_path / "file").write_text("mine")
    for taken in ("empty", "file"):
        with pytest.raises(DataError, match="choose another"):
            write_growing_graph(graph, tmp_path / taken)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    graph = read_growing_graph(folder(tmp_path / "old", {"0/train.csv": '"a\tb",r,c\n'}))
    with pytest.raises(DataError, match="tab"):
        write_growing_graph(graph, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published archive is not at hand")
@pytest.mark.parametrize(("name", "untrained_tests"), [("ENTITY", 0), ("HYBRID", 19)])
def test_the_published_archive(name: str, untrained_tests: int) -> None:
    started = time.perf_counter()
    graph = read_growing_graph(PUBLISHED, name.lower())
    assert time.perf_counter() - started < 10
    assert graph.name == name
    untrained = [warning for warning in graph.warnings if "/test.txt" in warning]
    assert sum(int(warning.rsplit(" ", 1)[1]) for warning in untrained) == untrained_tests
