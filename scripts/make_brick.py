"""Make the embedded dataset `brick` from five releases of the Brick ontology.

    pip download --no-deps --dest old brickschema==0.7.6 && unzip -d old old/*.whl
    pip download --no-deps --dest new brickschema==0.8.0 && unzip -d new new/*.whl
    python scripts/make_brick.py old/brickschema/ontologies/1.{1,2,3} \\
        new/brickschema/ontologies/1.{4,5}

Two versions of the package are needed: the folder `1.3` of the newer ones holds release 1.4.4.
Each argument is a folder with a `Brick.ttl`, whose digest is checked. What is done to the facts is
told in `lkge.data.embedded`. The same input gives the same facts, and the same bytes where zlib
compresses the same.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import random
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path

from lkge.data.files import write_bytes_atomically

Fact = tuple[str, str, str]
Release = frozenset[Fact]
Split = dict[str, list[Fact]]

SEED = 2023
DIGESTS = {
    "1.1": "56b385cbdab59ecfd285b17f390c35544990c069f68b03a3e0036cfadf203b72",
    "1.2": "b5a3acd531ebd57ad390d8744dc69521f2139654e1bfcd555e09c45aae0191ed",
    "1.3": "981b702e4dbae43132ddb8fd4a5349b9ce3ac74b54fa6a02b9a86589207e2cb1",
    "1.4": "f4392ed9d72abd2e33969d32dd6a8559b0df5466161c77a513c93e6e50fdbea9",
    "1.5": "12c0a680903c53625462cecc16cd6147ac8f454bc005f6fab395f25314a02356",
}
TARGET = Path(__file__).parents[1] / "src" / "lkge" / "data" / "embedded" / "brick.zip"

OWL = "http://www.w3.org/2002/07/owl#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SHACL = "http://www.w3.org/ns/shacl#"
XSD = "http://www.w3.org/2001/XMLSchema#"
DTDL = "dtmi:dtdl:"
BOILERPLATE_NODES = (OWL, RDF, RDFS, SHACL, XSD, DTDL)
BOILERPLATE_RELATIONS = {
    RDFS + "isDefinedBy",
    RDFS + "seeAlso",
    OWL + "imports",
    "http://purl.org/dc/terms/license",
}
PREFIXES = {
    "https://brickschema.org/schema/Brick#": "brick",
    "https://brickschema.org/schema/BrickTag#": "tag",
    "https://brickschema.org/schema/BrickShape#": "bsh",
    "https://brickschema.org/schema/Brick/ref#": "ref",
    "https://w3id.org/rec#": "rec",
    "http://qudt.org/schema/qudt/": "qudt",
    "http://qudt.org/vocab/unit/": "unit",
    "http://qudt.org/vocab/quantitykind/": "quantitykind",
    "http://qudt.org/vocab/dimensionvector/": "dimension",
    "http://data.ashrae.org/bacnet/": "bacnet",
    "http://data.ashrae.org/standard223#": "s223",
    "http://www.w3.org/2004/02/skos/core#": "skos",
    "http://www.w3.org/2006/vcard/ns#": "vcard",
    "http://www.w3.org/ns/sosa/": "sosa",
    "http://schema.org/": "schema",
}
MIRRORED_SHARE = 0.8


def main() -> None:
    """Folders in, archive out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs=len(DIGESTS), type=Path, help="releases 1.1 to 1.5")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    releases = [
        read_release(folder / "Brick.ttl", digest)
        for folder, digest in zip(arguments.folders, DIGESTS.values(), strict=True)
    ]
    releases = without_mirrors(releases)
    releases = with_readable_names(releases)
    splits = divided(new_facts(releases))
    write_bytes_atomically(arguments.out, archive(splits))
    report(splits)


def read_release(path: Path, digest: str) -> Release:
    """Facts between named nodes, by unified address, without boilerplate and loops."""
    import pyoxigraph

    text = path.read_bytes()
    if hashlib.sha256(text).hexdigest() != digest:
        raise SystemExit(f"{path} is not the release that is wanted here: its digest differs")
    parsed = pyoxigraph.parse(
        text, format=pyoxigraph.RdfFormat.TURTLE, base_iri="https://brickschema.org/schema/"
    )
    named = (
        (unified(quad.subject.value), unified(quad.predicate.value), unified(quad.object.value))
        for quad in parsed
        if isinstance(quad.subject, pyoxigraph.NamedNode)
        and isinstance(quad.object, pyoxigraph.NamedNode)
    )
    return frozenset(fact for fact in named if tells_something(fact))


def unified(address: str) -> str:
    """The same thing has the same address in all releases."""
    address = re.sub(r"(brickschema\.org/schema)/1\.\d(\.\d)?/", r"\1/", address)
    address = address.replace("purl.org/dc/terms#", "purl.org/dc/terms/")
    return address.replace("data.ashrae.org/bacnet/2020#", "data.ashrae.org/bacnet/")


def tells_something(fact: Fact) -> bool:
    """Not housekeeping, not a word on the modelling language, not a loop."""
    subject, relation, object_ = fact
    return (
        relation not in BOILERPLATE_RELATIONS
        and not subject.startswith(BOILERPLATE_NODES)
        and not object_.startswith(BOILERPLATE_NODES)
        and subject != object_
    )


