from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lkge.data import names as names_module
from lkge.data.names import MappedNames, NameTable
from lkge.data.vocabulary import INVERSE, Names, Vocabulary
from lkge.errors import DamagedFile, DataError, UnknownName, most_similar

distinct_names = st.lists(st.text(min_size=1).filter(str.strip), unique=True)
LETTERS = "aAbBsSß"
few_letters = st.lists(st.text(LETTERS, min_size=1, max_size=4), unique=True)
search_costs = st.sampled_from([0, 1, 1_000])
MIXED = ["Zürich", "zürich", "ZÜRICH", "東京", "Straße", "STRASSE", "🚀 launch", "a", "A", "ab"]


@pytest.fixture(scope="module")
def many() -> NameTable:
    return NameTable.of(f"entity_{number}" for number in range(200_000))


def dictionary(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: (name.casefold(), name))


def assert_same(found: NameTable, expected: NameTable) -> None:
    for field in ("text", "ends", "order"):
        one, other = getattr(found, field), getattr(expected, field)
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


@given(distinct_names)
def test_a_table_gives_back_what_it_was_made_of(names: list[str]) -> None:
    table = NameTable.of(names)
    assert len(table) == len(names)
    assert list(table) == names
    assert table.names(range(len(names))) == names
    assert [table.find(name) for name in names] == list(range(len(names)))
    assert table.names(table.order) == dictionary(names)


@given(few_letters, st.lists(st.text(LETTERS, max_size=4)), search_costs)
def test_many_names_are_found_as_one_by_one(names: list[str], asked: list[str], cost: int) -> None:
    table = NameTable.of(names)
    expected = [names.index(name) if name in names else -1 for name in asked]
    with patch("lkge.data.names._SEARCH_COST", cost):
        assert table.find_all(asked).tolist() == expected
    assert [table.find(name) for name in asked] == [
        None if number < 0 else number for number in expected
    ]


def test_after_a_removal_an_unknown_name_behind_all_others_is_not_found() -> None:
    table = NameTable.of(["a", "b", "c"]).renamed(1, "")
    assert [table.find(name) for name in ("a", "b", "c", "d")] == [0, None, 2, None]
    assert table.appended(["d"]).find("d") == 3


def test_few_names_among_many_are_found_without_reading_all(many: NameTable) -> None:
    asked = ["entity_199999", "ENTITY_5", "entity_5", "nothing", "entity_0"]
    found = many.find_all(asked)
    assert found.tolist() == [199_999, -1, 5, -1, 0]
    assert found.dtype == np.int64
    all_names = list(many)
    assert many.find_all(all_names[::-1]).tolist() == list(range(len(many)))[::-1]


@given(few_letters, st.text(LETTERS, max_size=3), st.integers(0, 5))
def test_prefixes_match_in_any_case_and_come_in_order(
    names: list[str], prefix: str, limit: int
) -> None:
    table = NameTable.of(names)
    fitting = [name for name in dictionary(names) if name.casefold().startswith(prefix.casefold())]
    assert table.names(table.starting_with(prefix)) == fitting
    assert table.names(table.starting_with(prefix, limit)) == fitting[:limit]


def test_names_in_all_scripts_and_cases_are_told_apart() -> None:
    table = NameTable.of(MIXED)
    assert [table.find(name) for name in MIXED] == list(range(len(MIXED)))
    assert table.find("Ab") is None
    assert table.names(table.starting_with("züri")) == ["ZÜRICH", "Zürich", "zürich"]
    assert table.names(table.starting_with("strass")) == ["STRASSE", "Straße"]
    assert table.names(table.starting_with("東")) == ["東京"]
    assert table.names(table.starting_with("A", limit=2)) == ["A", "a"]


def test_a_prefix_among_many(many: NameTable) -> None:
    expected = dictionary([f"entity_{number}" for number in (777, 7770, 77700, 77701)])
    assert many.names(many.starting_with("Entity_777", limit=4)) == expected
    assert many.starting_with("nobody", limit=4) == []


@given(few_letters, few_letters, search_costs)
def test_appending_equals_making_anew(names: list[str], more: list[str], cost: int) -> None:
    new = [name for name in more if name not in names]
    with patch("lkge.data.names._SEARCH_COST", cost):
        grown = NameTable.of(names).appended(new)
    assert_same(grown, NameTable.of(names + new))


def test_appending_a_few_to_many_equals_making_anew(many: NameTable) -> None:
    new = ["zebra", "Entity_5", "entity_5x", "東京", "!", "Zebra", "entity_55555555"]
    grown = many.appended(new)
    assert_same(grown, NameTable.of([*many, *new]))
    assert grown.find_all(new).tolist() == [len(many) + place for place in range(len(new))]
    assert_same(many.appended([]), many)


