"""Streams of facts for `lkge bench streams`: a first batch, then many adds, in the order in which
the facts came, and held-out facts that are never added.

ENTITY, …      a dataset: the training facts of its first snapshot, then adds of 1,000
brick          release by release; NAME:SIZE, such as brick:100, is a dataset in adds of SIZE
genes          base.tsv.xz, then papers.tsv.xz in adds of 1,000
a file         a share of its facts, then adds, in the order of the file
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as checked_dataclass

from lkge.data import catalog
from lkge.data.facts import read_facts
from lkge.data.formats import Triple
from lkge.data.snapshots import Facts, numbered
from lkge.data.vocabulary import Vocabulary
from lkge.errors import DataError, SettingsError
from lkge.store.records import STRICT
from lkge.studies.study import short_name

Ints = NDArray[np.int64]
Split = Literal["test", "valid"]

GENES, BRICK = "genes", "brick"
DEFAULT_STREAMS = ("ENTITY", "RELATION", "FACT", "HYBRID", BRICK, "brick:100", GENES)
SIZE = 1_000
"""Facts of an add where nothing else is given."""
BASE, PAPERS = "base.tsv.xz", "papers.tsv.xz"
TERM = "GO:"
"""How the names of subjects begin that are no genes."""
SHARE_OF_FILE, SHARE_OF_GENES = 0.1, 0.01
"""The share of the facts that are held out, where there is no split of a dataset: one half for
`valid`, one half for `test`."""


@checked_dataclass(frozen=True, config=STRICT)
class StreamSpec:
    """What a stream is. `size`: facts of an add; None: the snapshots of the dataset. `first`: the
    share of a file that is learned first. `facts`: the most facts of genes. `retract`: how many
    earlier facts an add retracts, as a share of its own. `place`: where the data is, which does not
    make another stream."""

    name: str
    kind: Literal["dataset", "genes", "file"]
    source: str
    size: int | None = SIZE
    first: float = 0.5
    facts: int | None = None
    retract: float = 0.0
    place: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Stream:
    """n facts to add, in order, and m held-out facts, in the order in which their names are known.

    facts      (n, 3): the facts that are added
    ends       (adds + 1,): facts[: ends[k]] are those of the first batch and of k adds
    held_out   (m, 3): facts that are never added
    evaluable  (m,): after so many adds all three names of a held-out fact are known; ascending
    known      (k, 3): all facts, also those of other splits, to filter ranks
    retracted  (r,): places of the facts that are retracted, in order
    retracted_ends  (adds + 1,): retracted[: retracted_ends[k]] are those of the first k adds
    """

    name: str
    note: str
    vocabulary: Vocabulary
    facts: Facts
    ends: Ints
    held_out: Facts
    evaluable: Ints
    known: Facts
    retracted: Ints
    retracted_ends: Ints

    @property
    def num_adds(self) -> int:
        """The number of adds after the first batch."""
        return len(self.ends) - 1

    def batch(self, add: int) -> list[Triple]:
        """The facts of an add by name; 0 is the first batch."""
        start = self.ends[add - 1] if add else 0
        return list(self.vocabulary.named(self.facts[start : self.ends[add]].tolist()))

    def retractions(self, add: int) -> list[Triple]:
        """The facts that an add retracts, by name; the first batch retracts none."""
        start = self.retracted_ends[add - 1] if add else 0
        gone = self.retracted[start : self.retracted_ends[add]]
        return list(self.vocabulary.named(self.facts[gone].tolist()))

    def removed(self, adds: int) -> Facts:
        """The facts that so many adds have retracted."""
        return self.facts[self.retracted[: self.retracted_ends[adds]]]

    def so_far(self, adds: int) -> list[Triple]:
        """All facts of the first batch and of so many adds that are not retracted, by name."""
        kept = np.ones(self.ends[adds], dtype=np.bool_)
        kept[self.retracted[: self.retracted_ends[adds]]] = False
        return list(self.vocabulary.named(self.facts[: self.ends[adds]][kept].tolist()))

    def evaluated(self, adds: int) -> Facts:
        """The held-out facts whose names are known after so many adds, the oldest first."""
        return self.held_out[: int(np.searchsorted(self.evaluable, adds, side="right"))]

    def digest(self) -> str:
        """SHA-256 of all names, facts and ends."""
        digest = hashlib.sha256()
        for names in self.vocabulary.to_json().values():
            digest.update("\n".join(names).encode())
        arrays: list[NDArray[Any]] = [
            self.facts,
            self.ends,
            self.held_out,
            self.evaluable,
            self.known,
        ]
        if len(self.retracted):
            arrays += [self.retracted, self.retracted_ends]
        for array in arrays:
            digest.update(len(array).to_bytes(8, "little") + array.tobytes())
        return digest.hexdigest()


def named_streams(
    names: Sequence[str],
    data: Path | None,
    genes: Path | None,
    genes_facts: int | None,
    retract: float = 0.0,
) -> list[StreamSpec]:
    """The streams of these names: a dataset, NAME:SIZE, or genes."""
    specs = []
    for name in names:
        if name == GENES:
            folder = str(genes_folder(data, genes))
            title = _titled(GENES, retract)
            specs.append(StreamSpec(title, "genes", GENES, SIZE, 0.5, genes_facts, retract, folder))
            continue
        match = re.fullmatch(r"(.+):([1-9]\d*)", name)
        source, size = (match[1], int(match[2])) if match else (name, _usual_size(name))
        title = _titled(short_name(source) + (f"-{size}" if match else ""), retract)
        place = None if data is None else str(data)
        specs.append(StreamSpec(title, "dataset", source, size, retract=retract, place=place))
    return specs


def _titled(name: str, retract: float) -> str:
    return f"{name}-retract-{100 * retract:g}" if retract else name


def file_stream(file: Path, first: float, size: int, retract: float = 0.0) -> StreamSpec:
    """The stream of a file of facts."""
    title = _titled(file.name.partition(".")[0], retract)
    return StreamSpec(title, "file", file.name, size, first, None, retract, str(file))


def genes_folder(data: Path | None, given: Path | None) -> Path:
    """The folder of the genes: the given one, or `genes` in the folder of the data."""
    near = [] if data is None else [data / GENES, data.parent / GENES, data]
    for folder in near if given is None else [given]:
        if (folder / BASE).is_file() and (folder / PAPERS).is_file():
            return folder
    where = f"{given}: has no" if given else f"the stream {GENES} needs"
    raise DataError(f"{where} {BASE} and {PAPERS}; name their folder with --data-genes")


def resolved_points(points: Sequence[str], num_adds: int) -> tuple[int, ...]:
    """The numbers of adds at which to measure, ascending: of `15` and `10%`, a share of all adds.
    More than there are is left out."""
    found = {_resolved(point, num_adds) for point in points}
    places = tuple(sorted(place for place in found if place <= num_adds))
    if not places:
        raise SettingsError(
            f"the stream has {num_adds:,} adds only: none of the points {', '.join(points)} is "
            "among them; add 100%"
        )
    return places


def _resolved(point: str, num_adds: int) -> int:
    if re.fullmatch(r"(100|\d{1,2})(\.\d+)?%", point, re.ASCII):
        return int(min(1.0, float(point[:-1]) / 100) * num_adds + 0.5)
    if re.fullmatch(r"\d{1,9}", point, re.ASCII):
        return int(point)
    raise SettingsError(
        f"the point {point!r} is neither a number of adds, such as 15, nor a share, such as 10%"
    )


def read_stream(spec: StreamSpec, split: Split) -> Stream:
    """The stream with the held-out facts of one split."""
    place = None if spec.place is None else Path(spec.place)
    if spec.kind == "dataset":
        return _of_dataset(spec, split, place)
    assert place is not None
    return _of_genes(spec, split, place) if spec.kind == "genes" else _of_file(spec, split, place)


def _of_dataset(spec: StreamSpec, split: Split, data: Path | None) -> Stream:
    graph = catalog.load(spec.source, data)
    snapshots = graph.snapshots
    if len(snapshots) < 2:
        raise DataError(f"{spec.source}: has one snapshot only; a stream needs two at least")
    facts = np.concatenate([snapshot.train for snapshot in snapshots])
    ends = np.cumsum([len(snapshot.train) for snapshot in snapshots])
    adds = "a snapshot each"
    if spec.size is not None:
        ends, adds = _ends(int(ends[0]), len(facts), spec.size), f"of {spec.size:,} facts"
    held_out = [getattr(snapshot, split) for snapshot in snapshots]
    order = np.repeat(np.arange(len(held_out)), [len(part) for part in held_out])
    parts = [part for s in snapshots for part in (s.train, s.valid, s.test)]
    note = f"first the training facts of snapshot 1 of {len(snapshots)}, then adds {adds}"
    return _stream(
        spec,
        note,
        graph.vocabulary,
        (facts, ends),
        (np.concatenate(held_out), order),
        np.concatenate(parts),
    )


def _of_file(spec: StreamSpec, split: Split, file: Path) -> Stream:
    vocabulary = Vocabulary()
    facts = numbered(vocabulary, read_facts(file))
    first = round(spec.first * len(facts))
    note = f"first {100 * spec.first:g} % of {spec.source}, then adds of {spec.size:,} facts"
    return _divided(spec, note, vocabulary, facts, first, split, SHARE_OF_FILE)


def _of_genes(spec: StreamSpec, split: Split, folder: Path) -> Stream:
    vocabulary = Vocabulary()
    base, papers = (numbered(vocabulary, read_facts(folder / name)) for name in (BASE, PAPERS))
    facts, first = np.concatenate([base, papers]), len(base)
    note = f"first {BASE}, then {PAPERS} in adds of {spec.size:,} facts"
    if spec.facts is not None:
        kept, genes, all_genes = cut_by_gene(vocabulary, facts, spec.facts)
        first = int(np.searchsorted(kept, first))
        facts = facts[kept]
        note += f"; cut to {len(kept):,} facts, those of {genes:,} of {all_genes:,} genes"
    return _divided(spec, note, vocabulary, facts, first, split, SHARE_OF_GENES)


def cut_by_gene(vocabulary: Vocabulary, facts: Facts, most: int) -> tuple[Ints, int, int]:
    """The places of the facts of some genes, at most `most` facts; how many genes, and of how many.

    The genes are those with the least hash of their names. Facts between two terms are kept if
    facts of these genes name both terms.
    """
    names = vocabulary.entities
    is_gene = np.zeros(len(names), dtype=np.bool_)
    subjects = np.unique(facts[:, 0])
    is_gene[subjects] = [not names[each].startswith(TERM) for each in subjects.tolist()]
    genes = np.flatnonzero(is_gene)
    rank = np.full(len(names), len(genes), dtype=np.int64)
    rank[genes[np.argsort([_hash(names[gene]) for gene in genes.tolist()])]] = np.arange(len(genes))

    def kept(count: int) -> Ints:
        of_gene = rank[facts[:, 0]] < count
        named = np.zeros(len(names), dtype=np.bool_)
        named[facts[of_gene, 2]] = True
        of_terms = ~is_gene[facts[:, 0]] & named[facts[:, 0]] & named[facts[:, 2]]
        return np.flatnonzero(of_gene | of_terms)

    low, high = 0, len(genes)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(kept(middle)) <= most else (low, middle - 1)
    return kept(low), low, len(genes)


def _divided(
    spec: StreamSpec,
    note: str,
    vocabulary: Vocabulary,
    facts: Facts,
    first: int,
    split: Split,
    share: float,
) -> Stream:
    """A stream of facts without a split of their own: a share of each add is held out, chosen by
    the hash of each fact, one half for `valid` and one half for `test`."""
    hashes = np.array([_hash("\t".join(fact)) for fact in vocabulary.named(facts.tolist())])
    added, valid = hashes >= share, hashes < share / 2
    size = spec.size or SIZE
    ends = np.append(0, np.cumsum(added))[_ends(first, len(facts), size)]
    held_out = np.flatnonzero(valid if split == "valid" else ~added & ~valid)
    note += f"; {100 * share / 2:g} % of each add are held out for {split}"
    return _stream(spec, note, vocabulary, (facts[added], ends), (facts[held_out], held_out), facts)


def _stream(
    spec: StreamSpec,
    note: str,
    vocabulary: Vocabulary,
    added: tuple[Facts, Ints],
    held_out: tuple[Facts, Ints],
    known: Facts,
) -> Stream:
    """A stream of facts with their ends; held-out facts with their order among those that become
    evaluable at the same time. Those that never do are left out; so are adds without a fact."""
    (facts, ends), (held, order) = added, held_out
    if not ends[0] or ends[0] == ends[-1]:
        raise DataError(
            f"{spec.name}: {len(facts):,} facts are too few for a first batch and an add after it; "
            "choose more facts, a smaller --size, or another --first"
        )
    ends = np.unique(ends).astype(np.int64)
    at = _evaluable(facts, ends, held, vocabulary)
    hashes = [_hash("\t".join(fact)) for fact in vocabulary.named(held.tolist())]
    places = np.lexsort((np.array(hashes), order, at))
    places = places[at[places] < len(ends)]
    if not len(places):
        raise DataError(f"{spec.name}: no held-out fact has names that are known; give more facts")
    gone, gone_ends = _retracted(facts, ends, vocabulary, spec.retract)
    if len(gone):
        note += f"; each retracts earlier facts, {100 * spec.retract:g} % as many"
    return Stream(
        spec.name,
        note,
        vocabulary,
        facts,
        ends,
        held[places],
        at[places],
        known,
        gone,
        gone_ends,
    )


def _retracted(facts: Facts, ends: Ints, vocabulary: Vocabulary, share: float) -> tuple[Ints, Ints]:
    """Places of the facts that each add retracts, and their ends: of all facts of earlier batches
    that are not retracted yet, those with the least hash."""
    sizes = np.round(share * np.diff(ends, prepend=ends[0])).astype(np.int64)
    counts = np.cumsum(sizes)
    if not share:
        return np.empty(0, np.int64), counts
    hashes = np.array([_hash("\t".join(fact)) for fact in vocabulary.named(facts.tolist())])
    gone: list[int] = []
    for add in range(1, len(ends)):
        order = np.argsort(hashes[: ends[add - 1]], kind="stable")
        fresh = order[~np.isin(order, gone)]
        gone += fresh[: sizes[add]].tolist()
    return np.array(gone, dtype=np.int64), counts


def _evaluable(facts: Facts, ends: Ints, held: Facts, vocabulary: Vocabulary) -> Ints:
    """After how many adds all names of each held-out fact are known, (m,); len(ends) if never."""
    add = np.searchsorted(ends, np.arange(len(facts)), side="right")
    entity = np.full(vocabulary.num_entities, len(ends), dtype=np.int64)
    relation = np.full(2 * vocabulary.num_relations, len(ends), dtype=np.int64)
    for table, column in ((entity, 0), (relation, 1), (entity, 2)):
        np.minimum.at(table, facts[:, column], add)
    subject, object_ = entity[held[:, 0]], entity[held[:, 2]]
    at: Ints = np.maximum(np.maximum(subject, object_), relation[held[:, 1]])
    return at


def _ends(first: int, total: int, size: int) -> Ints:
    """The ends of a first batch and of adds of `size` facts; the last one may be smaller."""
    return np.append(np.arange(first, total, size), total)


def _usual_size(dataset: str) -> int | None:
    return None if dataset.casefold() == BRICK else SIZE


def _hash(text: str) -> float:
    """A number from 0 to below 1 that depends on the text alone."""
    digest = hashlib.blake2b(text.encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / (1 << 48)
