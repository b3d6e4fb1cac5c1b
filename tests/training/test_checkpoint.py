from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from tests.faults import FullDisk, failing

from lkge.data.checked_json import read_checked_json, write_checked_json
from lkge.errors import DamagedFile, LkgeError, RunError
from lkge.training import checkpoint
from lkge.training.checkpoint import MANIFEST, Checkpoints, Saved, read_tensors, write_tensors

Save = Callable[[Checkpoints], None]

START = {"tables.entity": torch.arange(6.0).reshape(3, 2), "method.facts": torch.tensor([1, 2])}
EPOCH = {"tables.entity": torch.arange(6.0).reshape(3, 2) / 7, "steps": torch.tensor([4, 5, 6])}
LATER = {"tables.entity": torch.full((4, 2), 0.5)}


def save_start(checkpoints: Checkpoints) -> None:
    checkpoints.save_start(LATER, {"course": None, "stage": "new"})


def save_epoch(checkpoints: Checkpoints) -> None:
    checkpoints.save_epoch(LATER, {"course": {"epochs": 2}, "stage": "new"})


SAVES = pytest.mark.parametrize("save", [save_start, save_epoch])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint after one epoch of the first snapshot."""
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    checkpoints.save_start(START, {"course": None})
    checkpoints.save_epoch(EPOCH, {"course": {"epochs": 1}, "stage": "old"})
    return checkpoints.folder


def loaded(folder: Path) -> Saved:
    saved = Checkpoints(folder).load()
    assert saved is not None
    return saved


def gone_on(folder: Path) -> Checkpoints:
    """The checkpoint as a new process takes it up."""
    checkpoints = Checkpoints(folder)
    checkpoints.load()
    return checkpoints


def content(saved: Saved) -> dict[str, Any]:
    """Comparable with ==, to the bit."""
    parts = {"start": saved.start, "epoch": saved.epoch}
    return {
        "progress": saved.progress,
        **{
            part: tensors and {name: (t.dtype, t.tolist()) for name, t in tensors.items()}
            for part, tensors in parts.items()
        },
    }


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_is_loaded(folder: Path) -> None:
    saved = loaded(folder)
    assert saved.progress == {"course": {"epochs": 1}, "stage": "old"}
    assert saved.epoch is not None
    for mine, theirs in ((saved.start, START), (saved.epoch, EPOCH)):
        assert mine.keys() == theirs.keys()
        assert all(mine[name].equal(theirs[name]) for name in theirs)
        assert all(mine[name].dtype == theirs[name].dtype for name in theirs)


def test_without_a_checkpoint_there_is_nothing_to_load(tmp_path: Path) -> None:
    assert not Checkpoints(tmp_path / "absent").exists
    assert Checkpoints(tmp_path / "absent").load() is None


def test_a_new_start_forgets_the_last_epoch(folder: Path) -> None:
    save_start(gone_on(folder))
    saved = loaded(folder)
    assert saved.epoch is None
    assert saved.start["tables.entity"].equal(LATER["tables.entity"])
    assert len(file_names(folder)) == 2


def test_an_epoch_keeps_the_start(folder: Path) -> None:
    save_epoch(gone_on(folder))
    saved = loaded(folder)
    assert saved.start["tables.entity"].equal(START["tables.entity"])
    assert saved.epoch is not None
    assert saved.epoch["tables.entity"].equal(LATER["tables.entity"])
    assert len(file_names(folder)) == 3


def test_transposed_tensors_are_saved_as_they_look(tmp_path: Path) -> None:
    table = torch.arange(6.0).reshape(2, 3).t()
    digest = write_tensors(tmp_path / "t.safetensors", {"t": table})
    assert read_tensors(tmp_path / "t.safetensors", digest)["t"].equal(table)


def test_a_single_number_is_saved_whatever_its_stride(tmp_path: Path) -> None:
    number = torch.tensor([7, 8], dtype=torch.int32).as_strided((1,), (0,))
    digest = write_tensors(tmp_path / "t.safetensors", {"t": number})
    assert read_tensors(tmp_path / "t.safetensors", digest)["t"].tolist() == [7]


def test_strays_of_a_crash_are_cleaned_up(folder: Path) -> None:
    (folder / ".epoch-3.safetensors.0a1b.part").write_bytes(b"half a fi")
    (folder / "epoch-3.safetensors").write_bytes(b"whole, but never named")
    assert content(loaded(folder))["progress"]["stage"] == "old"
    save_epoch(gone_on(folder))
    assert len(file_names(folder)) == 3
    assert loaded(folder).progress["stage"] == "new"


# A disk that fails


@SAVES
@pytest.mark.parametrize(
    ("operation", "old"),
    [("write", [True] * 3), ("replace", [True] * 2), ("fsync", [True] * 3 + [False])],
)
def test_a_full_disk_at_any_moment_spoils_nothing(
    folder: Path, tmp_path: Path, save: Save, operation: str, old: list[bool]
) -> None:
    """`old`: at which failures the last checkpoint still holds; after them, the new one does."""
    before = content(loaded(folder))
    stages = []
    for calls in range(100):
        place = tmp_path / f"{calls}"
        shutil.copytree(folder, place)
        checkpoints, disk = gone_on(place), FullDisk(calls)
        if _saves(save, checkpoints, operation, disk):
            break
        after = content(loaded(place))
        stages.append(after == before)
        assert after == before or after["progress"]["stage"] == "new"
        assert not list(place.glob(".*.part"))
        save(gone_on(place))
        assert loaded(place).progress["stage"] == "new"
        assert len(file_names(place)) == (2 if save is save_start else 3)
    assert stages == old


def _saves(save: Save, checkpoints: Checkpoints, operation: str, disk: FullDisk) -> bool:
    """Whether the save went through, the disk being as it is."""
    with failing(disk, operation), suppress(OSError):
        save(checkpoints)
    return not disk.failed


@SAVES
def test_what_cannot_be_cleaned_up_does_no_harm(folder: Path, save: Save) -> None:
    checkpoints = gone_on(folder)
    assert not _saves(save, checkpoints, "unlink", FullDisk(0))
    assert loaded(folder).progress["stage"] == "new"


def test_a_removal_that_is_cut_short_leaves_no_broken_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", _crash)
        with pytest.raises(KeyboardInterrupt):
            Checkpoints(folder).remove()
    assert file_names(folder) == ["epoch-2.safetensors", "start-1.safetensors"]
    assert Checkpoints(folder).load() is None
    Checkpoints(folder).remove()
    assert not folder.exists()
    Checkpoints(folder).remove()


def _crash(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


# A disk that lies


@pytest.mark.parametrize("name", ["start-1.safetensors", "epoch-2.safetensors"])
@pytest.mark.parametrize("damage", ["truncated", "emptied", "flipped", "longer", "missing"])
def test_damage_is_noticed_and_the_file_named(folder: Path, name: str, damage: str) -> None:
    path = folder / name
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        data[len(data) // 2] ^= damage == "flipped"
        ends = {"truncated": len(data) - 1, "emptied": 0}
        path.write_bytes(data[: ends.get(damage)] + (b"\0" if damage == "longer" else b""))
    with pytest.raises(DamagedFile) as caught:
        Checkpoints(folder).load()
    assert str(path) in str(caught.value)


def test_any_flipped_bit_of_the_manifest_is_noticed_or_harmless(folder: Path) -> None:
    path, before = folder / MANIFEST, content(loaded(folder))
    data = path.read_bytes()
    noticed = 0
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            harmless = content(loaded(folder)) == before
        except LkgeError as error:
            harmless = str(folder) in str(error)
            noticed += 1
        assert harmless
    assert noticed > len(data) / 2


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "{",
        "{}",
        "[]",
        "null",
        '"text"',
        '{"format": 1}',
        '{"seal": null}',
        '{"checksum": null}',
        "\x00\x00",
    ],
)
def test_a_manifest_that_is_none_is_damaged(folder: Path, garbage: str) -> None:
    (folder / MANIFEST).write_text(garbage)
    with pytest.raises(DamagedFile) as caught:
        Checkpoints(folder).load()
    assert str(folder / MANIFEST) in str(caught.value)


def test_bytes_that_are_no_text_are_damaged(folder: Path) -> None:
    (folder / MANIFEST).write_bytes(b"\xff\xfe{}")
    with pytest.raises(DamagedFile, match=MANIFEST):
        Checkpoints(folder).load()


def test_another_format_is_refused(folder: Path) -> None:
    manifest = read_checked_json(folder / MANIFEST)
    write_checked_json(folder / MANIFEST, {**manifest, "format": 99})
    with pytest.raises(RunError, match=r"manifest\.json: written in another format"):
        Checkpoints(folder).load()


def test_the_former_name_of_the_checksum_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_checked_json(path, {"number": 1})
    tree = json.loads(path.read_text())
    path.write_text(json.dumps({"number": 1, "seal": tree["checksum"]}))
    assert read_checked_json(path) == {"number": 1}
    path.write_text(json.dumps({"number": 2, "seal": tree["checksum"]}))
    with pytest.raises(DamagedFile):
        read_checked_json(path)


def test_a_checked_file_is_strict_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_checked_json(tmp_path / "file", {"number": float("nan")})
    assert not list(tmp_path.iterdir())


def test_there_is_no_pickle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((pickle, "dump"), (pickle, "load"), (torch, "save"), (torch, "load")):
        monkeypatch.setattr(module, name, _crash)
    save_epoch(gone_on(folder))
    assert loaded(folder).progress["stage"] == "new"
    for path in folder.iterdir():
        data = path.read_bytes()
        if path.name == MANIFEST:
            assert isinstance(json.loads(data), dict)
            continue
        assert path.suffix == ".safetensors"
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        ends = [header[name]["data_offsets"][1] for name in header if name != "__metadata__"]
        assert max(ends) == len(data) - 8 - size


def test_a_file_is_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "PIECE", 7)
    tensors = {
        "b.entity": torch.randn(5, 3),
        "a.entity": torch.randn(3, 5).T,
        "steps": torch.tensor([3]),
        "touched": torch.tensor([1, 0, 1], dtype=torch.uint8),
        "counts": torch.arange(4, dtype=torch.int32),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
    }
    digest = checkpoint.write_tensors(tmp_path / "file", tensors)
    found = checkpoint.read_tensors(tmp_path / "file", digest)
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    assert all(found[name].dtype == tensors[name].dtype for name in tensors)


def test_saving_takes_a_small_share_of_the_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, saved = [0.0], []
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])

    class Slow(Checkpoints):
        def save_epoch(self, tensors: object, progress: object) -> None:
            now[0] += 10.0
            saved.append(now[0])

    saver = checkpoint.CheckpointSaver(Slow(folder), interval=2.0)
    for _ in range(300):
        now[0] += 5.0
        saver.save(lambda: ({}, {}))
    assert len(saved) > 3
    assert 10.0 * len(saved) < 0.06 * now[0] + 10.0