@pytest.mark.parametrize("known", [2, 5_000])
def test_a_name_is_appended_once(known: int) -> None:
    table = NameTable.of(str(number) for number in range(known))
    with pytest.raises(DataError, match="'1'"):
        table.appended(["new", "1"])
    with pytest.raises(DataError, match="'new' is given twice"):
        table.appended(["new", "other", "new"])


def test_names_that_are_not_text_are_refused() -> None:
    with pytest.raises(DataError, match="Unicode"):
        NameTable.of(["fine", "\ud800"])
    assert NameTable.of(["fine"]).find("\ud800") is None


def test_an_empty_table_answers() -> None:
    table = NameTable.of([])
    assert len(table) == 0
    assert list(table) == []
    assert table.find("a") is None
    assert table.find_all(["a", "b"]).tolist() == [-1, -1]
    assert table.find_all([]).tolist() == []
    assert table.starting_with("") == []
    assert table.near("a") == []
    assert_same(NameTable.from_arrays(table.arrays("x"), "x"), table)
    assert_same(table.appended(["b", "a"]), NameTable.of(["b", "a"]))


@pytest.mark.parametrize(
    "slip",
    [
        "entiti_12345",
        "entty_12345",
        "entity__12345",
        "netity_12345",
        "xntity_12345",
        "ENTITY_12345",
        "entity-12345",
        "ntity_12345",
        "entity_123456",
    ],
)
def test_the_nearest_of_all_names_is_found(slip: str) -> None:
    table = NameTable.of(f"entity_{number}" for number in range(20_000))
    assert "entity_12345" in table.near(slip)


@pytest.mark.parametrize("slip", ["Entity_123456", "entity_12346x", "entity_1234567"])
def test_in_a_large_table_the_neighbours_in_sorted_order_are_compared(
    many: NameTable, slip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def counted(name: str, known: list[str]) -> list[int]:
        compared.append(len(known))
        return most_similar(name, known)

    monkeypatch.setattr("lkge.data.names.most_similar", counted)
    assert many.near(slip)[0] in ("entity_12346", "entity_123456")
    assert compared == [10_000]


def test_a_name_behind_all_others_is_unknown_although_names_were_removed() -> None:
    table = NameTable.of(["a", "b", "c"]).renamed(1, "")
    assert table.find("z") is None
    assert table.appended(["z"]).find("z") == 3


def test_of_long_names_only_so_many_characters_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = NameTable.of(f"{number:06} " + "long name " * 60 for number in range(20_000))
    compared: list[int] = []

    def counted(name: str, known: list[str]) -> list[int]:
        compared.append(sum(map(len, known)))
        return most_similar(name, known)

    monkeypatch.setattr("lkge.data.names.most_similar", counted)
    assert table.near("012345 " + "long name " * 59)
    assert compared == [2_000_000]


@pytest.mark.parametrize("name", ["\ud800", "東", "straße", ""])
def test_any_text_can_be_unknown(name: str) -> None:
    assert NameTable.of(["東京", "Straße", "other"]).near(name) == {
        "東": ["東京"],
        "straße": ["Straße"],
    }.get(name, [])


def test_finding_a_name_among_many_decodes_few(many: NameTable) -> None:
    class Counted(NameTable):
        decoded = 0

        def name(self, number: int) -> str:
            type(self).decoded += 1
            return super().name(number)

        def __iter__(self) -> Any:
            raise AssertionError("all names were decoded")

    assert Counted(many.text, many.ends, many.order).find("entity_4711") == 4711
    assert Counted.decoded <= 20


def test_arrays_come_back_from_mapped_files(tmp_path: Path) -> None:
    table = NameTable.of(MIXED)
    mapped: dict[str, NDArray[Any]] = {}
    for name, array in table.arrays("entity").items():
        np.save(tmp_path / f"{name}.npy", array)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="c")
    opened = NameTable.from_arrays(mapped, "entity")
    assert_same(opened, table)
    assert_same(opened.appended(["new"]), table.appended(["new"]))
    assert opened.find_all(MIXED).tolist() == list(range(len(MIXED)))


