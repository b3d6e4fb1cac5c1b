"""Folders that a newer release wrote, or that point outside."""

import os
from pathlib import Path

import pytest

import lkge
from lkge.data.checked_json import read_checked_json, write_checked_json
from lkge.data.files import remove
from lkge.errors import DamagedFile, NewerFormat, RunError
from lkge.store.backup import backup
from lkge.store.checking import check
from lkge.store.graph import LivingGraph
from lkge.store.records import FORMAT
from lkge.store.repairing import repair
from lkge.store.versions import OWN_FILES, OWN_FOLDERS, Store

FACTS = [(f"n{n}", "r", f"n{n * n % 17}") for n in range(60)]
QUICK = {"dim": 8, "max_epochs": 2, "backend": "torch"}


@pytest.fixture
def graph(tmp_path: Path) -> LivingGraph:
    graph = lkge.init(tmp_path / "KG", **QUICK)  # type: ignore[arg-type]
    graph.add(FACTS)
    return graph


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rewrite(manifest: Path, **changes: object) -> None:
    """Change a file and give it the right checksum."""
    write_checked_json(manifest, read_checked_json(manifest) | changes)


@pytest.mark.parametrize("file", ["store.json", "versions/000001.json"])
def test_what_a_newer_release_wrote_is_refused_and_not_repaired(
    graph: LivingGraph, file: str
) -> None:
    folder, store = graph.store.folder, graph.store
    rewrite(folder / file, format={"reader": FORMAT + 1, "writer": FORMAT + 1})
    before = contents(folder)
    with pytest.raises(NewerFormat, match="by a newer release; upgrade lkge"):
        check(store)
    with pytest.raises(NewerFormat):
        repair(store)
    with pytest.raises(NewerFormat):
        LivingGraph(folder).add([("a", "r", "b")])
    assert {path: data for path, data in contents(folder).items() if path in before} == before


@pytest.mark.parametrize("name", ["/etc/model.safetensors", "../../x.json", "a/b.json", "x.pickle"])
def test_a_manifest_names_files_of_its_own_folder_only(
    graph: LivingGraph, tmp_path: Path, name: str
) -> None:
    foreign = tmp_path / "x.json"
    foreign.write_text("mine", encoding="utf-8")
    manifest = graph.store.manifest_file(1)
    files = read_checked_json(manifest)["files"]
    rewrite(manifest, files=files | {"model": [{"sha256": "0" * 64, "bytes": 4, "name": name}]})
    with pytest.raises(DamagedFile):
        graph.store.manifest(1)
    repair(graph.store)
    assert foreign.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    "name",
    ["inbox", "learning", "versions", "data", "log.jsonl", "damaged", "store.json", "tags.json"],
)
def test_a_link_in_the_folder_of_a_store_is_refused(
    graph: LivingGraph, tmp_path: Path, name: str
) -> None:
    place, elsewhere = graph.store.folder / name, tmp_path / "elsewhere"
    if place.exists():
        place.rename(elsewhere)
    else:
        elsewhere.mkdir()
    place.symlink_to(elsewhere)
    with pytest.raises(RunError, match="a symbolic link"):
        lkge.open(graph.store.folder)


@pytest.mark.parametrize("name", [*OWN_FILES, *OWN_FOLDERS[1:]])
def test_a_pipe_in_the_folder_of_a_store_is_refused_at_once(graph: LivingGraph, name: str) -> None:
    place = graph.store.folder / name
    remove(place)
    os.mkfifo(place)
    with pytest.raises(RunError, match="remove what is in its place"):
        lkge.open(graph.store.folder)


@pytest.mark.parametrize("name", ["data", "versions", "inbox", "tags.json", "log.jsonl"])
def test_a_backup_follows_no_link_in_its_target(
    graph: LivingGraph, tmp_path: Path, name: str
) -> None:
    target, outside = tmp_path / "copy", tmp_path / "outside"
    backup(graph.store, target)
    place = target / name
    remove(place)
    outside.mkdir()
    (outside / ".mine.01234567.part").touch()
    place.symlink_to(outside)
    graph.add([("a", "r", "b")])
    with pytest.raises(RunError, match="a symbolic link"):
        backup(graph.store, target)
    assert [path.name for path in outside.iterdir()] == [".mine.01234567.part"]


@pytest.mark.parametrize("kind", ["model", "batch"])
def test_a_backup_and_a_check_do_not_wait_for_a_pipe(
    graph: LivingGraph, tmp_path: Path, kind: str
) -> None:
    (path,) = graph.store.paths(1, kind)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RunError, match=path.name):
        backup(graph.store, tmp_path / "copy")
    assert str(path) in {damage.path for damage in check(graph.store)}


@pytest.mark.parametrize("name", ["writer.lock", "inbox.lock"])
def test_a_link_in_place_of_a_lock_is_not_followed(
    graph: LivingGraph, tmp_path: Path, name: str
) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_text("mine", encoding="utf-8")
    lock = graph.store.folder / name
    lock.unlink(missing_ok=True)
    lock.symlink_to(foreign)
    with pytest.raises(RunError):
        graph.add([("a", "r", "b")])
    assert foreign.read_text(encoding="utf-8") == "mine"


def test_a_version_behind_a_link_is_not_whole(graph: LivingGraph, tmp_path: Path) -> None:
    (file,) = graph.store.paths(1, "model")
    file.rename(tmp_path / "model")
    file.symlink_to(tmp_path / "model")
    assert not graph.store.is_whole(1)
    assert Store(graph.store.folder).newest() == 0
