"""The embedded dataset holds what its docstring states, and nothing leaks."""

from __future__ import annotations

import importlib.util
import random
import zipfile
from collections import Counter, defaultdict
from itertools import permutations
from pathlib import Path
from types import ModuleType

import pytest

from lkge.data import embedded

Fact = tuple[str, str, str]
SPLITS = ("train", "valid", "test")
FOLDER = Path(embedded.__file__).parent
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_brick.py"


@pytest.fixture(scope="module")
def snapshots() -> list[dict[str, list[Fact]]]:
    with zipfile.ZipFile(FOLDER / "brick.zip") as archive:
        return [
            {split: facts_of(archive.read(f"brick/{i}/{split}.txt")) for split in SPLITS}
            for i in range(5)
        ]


@pytest.fixture(scope="module")
def facts(snapshots: list[dict[str, list[Fact]]]) -> list[Fact]:
    return [fact for snapshot in snapshots for split in SPLITS for fact in snapshot[split]]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_brick", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def facts_of(text: bytes) -> list[Fact]:
    rows = [tuple(line.split("\t")) for line in text.decode("utf-8").splitlines()]
    assert all(len(row) == 3 and all(row) for row in rows)
    return rows  # type: ignore[return-value]


def stated(row: str) -> list[int]:
    """A row of the table in the docstring."""
    assert embedded.__doc__ is not None
    line = next(line for line in embedded.__doc__.splitlines() if line.strip().startswith(row))
    return [int(number) for number in line.strip().removeprefix(row).split()]


def test_counts_are_those_of_the_docstring(snapshots: list[dict[str, list[Fact]]]) -> None:
    entities: set[str] = set()
    relations: set[str] = set()
    for i, snapshot in enumerate(snapshots):
        for split in SPLITS:
            assert len(snapshot[split]) == stated(split)[i]
            entities |= {end for s, _, o in snapshot[split] for end in (s, o)}
            relations |= {r for _, r, _ in snapshot[split]}
        assert sum(map(len, snapshot.values())) == stated("new facts")[i]
        assert len(entities) == stated("entities so far")[i]
        assert len(relations) == stated("relations so far")[i]


def test_division_is_three_to_one_to_one(snapshots: list[dict[str, list[Fact]]]) -> None:
    for snapshot in snapshots:
        size = sum(map(len, snapshot.values()))
        assert len(snapshot["valid"]) == len(snapshot["test"]) == size // 5


def test_no_fact_stands_twice_and_none_is_a_loop(facts: list[Fact]) -> None:
    assert len(set(facts)) == len(facts)
    assert not [fact for fact in facts if fact[0] == fact[2]]


def test_no_fact_stands_turned_around(facts: list[Fact]) -> None:
    known = set(facts)
    assert not [(s, r, o) for s, r, o in facts if (o, r, s) in known]


def test_held_out_facts_are_the_only_link_between_their_entities(
    snapshots: list[dict[str, list[Fact]]], facts: list[Fact]
) -> None:
    links = Counter(frozenset((s, o)) for s, _, o in facts)
    for snapshot in snapshots:
        for s, _, o in snapshot["valid"] + snapshot["test"]:
            assert links[frozenset((s, o))] == 1


def test_held_out_facts_name_what_training_has_shown(
    snapshots: list[dict[str, list[Fact]]],
) -> None:
    entities: set[str] = set()
    relations: set[str] = set()
    for snapshot in snapshots:
        entities |= {end for s, _, o in snapshot["train"] for end in (s, o)}
        relations |= {r for _, r, _ in snapshot["train"]}
        for s, r, o in snapshot["valid"] + snapshot["test"]:
            assert {s, o} <= entities
            assert r in relations