@pytest.mark.parametrize(
    ("field", "damaged"),
    [
        ("text", np.frombuffer(b"ab", np.uint8)),
        ("text", np.zeros(3, np.int8)),
        ("ends", np.array([3, 3, 3, 3], np.int64)),
        ("ends", np.array([], np.int64)),
        ("ends", np.array([1, 2, 4], np.int64)),
        ("ends", np.array([1.0, 2.0, 3.0])),
        ("order", np.array([0, 1], np.int32)),
        ("order", np.array([[0, 1, 2]], np.int32)),
        ("order", None),
    ],
)
def test_impossible_arrays_are_refused(field: str, damaged: NDArray[Any] | None) -> None:
    arrays = NameTable.of(["a", "b", "c"]).arrays("entity")
    del arrays[f"entity.{field}"]
    if damaged is not None:
        arrays[f"entity.{field}"] = damaged
    with pytest.raises(DamagedFile, match="entity"):
        NameTable.from_arrays(arrays, "entity")


def test_bytes_that_are_not_text_are_damage() -> None:
    arrays = NameTable.of(["ä"]).arrays("entity")
    arrays["entity.text"] = arrays["entity.text"][::-1]
    with pytest.raises(DamagedFile, match="stored name"):
        NameTable.from_arrays(arrays, "entity").find("a")


@given(distinct_names, distinct_names)
def test_mapped_names_answer_like_a_vocabulary(entities: list[str], relations: list[str]) -> None:
    forward = [name for name in relations if not name.endswith(INVERSE)]
    vocabulary: Names = Vocabulary(entities, forward)
    mapped: Names = MappedNames.of(entities, forward)
    assert mapped.num_entities == vocabulary.num_entities
    assert mapped.num_relations == vocabulary.num_relations
    for name in entities:
        number = vocabulary.entity_id(name)
        assert mapped.entity_id(name) == number
        assert mapped.entity_name(number) == name
    for name in [*forward, *(name + INVERSE for name in forward)]:
        number = vocabulary.relation_id(name)
        assert mapped.relation_id(name) == number
        assert mapped.relation_name(number) == name


def test_mapped_names_grow_and_are_stored() -> None:
    names = MappedNames.of(["a"], ["r"]).appended(["b"]).appended(["c"], ["q"])
    opened = MappedNames.from_arrays(names.arrays())
    assert list(opened.entity_table) == ["a", "b", "c"]
    assert list(opened.relation_table) == ["r", "q"]
    assert opened.relation_id("q" + INVERSE) == 3
    with pytest.raises(DamagedFile, match="missing"):
        MappedNames.from_arrays(names.entity_table.arrays("entity"))


def test_unknown_names_bring_the_nearest(many: NameTable) -> None:
    names = MappedNames.of(["Hot_Water_Pump", "Chiller"], ["hasTag"])
    with pytest.raises(UnknownName, match=r"no entity.*'Hot_Water_Pump'"):
        names.entity_id("hot_water_pumps")
    with pytest.raises(UnknownName, match=r"no relation.*'hasTag'"):
        names.relation_id("hasTags" + INVERSE)
    with pytest.raises(UnknownName, match="'entity_12345'"):
        MappedNames(many, NameTable.of()).entity_id("entity_12345x")


@pytest.mark.parametrize("name", ["", " ", "\n"])
def test_empty_names_are_refused(name: str) -> None:
    with pytest.raises(DataError, match="empty name of entity"):
        MappedNames.of().appended(entities=[name])
    with pytest.raises(DataError, match="empty name of relation"):
        MappedNames.of().appended(relations=[name])


def test_a_forward_name_cannot_look_like_an_inverse() -> None:
    with pytest.raises(DataError, match="rename"):
        MappedNames.of(relations=["r" + INVERSE])
    assert MappedNames.of(entities=["e" + INVERSE]).entity_id("e" + INVERSE) == 0


@pytest.mark.parametrize("number", [-1, 2])
def test_ids_out_of_range_are_refused(number: int) -> None:
    names = MappedNames.of(["a", "b"], ["r"])
    with pytest.raises(DataError, match="no entity with id"):
        names.entity_name(number)
    with pytest.raises(DataError, match="no relation with id"):
        names.relation_name(number)


def test_a_table_of_removed_names_only_has_none() -> None:
    table = NameTable.of(["a"]).renamed(0, "")
    assert (len(table), table.find("a"), table.find("")) == (1, None, None)
    assert table.find_all(["a", "b"]).tolist() == [-1, -1]
    assert table.appended(["a"]).find("a") == 1


@settings(deadline=None)  # loads pyarrow
@given(st.lists(st.one_of(st.text(), st.sampled_from(["", *MIXED])), max_size=12))
def test_many_names_are_sorted_as_few_are(names: list[str]) -> None:
    names = list(dict.fromkeys(filter(str.isprintable, names)))
    expected = names_module._sorted(names)
    found = names_module._sorted_by_columns(names)
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()
