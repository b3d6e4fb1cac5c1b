"""Dictionary order, and spelling hints: which known names a misspelt one may have meant."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from typing import Protocol

SortKey = tuple[str, str]
"""(casefolded name, name): names that differ only in case stand together."""

_CANDIDATES = 200
_WINDOW = 32
_SLIPS = 64
_LETTERS = 48
_SAMPLE = 256


class Dictionary(Protocol):
    """The sort keys of all names, in order; a list of them is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> SortKey: ...


def sort_key(name: str) -> SortKey:
    """By which a dictionary is sorted."""
    return name.casefold(), name


def likely_spellings(name: str, known: Iterable[str]) -> list[str]:
    """The few names that share most three-letter pieces with `name`, most first."""
    wanted = name.casefold()
    pieces = {wanted[start : start + 3] for start in range(max(1, len(wanted) - 2))}

    def shared(other: str) -> int:
        folded = other.casefold()
        return sum(piece in folded for piece in pieces)

    return heapq.nlargest(_CANDIDATES, known, key=shared)


def nearby_spellings(name: str, dictionary: Dictionary) -> list[str]:
    """The same from a dictionary of any size, of which O(log n) names are looked at.

    They stand around the beginnings of `name`, or around what it is with one slip undone. A first
    slip lies at most one letter behind the longest beginning that is known: no name goes on so.
    """
    folded = name.casefold()
    known = _known_beginning(folded, dictionary)
    slips = range(max(0, known + 1 - _SLIPS), known + 1)
    beginnings = [folded[:length] for length in slips]
    mended = mended_spellings(folded, slips, _usual_letters(dictionary))
    found = {*_around(beginnings, _WINDOW, dictionary), *_around(mended, 1, dictionary)}
    return likely_spellings(name, sorted(found))


def mended_spellings(name: str, places: Iterable[int], letters: Iterable[str]) -> Iterator[str]:
    """`name` with one slip undone at one of `places`: a letter too many, two letters swapped, a
    wrong letter or a missing one; for the last two each of `letters` is tried."""
    letters = list(letters)
    for place in places:
        before, after = name[:place], name[place:]
        yield before + after[1:]
        yield before + after[1:2] + after[:1] + after[2:]
        for letter in letters:
            yield before + letter + after[1:]
            yield before + letter + after


def _known_beginning(folded: str, dictionary: Dictionary) -> int:
    """How many of the first letters of `folded` are the beginning of some name."""
    shared = (_shared_beginning(folded, at) for at, _ in _window(folded, 1, dictionary))
    return max(shared, default=0)


def _shared_beginning(one: str, other: str) -> int:
    """How many first letters two names have in common."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _usual_letters(dictionary: Dictionary) -> list[str]:
    """The letters of a few names from all over the dictionary, most frequent first."""
    places = range(0, len(dictionary), max(1, len(dictionary) // _SAMPLE))
    counts = Counter(chain.from_iterable(dictionary[place][0] for place in places))
    return [letter for letter, _ in counts.most_common(_LETTERS)]


def _around(folded: Iterable[str], width: int, dictionary: Dictionary) -> Iterator[str]:
    return (key[1] for wanted in folded for key in _window(wanted, width, dictionary))


def _window(folded: str, width: int, dictionary: Dictionary) -> Iterator[SortKey]:
    """What stands up to `width` places before and behind the place of `folded`."""
    place = bisect_left(dictionary, (folded, ""))
    places = range(max(0, place - width), min(len(dictionary), place + width))
    return (dictionary[at] for at in places)
