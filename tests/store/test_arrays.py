from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import lkge
from lkge.errors import DamagedFile, RunError
from lkge.store import arrays
from lkge.store.array_files import ArrayFile, mapped
from lkge.store.arrays import BLOCK, CHECKSUMS, Patched, taken, write_arrays
from lkge.store.records import FileChecksum

KINDS = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


def of_every_kind() -> dict[str, NDArray[Any]]:
    return {f"array {kind}": np.arange(n).astype(kind) for n, kind in enumerate(KINDS, 1)}


def loaded(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays as others read them, without the block checksums."""
    arrays: dict[str, NDArray[Any]] = safetensors.numpy.load_file(path)
    blocks = arrays.pop(CHECKSUMS)
    assert len(blocks) == -(-sum(array.nbytes for array in arrays.values()) // BLOCK)
    return arrays


def same(mine: dict[str, NDArray[Any]], theirs: dict[str, NDArray[Any]]) -> bool:
    return mine.keys() == theirs.keys() and all(
        mine[name].dtype == array.dtype
        and mine[name].shape == array.shape
        and mine[name].tobytes() == array.tobytes()
        for name, array in theirs.items()
    )


@pytest.mark.parametrize(
    "content",
    [
        of_every_kind(),
        {},
        {"none": np.empty((0, 5), dtype=np.float32)},
        {"none": np.empty((3, 0), dtype=np.int64), "some": np.ones(3, dtype=np.uint8)},
        {"one number": np.array(7.5), "ünï ✓": np.zeros((2, 3, 4), dtype=np.float32)},
        {"turned": np.arange(6).reshape(2, 3).T},
    ],
)
def test_what_is_written_is_a_safetensors_file_and_is_mapped(
    tmp_path: Path, content: dict[str, NDArray[Any]]
) -> None:
    path = tmp_path / "file"
    seal = write_arrays(path, content)
    assert same(loaded(path), content)
    assert same(mapped(path), content)
    data, file = path.read_bytes(), ArrayFile(path, seal)
    file.verify()
    begin = len(data) - file.offset - sum(array.nbytes for array in content.values())
    head = data[: file.offset] + data[len(data) - begin :]
    assert seal == FileChecksum(hashlib.sha256(head).hexdigest(), len(data))


def test_any_order_of_bytes_is_written_as_the_format_has_it(tmp_path: Path) -> None:
    write_arrays(tmp_path / "file", {"big": np.arange(5, dtype=">i4")})
    assert mapped(tmp_path / "file")["big"].tolist() == [0, 1, 2, 3, 4]


def test_what_others_write_is_mapped(tmp_path: Path) -> None:
    safetensors.numpy.save_file(of_every_kind(), tmp_path / "file", metadata={"by": "others"})
    assert same(mapped(tmp_path / "file"), of_every_kind())


def test_numbers_lie_aligned_and_the_order_of_names_is_no_matter(tmp_path: Path) -> None:
    content = of_every_kind()
    first = write_arrays(tmp_path / "first", content)
    second = write_arrays(tmp_path / "second", dict(reversed(content.items())))
    assert first == second
    assert all(array.flags.aligned for array in mapped(tmp_path / "first").values())


def test_a_mapped_array_may_change_and_its_file_does_not(tmp_path: Path) -> None:
    seal = write_arrays(tmp_path / "file", {"a": np.zeros(4)})
    mapped(tmp_path / "file")["a"][:] = 1
    ArrayFile(tmp_path / "file", seal).verify()


def test_a_mapped_array_outlives_its_file(tmp_path: Path) -> None:
    write_arrays(tmp_path / "file", {"a": np.arange(4)})
    array = mapped(tmp_path / "file")["a"]
    (tmp_path / "file").unlink()
    assert array.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("pieces", [[1], [BLOCK], [BLOCK - 1, 2], [3, BLOCK, 2 * BLOCK, 5], [0]])
def test_every_block_has_its_checksum(tmp_path: Path, pieces: list[int]) -> None:
    """However the pieces are cut."""
    content = {f"{n}": np.arange(size, dtype=np.uint8) for n, size in enumerate(pieces)}
    write_arrays(tmp_path / "file", content)
    data = b"".join(array.tobytes() for array in content.values())
    blocks = safetensors.numpy.load_file(tmp_path / "file")[CHECKSUMS]
    parts = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]
    assert blocks.tolist() == [zlib.crc32(part) for part in parts]


@pytest.mark.parametrize("width", [1, 100, 1024, 1500, 5000])
def test_a_flipped_bit_in_rows_that_are_read_is_noticed(tmp_path: Path, width: int) -> None:
    path, rows = tmp_path / "file", 40
    table = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    seal = write_arrays(path, {"a": np.zeros(7, np.uint8), "table": table})
    whole, offset = path.read_bytes(), ArrayFile(path, seal).place("table")
    for row in (0, 7, rows - 1):
        for inside in (0, 4 * width - 1):
            data = bytearray(whole)
            data[offset + row * 4 * width + inside] ^= 4
            path.write_bytes(data)
            file = ArrayFile(path, seal)
            with pytest.raises(DamagedFile, match="digest differs at byte"):
                file.verify_rows("table", np.array([row]))
            with pytest.raises(DamagedFile):
                file.verify_array("table")
            with pytest.raises(DamagedFile):
                file.verify()
            far = [other for other in range(rows) if abs(other - row) > 1 + 2 * BLOCK // width]
            ArrayFile(path, seal).verify_rows("table", np.array(far, dtype=np.int64))


def test_a_flipped_bit_in_the_header_or_the_checksums_is_noticed_at_once(tmp_path: Path) -> None:
    path, table = tmp_path / "file", np.arange(3000, dtype=np.float32)
    seal = write_arrays(path, {"table": table})
    whole = path.read_bytes()
    offset = ArrayFile(path, seal).offset
    for place in [*range(offset), *range(offset + table.nbytes, len(whole))]:
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        with pytest.raises(DamagedFile):
            ArrayFile(path, seal)


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    write_arrays(tmp_path / "file", {})
    with pytest.raises(RunError, match="file: cannot be written: File exists"):
        write_arrays(tmp_path / "file", {})


# Patched tables


@st.composite
def patched(draw: st.DrawFn) -> Patched:
    base, width, extra = (draw(st.integers(0, most)) for most in (40, 3, 10))
    rows = sorted(draw(st.sets(st.integers(0, base - 1)))) if base else []
    kind = draw(st.sampled_from([np.float32, np.int64]))

    def table(count: int, sign: int) -> NDArray[Any]:
        return sign * np.arange(1, count * width + 1).astype(kind).reshape(count, width)

    return Patched(
        table(base, 1), np.array(rows, dtype=np.int64), table(len(rows), -1), table(extra, -3)
    )


def whole(table: Patched) -> NDArray[Any]:
    base = table.base.copy()
    base[table.rows] = table.values
    return np.concatenate([base, table.appended])


@settings(deadline=None)
@given(table=patched(), piece=st.integers(1, 100))
def test_a_patched_table_is_written_as_if_it_were_whole(
    tmp_path_factory: pytest.TempPathFactory, table: Patched, piece: int
) -> None:
    folder = tmp_path_factory.mktemp("patched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "PIECE", piece)
        seal = write_arrays(folder / "patched", {"table": table})
    assert seal == write_arrays(folder / "whole", {"table": whole(table)})
    assert table.shape == whole(table).shape
    assert same(loaded(folder / "patched"), {"table": whole(table)})


ROWS = np.array([0, 2])


@pytest.mark.parametrize(
    ("rows", "values", "appended"),
    [
        (np.array([2, 0]), np.ones((2, 2)), np.ones((1, 2))),
        (np.array([1, 1]), np.ones((2, 2)), np.ones((1, 2))),
        (np.array([0, 3]), np.ones((2, 2)), np.ones((1, 2))),
        (np.array([-1, 0]), np.ones((2, 2)), np.ones((1, 2))),
        (ROWS, np.ones((1, 2)), np.ones((1, 2))),
        (ROWS, np.ones((2, 3)), np.ones((1, 2))),
        (ROWS, np.ones((2, 2)), np.ones((1, 3))),
        (ROWS, np.ones((2, 2), dtype=np.float32), np.ones((1, 2))),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    rows: NDArray[np.int64], values: NDArray[Any], appended: NDArray[Any]
) -> None:
    with pytest.raises(ValueError, match="rows"):
        Patched(np.zeros((3, 2)), rows, values, appended)


def test_no_table_is_ever_copied_as_a_whole(tmp_path: Path) -> None:
    base = np.zeros((1 << 18, 16), dtype=np.float32)
    table = Patched(base, np.array([5]), base[:1] + 1, base[:0])
    tracemalloc.start()
    write_arrays(tmp_path / "file", {"patched": table, "plain": base.T[:, ::2]})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < base.nbytes


SCRIPT = """
import sys, numpy as np
from pathlib import Path
from lkge.store.array_files import mapped
from lkge.store.arrays import Patched, taken, write_arrays

def resident():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10

folder = Path(sys.argv[1])
base = mapped(folder / "base")["table"]
before = resident()
table = Patched(base, np.array([5]), np.ones((1, 256), np.float32), base[:0])
write_arrays(folder / "patched", {"table": table})
rows = taken(base, np.arange(0, len(base), 97))
print(resident() - before, rows.nbytes, base[7, 0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the hint to the system is Linux's")
def test_a_mapped_table_is_not_kept_in_memory_while_it_is_copied(tmp_path: Path) -> None:
    size = 1 << 26
    write_arrays(tmp_path / "base", {"table": np.full((size >> 10, 256), 3, dtype=np.float32)})
    source = str(Path(lkge.__file__).parents[1])
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    told = subprocess.run(
        command, env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    grown, taken_bytes, seventh = told.stdout.split()
    assert int(grown) < size / 2 + int(taken_bytes)
    assert float(seventh) == 3, "what was let go is there when it is looked at"
    copy = mapped(tmp_path / "patched")["table"]
    assert (copy[5, 0], copy[6, 0], copy[7, 0]) == (1, 3, 3)


# Damage


def with_header(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        b"\xff" * 8,
        (9).to_bytes(8, "little") + b"{}",
        with_header(b"{"),
        with_header(b"\xff\xfe"),
        with_header([]),
        with_header({"a": 1}),
        with_header({"a": {}}),
        with_header({}, b"\0"),
        with_header({"a": entry()}, b"\0" * 7),
        with_header({"a": entry()}, b"\0" * 9),
        with_header({"a": entry(dtype="F33")}, b"\0" * 8),
        with_header({"a": entry(dtype=[])}, b"\0" * 8),
        with_header({"a": entry(shape=(3,))}, b"\0" * 8),
        with_header({"a": entry(shape=(-1, -2))}, b"\0" * 8),
        with_header({"a": entry(shape=(2.0,))}, b"\0" * 8),
        with_header({"a": entry(offsets=(8, 0))}, b"\0" * 8),
        with_header({"a": entry(offsets=(-8, 0))}, b"\0" * 8),
        with_header({"a": entry(offsets=(0,))}, b"\0" * 8),
        with_header({"a": entry(), "b": entry()}, b"\0" * 8),
        with_header({"a": entry(), "b": entry(offsets=(9, 17))}, b"\0" * 17),
    ],
)
def test_a_file_that_cannot_be_is_damaged(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(DamagedFile, match="file: damaged, "):
        mapped(tmp_path / "file")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="file: cannot be read: No such file"):
        mapped(tmp_path / "file")


def test_no_truncation_goes_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_arrays(path, of_every_kind())
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(DamagedFile):
            mapped(path)


@given(
    old=st.integers(0, 40),
    appended=st.integers(0, 10),
    replaced=st.sets(st.integers(0, 39)),
    wanted=st.sets(st.integers(0, 49)),
)
def test_taken_rows_are_those_of_the_whole(
    old: int, appended: int, replaced: set[int], wanted: set[int]
) -> None:
    rows = np.array(sorted(row for row in replaced if row < old), dtype=np.int64)
    base = np.arange(2 * old, dtype=np.float32).reshape(old, 2)
    table = Patched(base, rows, -base[rows] - 1, np.full((appended, 2), 7, np.float32))
    whole = np.concatenate([base, table.appended])
    whole[rows] = table.values
    ids = np.array(sorted(row for row in wanted if row < len(whole)), dtype=np.int64)
    assert np.array_equal(taken(table, ids), whole[ids])
    assert np.array_equal(taken(whole, ids), whole[ids])
