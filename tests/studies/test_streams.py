"""Streams of facts: what is added when, what is held out, and when it can be evaluated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lkge.data import catalog
from lkge.data.facts import write_facts
from lkge.errors import DataError, SettingsError
from lkge.studies.streams import (
    Split,
    Stream,
    file_stream,
    named_streams,
    read_stream,
    resolved_points,
)


def named(stream: Stream, facts: np.ndarray) -> list[tuple[str, str, str]]:
    return list(stream.vocabulary.named(facts.tolist()))


def of_name(name: str, split: Split = "test") -> Stream:
    (spec,) = named_streams([name], None, None, None)
    return read_stream(spec, split)


def of_file(folder: Path, facts: list[tuple[str, str, str]], size: int = 20) -> Stream:
    write_facts(folder / "facts.tsv", facts)
    return read_stream(file_stream(folder / "facts.tsv", 0.5, size), "test")


def chain(count: int) -> list[tuple[str, str, str]]:
    return [(f"e{n}", f"r{n % 3}", f"e{n // 2}") for n in range(count)]


def require_evaluable_is_right(stream: Stream) -> None:
    """Against a plain loop over the adds."""
    known: set[str] = set()
    of_add: list[set[str]] = []
    for add in range(stream.num_adds + 1):
        known |= {name for fact in stream.batch(add) for name in fact}
        of_add.append(set(known))
    wanted = [
        next(add for add, names in enumerate(of_add) if names.issuperset(fact))
        for fact in named(stream, stream.held_out)
    ]
    assert stream.evaluable.tolist() == wanted == sorted(wanted)


def test_brick_comes_release_by_release() -> None:
    graph, stream = catalog.load("brick"), of_name("brick")
    assert stream.num_adds == len(graph) - 1
    for add, snapshot in enumerate(graph.snapshots):
        assert stream.batch(add) == list(graph.vocabulary.named(snapshot.train.tolist()))
    require_evaluable_is_right(stream)


def test_brick_comes_in_small_adds_in_the_same_order() -> None:
    releases, stream = of_name("brick"), of_name("brick:100")
    sizes = [len(stream.batch(add)) for add in range(stream.num_adds + 1)]
    assert sizes[0] == len(releases.batch(0))
    assert set(sizes[1:-1]) == {100}
    assert 0 < sizes[-1] <= 100
    last = stream.num_adds
    assert [fact for add in range(last + 1) for fact in stream.batch(add)] == stream.so_far(last)
    assert stream.so_far(last) == releases.so_far(4)
    require_evaluable_is_right(stream)


def test_test_and_validation_facts_of_a_dataset_are_apart_and_never_added() -> None:
    graph = catalog.load("brick")
    test, valid = of_name("brick:100", "test"), of_name("brick:100", "valid")
    added = set(test.so_far(test.num_adds))
    for stream, split in ((test, "test"), (valid, "valid")):
        wanted = np.concatenate([getattr(snapshot, split) for snapshot in graph.snapshots])
        assert set(named(stream, stream.held_out)) == set(graph.vocabulary.named(wanted.tolist()))
        assert not added & set(named(stream, stream.held_out))
        assert len(stream.known) == sum(snapshot.num_facts for snapshot in graph.snapshots)


def test_evaluated_are_those_whose_names_are_known() -> None:
    stream = of_name("brick")
    counts = [len(stream.evaluated(add)) for add in range(stream.num_adds + 1)]
    assert counts == sorted(counts)
    assert 0 < counts[0] < counts[-1] == len(stream.held_out)
    assert (stream.evaluable[: counts[1]] <= 1).all()
    assert (stream.evaluable[counts[1] :] > 1).all()


def test_a_file_is_a_stream_in_its_order(tmp_path: Path) -> None:
    facts = chain(400)
    stream = of_file(tmp_path, facts)
    added = stream.so_far(stream.num_adds)
    assert added == [fact for fact in facts if fact in set(added)]
    assert stream.num_adds == 10
    for add in range(stream.num_adds + 1):
        start = 0 if add == 0 else 180 + 20 * add
        assert set(stream.batch(add)) <= set(facts[start : 200 + 20 * add])
    assert len(stream.known) == len(facts)
    require_evaluable_is_right(stream)


def test_a_tenth_of_a_file_is_held_out_by_a_hash(tmp_path: Path) -> None:
    facts = chain(4000)
    test = of_file(tmp_path, facts, 1000)
    valid = read_stream(file_stream(tmp_path / "facts.tsv", 0.5, 1000), "valid")
    assert test.facts.tolist() == valid.facts.tolist()
    assert 0.08 < 1 - len(test.facts) / len(facts) < 0.12
    groups = [set(named(test, part)) for part in (test.facts, test.held_out, valid.held_out)]
    assert groups[1]
    assert groups[2]
    assert sum(map(len, groups)) == len(set().union(*groups))
    turned = of_file(tmp_path, facts[::-1], 1000)
    assert set(named(turned, turned.facts)) == groups[0], "whatever their order in the file"


def test_the_digest_is_that_of_the_facts_and_of_the_adds(tmp_path: Path) -> None:
    facts = chain(400)
    digests = [of_file(tmp_path, facts, size).digest() for size in (20, 20, 40)]
    digests.append(of_file(tmp_path, facts[:-1], 20).digest())
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


@pytest.fixture
def genes(tmp_path: Path) -> Path:
    """Forty genes with terms, a chain of terms, and 600 papers."""
    folder = tmp_path / "genes"
    folder.mkdir()
    base = [(f"GENE{n}", "in_process", f"GO:{n % 25}") for n in range(40)]
    base += [(f"GENE{n}", "on_chromosome", f"chr:{n % 5}") for n in range(40)]
    base += [(f"GO:{n}", "isa", f"GO:{n + 1}") for n in range(24)]
    write_facts(folder / "base.tsv.xz", base)
    papers = [(f"GENE{n % 40}", "mentioned_in", f"pmid:{n // 3}") for n in range(3000)]
    write_facts(folder / "papers.tsv.xz", papers)
    return folder


def test_genes_begin_with_the_base_and_go_on_with_papers(genes: Path) -> None:
    (spec,) = named_streams(["genes"], genes.parent, None, None)
    stream = read_stream(spec, "test")
    assert all(relation != "mentioned_in" for _, relation, _ in stream.batch(0))
    assert stream.num_adds == 3
    papers = [int(paper[5:]) for add in (1, 2, 3) for _, _, paper in stream.batch(add)]
    assert papers == sorted(papers)
    assert "cut" not in stream.note


def test_a_cut_keeps_all_facts_of_some_genes_and_says_so(genes: Path) -> None:
    (spec,) = named_streams(["genes"], None, genes, 800)
    stream = read_stream(spec, "test")
    whole = read_stream(named_streams(["genes"], None, genes, None)[0], "test")
    facts, everything = set(named(stream, stream.known)), set(named(whole, whole.known))
    kept = {subject for subject, _, _ in facts if subject.startswith("GENE")}
    assert f"cut to {len(facts)} facts, those of {len(kept)} of 40 genes" in stream.note
    assert 0 < len(kept) < 40
    assert 700 < len(facts) <= 800
    terms = {object_ for subject, _, object_ in facts if subject in kept}
    assert facts == {(s, r, o) for s, r, o in everything if s in kept or {s, o} <= terms}
    assert stream.digest() == read_stream(spec, "test").digest()
    assert all(relation != "mentioned_in" for _, relation, _ in stream.batch(0))


def test_genes_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--data-genes"):
        named_streams(["genes"], tmp_path, None, None)
    with pytest.raises(DataError, match=r"nowhere: has no base.tsv.xz.*--data-genes"):
        named_streams(["genes"], None, tmp_path / "nowhere", None)


def test_a_stream_without_an_add_or_without_a_held_out_fact_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="too few for a first batch"):
        of_file(tmp_path, chain(1))
    with pytest.raises(DataError, match="no held-out fact has names that are known"):
        of_file(tmp_path, [(f"s{n}", "r", f"o{n}") for n in range(60)])


def test_points_are_numbers_and_shares_of_adds() -> None:
    usual = ["0%", "10%", "25%", "50%", "75%", "100%", "15", "150"]
    assert resolved_points(usual, 159) == (0, 15, 16, 40, 80, 119, 150, 159)
    assert resolved_points(usual, 4) == (0, 1, 2, 3, 4)
    assert resolved_points(["12.5%", "100.0%"], 80) == (10, 80)


@pytest.mark.parametrize("point", ["", "half", "-1", "101%", "1.5", "٣"])
def test_what_is_no_point_is_an_error(point: str) -> None:
    with pytest.raises(SettingsError, match=r"neither a number of adds.*nor a share"):
        resolved_points(["0%", point], 10)


def test_points_behind_the_end_are_an_error_if_there_are_no_others() -> None:
    assert resolved_points(["2", "50"], 10) == (2,)
    with pytest.raises(SettingsError, match="10 adds only"):
        resolved_points(["50"], 10)


def test_an_add_retracts_earlier_facts(tmp_path: Path) -> None:
    file = tmp_path / "facts.tsv"
    write_facts(file, chain(400))
    plain, stream = (read_stream(file_stream(file, 0.5, 40, share), "test") for share in (0, 0.1))
    assert stream.name == "facts-retract-10"
    assert "each retracts earlier facts, 10 % as many" in stream.note
    assert plain.digest() != stream.digest()
    assert stream.retractions(0) == []
    for add in range(1, stream.num_adds + 1):
        gone, before = stream.retractions(add), stream.so_far(add - 1)
        assert len(gone) == round(0.1 * len(stream.batch(add)))
        assert set(gone) <= set(before)
        assert set(stream.so_far(add)) == {*before, *stream.batch(add)} - {*gone}
        assert len(stream.removed(add)) == sum(len(stream.retractions(n)) for n in range(add + 1))
    assert plain.so_far(plain.num_adds) == list(plain.vocabulary.named(plain.facts.tolist()))
