"""TOML and JSON from anywhere. What is no such document is a ValueError, however large or deep."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from lkge.data.reading import read_regular

MAX_TOML = 256 << 10
"""Bytes of a TOML file."""
MAX_DOTS = 500
"""Dots in a line of TOML; the parser takes a time ∝ the square of the parts of a key."""


UNSAFE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
"""What JSON may have as it is, but a terminal may take for a command, or cannot show: control and
direction characters, and halves of characters."""


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML document; a ValueError if it is none."""
    if any(line.count(".") > MAX_DOTS for line in text.splitlines()):
        raise ValueError(f"a line has more than {MAX_DOTS} dots; put a long list on several lines")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The document of a TOML file; an OSError or a ValueError if it is none."""
    return parse_toml(read_regular(path, MAX_TOML).decode())


def parse_json(text: str | bytes) -> Any:
    """A JSON document; a ValueError if it is none."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_json(path: Path, *, follow: bool = True) -> Any:
    """The document of a JSON file; an OSError or a ValueError if it is none. With `follow` = False
    a symbolic link is an OSError."""
    return parse_json(read_regular(path, follow=follow).decode())


def json_text(tree: Any, indent: int | None = None) -> str:
    """JSON that is safe to show: letters as they are, control characters escaped."""
    text = json.dumps(tree, indent=indent, ensure_ascii=False, allow_nan=False)
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
