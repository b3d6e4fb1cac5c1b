from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lkge.data.spelling import likely_spellings, mended_spellings, nearby_spellings, sort_key

words = st.text("abcdXYZ", min_size=1, max_size=8)
vocabularies = st.lists(words, min_size=1, max_size=60, unique=True)


@given(st.data())
def test_every_single_slip_is_mended(data: st.DataObject) -> None:
    names = data.draw(vocabularies)
    meant = data.draw(st.sampled_from(names))
    place = data.draw(st.integers(0, len(meant) - 1))
    before, after = meant[:place], meant[place:]
    slips = [
        before + after[1:],
        before + after[1:2] + after[:1] + after[2:],
        before + "q" + after[1:],
        before + "q" + after,
    ]
    for slip in slips:
        assert meant in nearby_spellings(slip, sorted(map(sort_key, names)))


def test_a_dictionary_without_names_has_no_hints() -> None:
    assert nearby_spellings("a", []) == []


def test_mending_undoes_each_kind_of_slip() -> None:
    assert list(mended_spellings("ab", [0], "x")) == ["b", "ba", "xb", "xab"]
    assert list(mended_spellings("ab", [2], "x")) == ["ab", "ab", "abx", "abx"]


@pytest.mark.parametrize("asked", ["chilled water pump", "CHILLED_WATER_PUMP", "Water_Pump"])
def test_shared_pieces_decide_what_is_likely(asked: str) -> None:
    known = ["Air_Handler", "Chilled_Water_Pump", "Damper", "Fan"]
    assert likely_spellings(asked, known)[0] == "Chilled_Water_Pump"
