"""Provenance: the version, the commit of a checkout, and what is shown of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import torch

import lkge
from lkge import provenance

MADE = {"lkge": "0.2.0", "commit": "1a2b3c4d5e6f", "dirty": False}


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@x"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_record_is_json_and_names_code_libraries_and_machine() -> None:
    record = json.loads(json.dumps(provenance.provenance()))
    assert record["lkge"] == lkge.__version__
    assert record["threads"] == torch.get_num_threads()
    assert set(record) >= {"commit", "dirty", "python", "torch", "numba", "cpu", "platform"}
    assert record["python"] in provenance.machine_of(record)


def test_the_commit_is_that_of_the_checkout_and_only_changed_code_is_dirty(tmp_path: Path) -> None:
    assert provenance._checkout(tmp_path / "nowhere") == (None, None)
    git(tmp_path, "init", "-q")
    code, other = tmp_path / "src" / "a.py", tmp_path / "other.md"
    code.parent.mkdir()
    for file in (code, other):
        file.write_text("1", encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    other.write_text("2", encoding="utf-8")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert provenance._checkout.__wrapped__(tmp_path) == (head, False)
    code.write_text("2", encoding="utf-8")
    assert provenance._checkout.__wrapped__(tmp_path) == (head, True)


def test_the_code_in_short() -> None:
    assert provenance.code_of({}) == "unrecorded"
    assert provenance.code_of(MADE) == "0.2.0 (1a2b3c4)"
    assert provenance.code_of({**MADE, "dirty": True}) == "0.2.0 (1a2b3c4, modified)"
    assert provenance.code_of({**MADE, "commit": None, "dirty": None}) == "0.2.0"


def test_a_run_that_another_code_resumed_names_both() -> None:
    newer = {**MADE, "lkge": "0.3.0"}
    once = provenance.continued(MADE, newer)
    assert provenance.continued(MADE, MADE) == MADE
    assert provenance.codes_of(once) == ["0.2.0 (1a2b3c4)", "0.3.0 (1a2b3c4)"]
    assert provenance.continued(once, newer) == once
