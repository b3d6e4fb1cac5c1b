"""An update that was interrupted, whose checkpoint is absent, partial, damaged or of another."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.store.living import QUICK, made, ring

from lkge.data.checked_json import read_checked_json, write_checked_json
from lkge.living import open as open_graph
from lkge.store.records import StoreConfig
from lkge.training.checkpoint import MANIFEST, Checkpoints
from lkge.training.events import EpochFinished, Event

NEW = ring(38, 60)
EAGER = StoreConfig(seconds_between_checkpoints=0)


def stop_at_epoch_3(event: Event) -> None:
    if isinstance(event, EpochFinished) and event.epoch == 3:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A graph whose second add was interrupted after two epochs, and one where it went through."""
    folder = tmp_path_factory.mktemp("interrupted")
    graph = made(folder / "KG", backend="torch")
    shutil.copytree(folder / "KG", folder / "whole")
    open_graph(folder / "whole").add(NEW)
    with pytest.raises(KeyboardInterrupt):
        open_graph(graph.store.folder, store_config=EAGER).add(NEW, listener=stop_at_epoch_3)
    return folder / "KG", folder / "whole"


def checkpoint_of(kg: Path) -> Path:
    (folder,) = (kg / "learning").iterdir()
    return folder


def rewrite(manifest: Path, **changes: object) -> None:
    write_checked_json(manifest, read_checked_json(manifest) | changes)


def tensors_of(folder: Path) -> Path:
    (tensors,) = folder.glob("epoch-*")
    return tensors


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def linked(folder: Path) -> None:
    elsewhere = folder.parents[2] / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)


def in_its_place(path: Path, make: Callable[[Path], object]) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    make(path)


def other_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Tensors that another training could have saved, with the right digests."""
    checkpoints = Checkpoints(folder)
    saved = checkpoints.load()
    assert saved is not None
    assert saved.epoch is not None
    change(saved.epoch)
    checkpoints.save_epoch(saved.epoch, saved.progress)


def shorten(tensors: dict[str, torch.Tensor]) -> None:
    tensors["tables.entity"] = tensors["tables.entity"][:3]


def drop(part: str) -> Callable[[dict[str, torch.Tensor]], None]:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if name.startswith(part)]:
            del tensors[name]

    return change


def progress(folder: Path, **changes: object) -> None:
    manifest = folder / MANIFEST
    saved = read_checked_json(manifest)["progress"]
    rewrite(manifest, progress=saved | {"course": saved["course"] | changes})


ABSENT: dict[str, Callable[[Path], object]] = {
    "no folder": shutil.rmtree,
    "an empty folder": lambda folder: in_its_place(folder, Path.mkdir),
    "no manifest": lambda folder: (folder / MANIFEST).unlink(),
    "a file in place of the folder": lambda folder: in_its_place(folder, Path.touch),
    "a link in place of the folder": linked,
    "a folder for the start only": lambda folder: Checkpoints(folder).save_start({}, {}),
}
"""What is no checkpoint: nothing is said of it."""
DAMAGED: dict[str, Callable[[Path], object]] = {
    "no tensors": lambda folder: tensors_of(folder).unlink(),
    "half of the tensors": lambda folder: halve(tensors_of(folder)),
    "no byte of the tensors": lambda folder: os.truncate(tensors_of(folder), 0),
    "a flipped bit in the tensors": lambda folder: flip(tensors_of(folder)),
    "a pipe for tensors": lambda folder: in_its_place(tensors_of(folder), os.mkfifo),
    "half of the manifest": lambda folder: halve(folder / MANIFEST),
    "an empty manifest": lambda folder: os.truncate(folder / MANIFEST, 0),
    "a flipped bit in the manifest": lambda folder: flip(folder / MANIFEST),
    "a list for manifest": lambda folder: (folder / MANIFEST).write_text("[]", encoding="utf-8"),
    "a folder for manifest": lambda folder: in_its_place(folder / MANIFEST, Path.mkdir),
    "another format": lambda folder: rewrite(folder / MANIFEST, format=99),
    "no files": lambda folder: rewrite(folder / MANIFEST, files=[1]),
    "no progress": lambda folder: rewrite(folder / MANIFEST, progress=None),
    "a file outside": lambda folder: rewrite(
        folder / MANIFEST, files={"epoch": {"name": "/dev/zero", "sha256": "0"}}
    ),
    "tensors of another shape": lambda folder: other_tensors(folder, shorten),
    "no tables": lambda folder: other_tensors(folder, drop("tables.")),
    "no sums": lambda folder: other_tensors(folder, drop("sums.")),
    "words for epochs": lambda folder: progress(folder, epochs="two"),
}


@pytest.mark.parametrize("case", [*ABSENT, *DAMAGED])
def test_training_begins_anew_and_the_add_ends_as_if_never_interrupted(
    graphs: tuple[Path, Path], tmp_path: Path, case: str
) -> None:
    kg = Path(shutil.copytree(graphs[0], tmp_path / "KG"))
    place = checkpoint_of(kg)
    (ABSENT | DAMAGED)[case](place)
    outside = tmp_path / "elsewhere"
    before = {path: path.read_bytes() for path in outside.rglob("*")}
    graph = open_graph(kg)
    (record,) = graph.learn_waiting()
    whole = open_graph(graphs[1]).reader.model_arrays
    assert all(np.array_equal(graph.reader.model_arrays[name], whole[name]) for name in whole)
    assert record.version == 2
    assert list((kg / "learning").iterdir()) == []
    assert {path: path.read_bytes() for path in outside.rglob("*")} == before
    said = [warning for warning in record.warnings if "begins anew" in warning]
    assert len(said) == (case in DAMAGED)
    assert all(warning.startswith(f"{place}: ") for warning in said)


def test_a_checkpoint_that_fits_is_resumed(graphs: tuple[Path, Path], tmp_path: Path) -> None:
    kg = shutil.copytree(graphs[0], tmp_path / "KG")
    epochs: list[int] = []

    def note(event: Event) -> None:
        if isinstance(event, EpochFinished):
            epochs.append(event.epoch)

    (record,) = open_graph(kg).learn_waiting(note)
    assert epochs[0] == 3
    assert not any("anew" in warning for warning in record.warnings)
    assert QUICK["max_epochs"] >= 3


def small(folder: Path) -> Path:
    Checkpoints(folder).save_epoch({"a": torch.arange(4.0)}, {"course": {"epochs": 1}})
    return folder


@pytest.mark.parametrize("name", [MANIFEST, "epoch-1.safetensors"])
def test_every_truncation_and_every_flipped_byte_is_as_none(tmp_path: Path, name: str) -> None:
    folder = small(tmp_path / "checkpoint")
    files = {path: path.read_bytes() for path in folder.iterdir()}
    data = files[folder / name]
    damages = [data[:end] for end in range(len(data))]
    damages += [data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :] for at in range(len(data))]
    for damaged in damages:
        folder.mkdir(exist_ok=True)
        for path, whole in files.items():
            path.write_bytes(damaged if path.name == name else whole)
        said: list[str] = []
        saved = Checkpoints(folder).load_or_remove(said.append)
        if saved is None:
            assert str(folder) in said[0]
            assert not folder.exists()
        else:  # white space of the manifest
            assert json.loads(damaged) == json.loads(data)
            assert not said
