from __future__ import annotations

import pytest

from lkge import errors
from lkge.errors import (
    DamagedFile,
    DataError,
    LearningFailed,
    LkgeError,
    NewerFormat,
    RunError,
    SettingsError,
    StoreLocked,
    UnknownName,
)


def test_the_tree() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert {
        kind: kind.__bases__
        for kind in kinds
        if issubclass(kind, Exception) and not issubclass(kind, Warning)
    } == {
        LkgeError: (Exception,),
        **dict.fromkeys((DataError, SettingsError, RunError), (LkgeError,)),
        UnknownName: (DataError,),
        **dict.fromkeys((DamagedFile, LearningFailed, NewerFormat, StoreLocked), (RunError,)),
    }


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({}, "is bad"),
        ({"file": "a.txt"}, "a.txt: is bad"),
        ({"file": "a.txt", "line": 3}, "a.txt:3: is bad"),
    ],
)
def test_a_data_error_begins_with_its_place(place: dict[str, object], message: str) -> None:
    error = DataError("is bad", **place)  # type: ignore[arg-type]
    assert str(error) == message
    assert (error.file, error.line) == (place.get("file"), place.get("line"))


def test_an_unknown_name_comes_with_the_nearest_spellings() -> None:
    known = ["Hot_Water_Pump", "Cold_Water_Pump", "Chiller", "Water_Pump"]
    error = UnknownName("entity", "Hot_Water_Pmp", known)
    assert error.nearest[0] == "Hot_Water_Pump"
    assert "Chiller" not in error.nearest
    assert str(error).startswith("there is no entity named 'Hot_Water_Pmp'. Did you mean 'Hot_Wat")


def test_nothing_near_means_no_hint() -> None:
    error = UnknownName("method", "xyz", ["fine-tune", "re-train"])
    assert str(error) == "there is no method named 'xyz'."
    assert error.nearest == []


def test_at_most_three_are_suggested() -> None:
    assert len(UnknownName("entity", "pump", [f"pump{n}" for n in range(9)]).nearest) == 3


@pytest.mark.parametrize("length", [10, 200, 1_000_000])
def test_the_work_does_not_grow_with_the_length_of_an_unknown_name(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def counted(query: str, choices: list[str], **options: object) -> list[tuple[str, float, int]]:
        compared.append(len(query))
        return []

    monkeypatch.setattr("rapidfuzz.process.extract", counted)
    UnknownName("entity", "x" * length, ["Pump"])
    assert compared == [min(length, 200)]


@pytest.mark.parametrize("name", ["chilled water pump", "CHILLED_WATER_PUMP", "Water_Pump"])
def test_case_and_missing_words_do_not_hide_the_nearest(name: str) -> None:
    known = ["Air_Handler", "Chilled_Water_Pump", "Damper", "Fan"]
    assert UnknownName("entity", name, known).nearest[0] == "Chilled_Water_Pump"