def test_no_two_relations_mirror_each_other(facts: list[Fact]) -> None:
    pairs: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for s, r, o in facts:
        pairs[r].add((s, o))
    for one, other in permutations(pairs, 2):
        turned = {(o, s) for s, o in pairs[other]}
        assert len(pairs[one] & pairs[other]) < 0.8 * len(pairs[one]), (one, other)
        assert len(pairs[one] & turned) < 0.8 * len(pairs[one]), (one, other)
    assert {"hasAssociatedTag", "hasTag", "broader"} <= set(pairs)
    assert not {"isAssociatedWith", "isTagOf", "narrower", "aliasOf", "sameAs"} & set(pairs)


def test_boilerplate_is_gone_and_names_are_readable(facts: list[Fact]) -> None:
    names = {name for fact in facts for name in fact}
    assert not {"owl:Class", "NodeShape", "ObjectProperty", "NamedIndividual"} & names
    assert not {"isDefinedBy", "seeAlso", "imports", "license"} & names
    assert not [name for name in names if "/" in name or "#" in name or " " in name]


def test_a_pump_has_its_tags(snapshots: list[dict[str, list[Fact]]]) -> None:
    tags = {
        o
        for split in SPLITS
        for s, r, o in snapshots[0][split]
        if (s, r) == ("Hot_Water_Pump", "hasAssociatedTag")
    }
    assert tags == {"Hot", "tag:Water", "tag:Pump", "tag:Equipment"}


def test_archive_is_small_dated_alike_and_what_the_script_writes(
    snapshots: list[dict[str, list[Fact]]], script: ModuleType, tmp_path: Path
) -> None:
    path = FOLDER / "brick.zip"
    assert path.stat().st_size < 300_000
    again = tmp_path / "brick.zip"
    again.write_bytes(script.archive(snapshots))
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(again) as rewritten:
        assert archive.namelist() == rewritten.namelist()
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        for name in archive.namelist():
            assert archive.read(name) == rewritten.read(name)


def test_notice_is_kept() -> None:
    notice = (FOLDER / "BRICK-LICENSE.txt").read_text(encoding="utf-8")
    assert "Brick Development Team" in notice
    assert "Redistributions in binary form must reproduce" in notice


def test_script_finds_mirrored_relations(script: ModuleType) -> None:
    facts = [(f"c{k}", "hasTag", f"t{k}") for k in range(10)]
    facts += [(o, "isTagOf", s) for s, _, o in facts[:9]]
    facts += [("t0", "kin", "c0"), ("t1", "kin", "t2")]
    assert script.mirrored_relations(facts) == {"isTagOf": ("hasTag", True)}
    first, second = script.without_mirrors([frozenset(facts), frozenset([("t9", "isTagOf", "c9")])])
    assert {r for _, r, _ in first} == {"hasTag", "kin"}
    assert second == {("c9", "hasTag", "t9")}


def test_script_unifies_addresses_and_prefixes_clashing_names(script: ModuleType) -> None:
    brick, tag = "https://brickschema.org/schema/Brick#", "https://brickschema.org/schema/BrickTag#"
    assert script.unified("https://brickschema.org/schema/1.1/Brick#Pump") == brick + "Pump"
    uses = Counter({brick + "Pump": 2, brick + "Fan": 1, tag + "Pump": 1, tag + "Hot": 1})
    assert script.readable(uses) == {
        brick + "Pump": "Pump",
        brick + "Fan": "Fan",
        tag + "Pump": "tag:Pump",
        tag + "Hot": "Hot",
    }


def test_script_holds_out_nothing_that_training_has_not_shown(script: ModuleType) -> None:
    rng = random.Random(0)
    names = [f"e{k}" for k in range(30)]
    facts = {(rng.choice(names), rng.choice("rs"), rng.choice(names)) for _ in range(300)}
    old, new = frozenset(sorted(facts)[::2]), frozenset(sorted(facts)[1::2])
    alone = ("e_new", "r_new", "e_other")
    shown: set[str] = set()
    for split in script.divided([old, new | {alone}]):
        shown |= {name for fact in split["train"] for name in fact}
        for fact in split["valid"] + split["test"]:
            assert set(fact) <= shown
            assert fact != alone
