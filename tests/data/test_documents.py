"""Settings and results that are huge, deep or no text."""

from __future__ import annotations

from pathlib import Path

import pytest

from lkge.configure import changes_in, read_toml
from lkge.data.checked_json import read_checked_json, read_json
from lkge.data.documents import MAX_TOML, parse_json, parse_toml
from lkge.errors import DamagedFile, RunError, SettingsError
from lkge.studies.result_store import read_results
from lkge.studies.study import read_study

DEEP = 100_000
BAD_TOML = {
    "deep": b"a = " + b"[" * DEEP,
    "deep tables": b"a = " + b"{a=" * DEEP,
    "huge": b"# " + b"x" * MAX_TOML,
    "a huge number": b"a = " + b"9" * 10_000,
    "a key of many parts": b".".join([b"a"] * 10_000) + b" = 1",
    "no UTF-8": b"a = '\xff'",
}
BAD_JSON = {
    "deep": b"[" * DEEP,
    "deep objects": b'{"a":' * DEEP,
    "a huge number": b"[" + b"9" * 10_000 + b"]",
    "no UTF-8": b'["\xff"]',
    "another kind": b"[]",
    "half": b"{",
}


@pytest.mark.parametrize("case", BAD_TOML)
def test_toml_that_cannot_be_read_names_the_file(tmp_path: Path, case: str) -> None:
    path = tmp_path / "file.toml"
    path.write_bytes(BAD_TOML[case])
    for read in (read_toml, changes_in, lambda path: read_study(path.parent, path.name)):
        with pytest.raises(SettingsError, match=r"file\.toml") as caught:
            read(path)
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("case", BAD_JSON)
def test_json_that_cannot_be_read_names_the_file(tmp_path: Path, case: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(BAD_JSON[case])
    for read in (read_json, read_checked_json):
        with pytest.raises(DamagedFile, match=r"file\.json"):
            read(path)
    with pytest.raises(RunError, match=r"file\.json"):
        read_results(path)


def test_a_wrong_value_is_shown_in_part(tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_text(f"[training]\nseed = '{'x' * 10_000}'\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"training\.seed = 'xxx") as caught:
        read_toml(path)
    assert len(str(caught.value)) < 400


def test_documents_of_a_usual_size_are_read() -> None:
    assert parse_toml("a = [\n" + "  0.5,\n" * 10_000 + "]")["a"] == [0.5] * 10_000
    assert parse_json("[" * 100 + "]" * 100)