def without_mirrors(releases: list[Release]) -> list[Release]:
    """Of relations that mirror each other one is kept; of (s, r, o) and (o, r, s) one."""
    kept_for = mirrored_relations(frozenset().union(*releases))

    def once(fact: Fact) -> Fact:
        subject, relation, object_ = fact
        while relation in kept_for:
            relation, inverse = kept_for[relation]
            if inverse:
                subject, object_ = object_, subject
        return subject, relation, object_

    releases = [frozenset(map(once, release)) for release in releases]
    everything = frozenset().union(*releases)

    def turned(fact: Fact) -> Fact:
        back = fact[::-1]
        return min(fact, back) if back in everything else fact

    return [frozenset(map(turned, release)) for release in releases]


def mirrored_relations(facts: Iterable[Fact]) -> dict[str, tuple[str, bool]]:
    """For each relation to drop: the one kept instead, and whether that runs the other way.

    Two relations mirror each other if most pairs of the smaller one are pairs of the larger, as
    they are or turned around. The larger is kept, or the first by name of two of one size.
    """
    pairs: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for subject, relation, object_ in facts:
        pairs[relation].add((subject, object_))
    by_size = sorted(pairs, key=lambda relation: (-len(pairs[relation]), relation))
    kept_for: dict[str, tuple[str, bool]] = {}
    for larger, smaller in combinations(by_size, 2):
        same = len(pairs[smaller] & pairs[larger])
        turned = len(pairs[smaller] & {pair[::-1] for pair in pairs[larger]})
        if smaller not in kept_for and max(same, turned) >= MIRRORED_SHARE * len(pairs[smaller]):
            kept_for[smaller] = (larger, turned > same)
    return kept_for


def with_readable_names(releases: list[Release]) -> list[Release]:
    """Local names; where two clash, only the one of the most used namespace goes without prefix."""
    everything = frozenset().union(*releases)
    ends = Counter(name for subject, _, object_ in everything for name in (subject, object_))
    entities = readable(ends)
    relations = readable(Counter(relation for _, relation, _ in everything))
    return [
        frozenset((entities[s], relations[r], entities[o]) for s, r, o in release)
        for release in releases
    ]


def readable(uses: Counter[str]) -> dict[str, str]:
    """Address → name, which no other address has."""
    space_uses: Counter[str] = Counter()
    claimants: dict[str, list[str]] = defaultdict(list)
    for address, count in uses.items():
        space, local = parted(address)
        space_uses[space] += count
        claimants[local].append(address)
    names = {}
    for local, addresses in claimants.items():
        first, *others = sorted(addresses, key=lambda a: (-space_uses[parted(a)[0]], a))
        names[first] = local
        names |= {other: f"{PREFIXES[parted(other)[0]]}:{local}" for other in others}
    return names


def parted(address: str) -> tuple[str, str]:
    """Namespace and local name."""
    cut = max(address.rfind("#"), address.rfind("/")) + 1
    return address[:cut], address[cut:]


def new_facts(releases: list[Release]) -> list[Release]:
    """Of each release, the facts of no earlier one."""
    known: frozenset[Fact] = frozenset()
    new = []
    for release in releases:
        new.append(release - known)
        known |= release
    return new


def divided(snapshots: list[Release]) -> list[Split]:
    """3:1:1, so that what is held out can be known but is not told elsewhere.

    Only a fact whose entities and relation all stand in training facts up to then, and whose two
    entities have no other fact between them in any snapshot, may be held out.
    """
    rng = random.Random(SEED)
    links = Counter(frozenset((s, o)) for snapshot in snapshots for s, _, o in snapshot)
    shown: set[tuple[str, str]] = set()
    splits = []
    for snapshot in snapshots:
        facts = sorted(snapshot)
        rng.shuffle(facts)
        train, free = [], []
        for fact in facts:
            subject, relation, object_ = fact
            parts = {("entity", subject), ("relation", relation), ("entity", object_)}
            if parts <= shown and links[frozenset((subject, object_))] == 1:
                free.append(fact)
            else:
                train.append(fact)
                shown |= parts
        size = min(len(facts) // 5, len(free) // 2)
        splits.append(
            {
                "train": sorted(train + free[2 * size :]),
                "valid": sorted(free[:size]),
                "test": sorted(free[size : 2 * size]),
            }
        )
    return splits


def archive(splits: Iterable[Mapping[str, list[Fact]]]) -> bytes:
    """`brick/<i>/<split>.txt`, tab-separated, with a fixed date."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for index, split in enumerate(splits):
            for name, facts in split.items():
                info = zipfile.ZipInfo(f"brick/{index}/{name}.txt", (1980, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                info.create_system = 3
                info.external_attr = 0o644 << 16
                text = "".join("\t".join(fact) + "\n" for fact in facts)
                file.writestr(info, text.encode(), compresslevel=9)
    return buffer.getvalue()


def report(splits: Iterable[Mapping[str, list[Fact]]]) -> None:
    """Print the counts that the docstring of the embedded package states."""
    entities: set[str] = set()
    relations: set[str] = set()
    print("snapshot train valid test entities relations")
    for index, split in enumerate(splits):
        for subject, relation, object_ in (fact for facts in split.values() for fact in facts):
            entities |= {subject, object_}
            relations.add(relation)
        sizes = [len(facts) for facts in split.values()]
        print(index, *sizes, len(entities), len(relations))


if __name__ == "__main__":
    main()
