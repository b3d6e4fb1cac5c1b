"""Tags: names for versions. A tagged version is never pruned, and its name stands for its number.

All tags are in one file of the store, which is replaced as a whole.
"""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from lkge.errors import RunError, SettingsError, did_you_mean, most_similar
from lkge.store.records import STRICT, Count, read_record, write_record

TAGS = "tags.json"
MAX_LENGTH = 64


def is_tag_name(name: str) -> bool:
    """Whether a name has letters, digits, `_`, `-` and `.` only, starts with a letter, a digit or
    `_`, and has at least one letter. So it is no number, no option and no path."""
    plain = re.fullmatch(r"\w[\w.-]*", name) is not None
    return plain and len(name) <= MAX_LENGTH and any(map(str.isalpha, name))


def require_tag_name(name: str) -> str:
    """The name; SettingsError if it cannot be the name of a tag."""
    if not is_tag_name(name):
        raise SettingsError(
            f"{name!r} cannot be a tag: use letters, digits, '_', '-' and '.', at most "
            f"{MAX_LENGTH}, with a letter among them, such as 'before-import'"
        )
    return name


def _stored_name(name: str) -> str:
    if not is_tag_name(name):
        raise ValueError(f"{name!r} is not the name of a tag")
    return name


TagName = Annotated[str, AfterValidator(_stored_name)]


@dataclass(frozen=True, config=STRICT)
class Tags:
    """Version by tag."""

    tags: dict[TagName, Count]


def read_tags(folder: Path) -> dict[str, int]:
    """The version of each tag of the store in `folder`, in order of the names."""
    path = folder / TAGS
    tags = read_record(path, Tags).tags if path.exists() else {}
    return dict(sorted(tags.items()))


def write_tags(folder: Path, tags: dict[str, int]) -> None:
    """Replace all tags. Only for who holds the writer's lock."""
    write_record(folder / TAGS, Tags(tags))


def add_tag(folder: Path, name: str, version: int) -> None:
    """Give a version a name; the name must be free, or of this version already."""
    tags = read_tags(folder)
    if tags.get(require_tag_name(name), version) != version:
        raise RunError(
            f"{folder}: the tag {name!r} names version {tags[name]}; delete it first, "
            "or choose another name"
        )
    if name not in tags:
        write_tags(folder, {**tags, name: version})


def delete_tag(folder: Path, name: str) -> int:
    """Delete a tag; the version that it named."""
    tags = read_tags(folder)
    version = version_of_tag(folder, name)
    write_tags(folder, {other: number for other, number in tags.items() if other != name})
    return version


def version_of_tag(folder: Path, name: str) -> int:
    """The version that a tag names."""
    tags = read_tags(folder)
    if name not in tags:
        there = ", ".join(tags) or "none; `lkge tag` makes one"
        near = did_you_mean(
            [list(tags)[at] for at in most_similar(name, [t.casefold() for t in tags])]
        )
        raise RunError(f"{folder}: there is no tag {name!r}; there are: {there}.{near}")
    return tags[name]


def tags_by_version(tags: dict[str, int]) -> dict[int, list[str]]:
    """The names of each version that has one."""
    return {
        version: [name for name in tags if tags[name] == version] for version in set(tags.values())
    }
