"""Texts by what they contain, and by likeness, in a time that no query makes long.

A text is compared in lower case, with a blank for `_` and `-`. Letters that are not ASCII are found
as typed, in lower case, in capitals, and with a capital at the start of each word.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lkge.errors import MAX_COMPARED

BLANKS = bytes.maketrans(b"_-", b"  ")
SEPARATOR = 0xFF
"""A byte that no UTF-8 has."""
MAX_BYTES = 64 << 20
"""More bytes are not searched: names of a larger table are found by their beginning."""
MAX_HITS = 1_000
"""So many texts that contain a query are sorted; the others are left out."""
MAX_COMPARED_TEXTS, MAX_COMPARED_BYTES = 100_000, 8 << 20
"""More texts are not compared with a query."""
MIN_LIKENESS = 60
TAIL_AFTER = b"#", b"/"
"""The last part of an IRI is compared."""


@dataclass(frozen=True, eq=False)
class Texts:
    """n texts in lower case, each before a separator.

    folded  bytes: text 0, separator, text 1, separator, …
    starts  (n + 1,) int64: where each text starts in `folded`; the last one is its length
    """

    folded: bytes
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, text: NDArray[np.uint8], ends: NDArray[np.int64]) -> Self:
        """Texts in UTF-8, concatenated, and the end of each, (n,)."""
        if len(text) > MAX_BYTES:
            text, ends = text[:0], ends[:0]
        separators = ends + np.arange(len(ends))
        folded = np.full(len(text) + len(ends), SEPARATOR, np.uint8)
        is_text = np.ones(len(folded), np.bool_)
        is_text[separators] = False
        folded[is_text] = text
        return cls(folded.tobytes().lower().translate(BLANKS), np.append(0, separators + 1))

    def containing(self, query: str) -> list[int]:
        """The places of texts that contain `query`: first those that begin with it, then those with
        a word that does, short ones first."""
        found = dict[int, tuple[bool, bool, int]]()
        for wanted in _variants(query):
            at = self.folded.find(wanted)
            while at >= 0 and len(found) < MAX_HITS:
                place = int(np.searchsorted(self.starts, at, side="right")) - 1
                start, stop = self.starts[place : place + 2].tolist()
                inside = at > start and self.folded[at - 1 : at].isalnum()
                found.setdefault(place, (at > start, inside, stop - start))
                at = self.folded.find(wanted, stop)
        return sorted(found, key=lambda place: (*found[place], self._text(place)))

    def alike(self, query: str, limit: int) -> list[int]:
        """The places of the texts whose last part is most like that of `query`, best first.
        Likeness is 2 · LCS / (sum of lengths), LCS the length of the longest common subsequence."""
        from rapidfuzz import fuzz, process

        wanted = _tail(_folded(query[:MAX_COMPARED].lower()))
        found = process.extract(
            wanted, self._tails, scorer=fuzz.ratio, limit=limit, score_cutoff=MIN_LIKENESS
        )
        return [place for _, _, place in found]

    @cached_property
    def _tails(self) -> list[bytes]:
        """The last part of each text; none if there are too many."""
        if len(self.starts) > MAX_COMPARED_TEXTS + 1 or len(self.folded) > MAX_COMPARED_BYTES:
            return []
        return [_tail(self.folded[start : stop - 1]) for start, stop in pairwise(self.starts)]

    def _text(self, place: int) -> bytes:
        return self.folded[self.starts[place] : self.starts[place + 1]]


def _variants(query: str) -> list[bytes]:
    """How a query may be written, with ASCII in lower case; an empty or invalid one is nowhere."""
    forms = (query, query.lower(), query.upper(), query.title())
    return list(dict.fromkeys(_folded(form) for form in forms if query))


def _folded(text: str) -> bytes:
    return text.encode(errors="replace").lower().translate(BLANKS)


def _tail(text: bytes) -> bytes:
    for separator in TAIL_AFTER:
        last = text.rpartition(separator)[2]
        if last:
            text = last
    return text
