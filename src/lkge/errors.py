"""Every error that a user can cause, in one tree."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MAX_COMPARED = 200
"""Only so many first characters of an unknown name are compared with known names."""


class LkgeError(Exception):
    """The base class: something that the user can correct; the message says how."""


@contextmanager
def packages_named() -> Iterator[None]:
    """A package that is not installed is an error that says what to install; also a decorator."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "lkge").partition(".")[0]
        if package == "lkge":
            raise
        raise LkgeError(
            f"this needs {package}: pip install {package}; all that learning and reports need "
            "comes with: pip install lkge"
        ) from error


class DataError(LkgeError):
    """A fact file, archive or dataset is missing, malformed or unsafe."""

    def __init__(self, message: str, *, file: Path | str | None = None, line: int | None = None):
        self.file = None if file is None else str(file)
        self.line = line
        place = ":".join(str(part) for part in (self.file, line) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)


class UnknownName(DataError):
    """An entity, relation, dataset or method of that name does not exist. `nearest` and the
    message have the most similar known names."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        self.kind = kind
        self.name = name
        names = list(known)
        self.nearest = [names[at] for at in most_similar(name, list(map(str.casefold, names)))]
        super().__init__(f"there is no {kind} named {name!r}.{did_you_mean(self.nearest)}")


class SettingsError(LkgeError):
    """A setting is out of range, unknown, or contradicts another."""


class RunError(LkgeError):
    """The folder of a run or a living graph cannot be written, read or resumed."""


class DamagedFile(RunError):
    """A file does not have the digest that its manifest promises."""


class NewerFormat(RunError):
    """A file was written by a newer release. It is not damaged, and nothing repairs it."""


class DamageWarning(UserWarning):
    """The newest version of a living graph is damaged, and an older one is used."""


class DataWarning(UserWarning):
    """Some of the given facts were left out: literals, blank nodes, repeats."""


class LearningFailed(RunError):
    """Training came to values that are no numbers: other settings are needed, or other facts."""


class StoreLocked(RunError):
    """Another process is writing to a living graph; the message names it."""


def did_you_mean(names: Sequence[str]) -> str:
    """A question after these names, behind a full stop; nothing without names."""
    return f" Did you mean {', '.join(map(repr, names))}?" if names else ""


def most_similar(name: str, known: Sequence[str] | Sequence[bytes]) -> list[int]:
    """The places of up to three names in `known` that are most similar to `name`, best first.

    Similarity is 2 · LCS / (sum of lengths), LCS the length of the longest common subsequence, and
    is at least ½. `known` is in lower case, as str or as UTF-8. The work is O(len(known)), whatever
    the length of `name`.
    """
    from rapidfuzz import fuzz, process  # imported here: an error is rare, and the import is slow

    text = name[:MAX_COMPARED].casefold()
    encoded = len(known) > 0 and isinstance(known[0], bytes)
    query = text.encode(errors="replace") if encoded else text
    found = process.extract(query, known, scorer=fuzz.ratio, limit=3, score_cutoff=50)
    return [place for _, _, place in found]
