"""WordNet as a graph: its synsets, and how they relate.

    apt-get download wordnet-base && dpkg -x wordnet-base_*.deb wordnet
    python scripts/wordnet.py wordnet/usr/share/wordnet > wordnet.tsv

Of each two inverse relations one is kept, and of a symmetric one each fact once, so that none
answers another. Synsets with fewer than three facts are left out, again and again until there are
none.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Fact = tuple[str, str, str]

FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
SYMMETRIC: Mapping[str, str] = {
    "+": "derivationally_related",
    "^": "also_see",
    "$": "verb_group",
    "&": "similar_to",
}
RELATIONS: Mapping[str, str] = {
    **SYMMETRIC,
    "@": "hypernym",
    "@i": "instance_hypernym",
    "#m": "member_of",
    "#s": "substance_of",
    "#p": "part_of",
    "*": "entails",
    ">": "causes",
    ";c": "domain_topic",
    ";r": "domain_region",
    ";u": "domain_usage",
}
FEWEST_FACTS = 3


def facts_of(lines: Iterable[str]) -> Iterator[Fact]:
    """The facts of a data file: a line has its synset's number, lexicographer's file, part of
    speech, how many words in hexadecimal digits, each word with a digit, how many pointers, and
    these: a symbol, a synset's number, its part of speech, and which words are meant."""
    for line in lines:
        if line.startswith(" "):
            continue
        fields = line.partition("|")[0].split()
        subject, place = _synset(fields[0], fields[2]), 4 + 2 * int(fields[3], 16)
        for pointer in range(int(fields[place])):
            first = place + 1 + 4 * pointer
            symbol, number, speech = fields[first : first + 3]
            if symbol in RELATIONS:
                yield _fact(subject, symbol, _synset(number, speech))


def core(facts: set[Fact]) -> set[Fact]:
    """Those facts whose synsets have enough of them."""
    while True:
        known = Counter(name for fact in facts for name in {fact[0], fact[2]})
        kept = {fact for fact in facts if min(known[fact[0]], known[fact[2]]) >= FEWEST_FACTS}
        if len(kept) == len(facts):
            return kept
        facts = kept


def _synset(number: str, speech: str) -> str:
    """A satellite adjective, s, is in the file of adjectives, as others are."""
    return speech.replace("s", "a") + number


def _fact(subject: str, symbol: str, other: str) -> Fact:
    first, last = sorted((subject, other)) if symbol in SYMMETRIC else (subject, other)
    return first, RELATIONS[symbol], last


def main() -> None:
    """Print the facts, one a line, in order."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where data.noun and the others are")
    folder: Path = parser.parse_args().folder
    facts: set[Fact] = set()
    for name in FILES:
        facts.update(facts_of((folder / name).read_text(encoding="latin-1").splitlines()))
    for fact in sorted(core(facts)):
        print("\t".join(fact))


if __name__ == "__main__":
    main()
