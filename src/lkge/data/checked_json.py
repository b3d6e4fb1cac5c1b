"""JSON files with a checksum of their content."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lkge.data import documents
from lkge.data.files import finished, reason_of, write_text_atomically
from lkge.errors import DamagedFile, RunError

CHECKSUM, OLD_CHECKSUM = "checksum", "seal"
"""The key of the checksum in a JSON file, and its former name, which is still read."""


def write_checked_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object atomically, with a SHA-256 of all other keys under `checksum`."""
    tree = {**content, CHECKSUM: _digest(content)}
    write_text_atomically(path, json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False))


def read_checked_json(path: Path, *, follow: bool = True) -> dict[str, Any]:
    """The JSON object that `write_checked_json` wrote, its checksum verified; `follow`: whether it
    may be a symbolic link."""
    content = read_json(path, follow=follow)
    checksum = content.pop(CHECKSUM if CHECKSUM in content else OLD_CHECKSUM, None)
    try:
        digest = _digest(content)
    except RecursionError:
        raise DamagedFile(f"{path}: damaged, nested too deeply") from None
    if checksum != digest:
        raise DamagedFile(f"{path}: damaged, its digest differs; restore it or start a new run")
    return content


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_json(path: Path, *, follow: bool = True) -> dict[str, Any]:
    """A JSON object from a file; `follow`: whether it may be a symbolic link."""
    try:
        tree = documents.read_json(path, follow=follow)
    except OSError as error:
        raise RunError(f"{finished(path)}: cannot be read: {reason_of(error)}") from error
    except ValueError as error:
        raise DamagedFile(f"{path}: not valid JSON: {error}") from error
    if not isinstance(tree, dict):
        raise DamagedFile(f"{path}: not a JSON object")
    return tree
