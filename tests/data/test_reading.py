"""What is no regular file is refused, and no file takes more memory than is allowed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lkge.data.facts import read_facts
from lkge.data.folders import read_growing_graph
from lkge.data.reading import max_memory, read_regular
from lkge.errors import DataError, SettingsError

LINES = b"a\tr\tb\n" * 2_000_000


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


def parquet(path: Path) -> None:
    """Few bytes: a million times the same fact with a long name."""
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int32()), ["x" * 100_000])
    short = pa.array(["a"] * 1_000_000).dictionary_encode()
    pq.write_table(pa.table({"subject": long, "relation": short, "object": short}), path)


def turtle(path: Path) -> None:
    """Short names that stand for long ones."""
    path.write_bytes(b"@prefix x: <x:%s> .\n" % (b"y" * 100_000) + b"x:a x:b x:c .\n" * 50_000)


def rdf_xml(path: Path) -> None:
    """A short entity that is used often."""
    declared = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e "%s">]><x>' % (b"y" * 100_000)
    path.write_bytes(declared + b"<!--%s-->" % (b" " * 1_000_000) + b"&e;" * 500 + b"</x>")


def archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("0/train.txt", LINES)


BOMBS: dict[str, Callable[[Path], object]] = {
    "f.tsv.gz": lambda path: path.write_bytes(gzip.compress(LINES, 1)),
    "f.csv.bz2": lambda path: path.write_bytes(bz2.compress(b"," * len(LINES), 1)),
    "f.nt.xz": lambda path: path.write_bytes(lzma.compress(LINES, preset=0)),
    "f.tsv.zst": lambda path: path.write_bytes(zstd(LINES)),
    "f.parquet": parquet,
    "f.ttl": turtle,
    "f.trig": lambda path: path.write_bytes(b"<x:a> <x:r> " + b"(" * 1_000_000),
    "f.rdf": rdf_xml,
    "f.jsonl.gz": lambda path: path.write_bytes(gzip.compress(b'["a","r","b"]\n' * 2_000_000, 1)),
    "f.jsonld.gz": lambda path: path.write_bytes(gzip.compress(b"[{}," * 9_000_000, 1)),
    "f.zip": archive,
}
SCRIPT = """
import resource, sys
import pyarrow.parquet, pyoxigraph
from lkge.data.catalog import load
from lkge.data.facts import read_facts
from lkge.errors import DataError

def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = used()
for name in sys.argv[1:]:
    try:
        load(name) if name.endswith(".zip") else read_facts(name)
        print(name, "was read")
    except DataError as error:
        if "LKGE_MAX_MEMORY=1GB" not in str(error):
            print(error)
if used() - before > 150_000_000:
    print("memory", used() - before)
"""


def test_files_that_unpack_to_far_more_are_refused_within_the_limit(tmp_path: Path) -> None:
    for name, make in BOMBS.items():
        make(tmp_path / name)
        assert (tmp_path / name).stat().st_size < 2_000_000
    names = [*(str(tmp_path / name) for name in BOMBS)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *names],
        capture_output=True,
        text=True,
        env={**os.environ, "LKGE_MAX_MEMORY": "50 MB"},
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_file_within_the_limit_is_read_whatever_its_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LKGE_MAX_MEMORY", "50MB")
    path = tmp_path / "f.tsv.gz"
    path.write_bytes(gzip.compress(LINES[:60_000]))
    assert list(read_facts(path)) == [("a", "r", "b")]


@pytest.mark.parametrize("name", ["f.tsv", "f.tsv.gz", "f.zip"])
def test_a_pipe_and_a_device_are_refused_at_once(tmp_path: Path, name: str) -> None:
    read = read_growing_graph if name.endswith("zip") else read_facts
    os.mkfifo(tmp_path / name)
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / name).symlink_to("/dev/zero")
    for path in (tmp_path / name, tmp_path / "device" / name):
        with pytest.raises(DataError, match="not a regular file"):
            read(path)


def test_a_pipe_that_is_meant_is_read() -> None:
    for said in ("/dev/fd", "/proc/self/fd"):
        reading, writing = os.pipe()
        os.write(writing, b"a = 1")
        os.close(writing)
        assert read_regular(f"{said}/{reading}") == b"a = 1"
        os.close(reading)


def test_a_file_larger_than_its_limit_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than the limit of 4 bytes"):
        read_regular(path, 4)
    os.truncate(path, 10**13)  # takes no room on the disk
    monkeypatch.setattr("lkge.data.reading._pieces", lambda *_: pytest.fail("it was read"))
    with pytest.raises(OSError, match="larger than the limit"):
        read_regular(path)


def test_a_link_is_followed_only_where_it_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == b"1"
    with pytest.raises(OSError, match="symbolic links"):
        read_regular(tmp_path / "link", follow=False)


@pytest.mark.parametrize(
    ("text", "limit"),
    [("1000", 1000), ("500 MB", 500 * 10**6), ("8g", 8 * 10**9), ("8GB", 8 * 10**9), ("7 b", 7)],
)
def test_the_limit_is_a_size(text: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LKGE_MAX_MEMORY", text)
    assert max_memory() == limit


@pytest.mark.parametrize("text", ["much", "-1", "8 PB", "1e9", "GB", "9" * 16])
def test_what_is_no_size_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LKGE_MAX_MEMORY", text)
    with pytest.raises(SettingsError, match="write bytes, or such as 500MB or 8GB"):
        max_memory()


def test_by_default_half_of_the_memory_may_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LKGE_MAX_MEMORY", raising=False)
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < max_memory() <= machine // 2


def test_parquet_with_names_that_are_no_utf8_or_that_repeat(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    column = pa.array(["a"])
    pq.write_table(pa.table([column] * 3, ["subject", "relation", "objects"]), path)
    path.write_bytes(path.read_bytes().replace(b"objects", b"\xffbjects"))
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_facts(path)
    pq.write_table(pa.table([column] * 4, ["subject", "relation", "object", "object"]), path)
    with pytest.raises(DataError, match="not clear which column"):
        read_facts(path)


def test_parquet_whose_statistics_contradict_themselves(tmp_path: Path) -> None:
    """It must not end the process: pyarrow raises no Python error for its metadata."""
    column, path = pa.array(["a"]), tmp_path / "f.parquet"
    pq.write_table(pa.table([column] * 3, ["subject", "relation", "object"]), path)
    whole, script = path.read_bytes(), "import sys\nfrom lkge.data.facts import read_facts\n"
    script += "from lkge.errors import DataError\nfor name in sys.argv[1:]:\n"
    script += "    try: read_facts(name)\n    except DataError: pass\n"
    names = []
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(start, len(whole) - 8):
        names.append(str(tmp_path / f"{at}.parquet"))
        Path(names[-1]).write_bytes(whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :])
    done = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
