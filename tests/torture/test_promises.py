"""The numbers of cases in `docs/promises.md` are those of the committed results."""

from __future__ import annotations

from tests.torture.driver import (
    CITED,
    PARTS,
    PROMISES,
    TABLE,
    Result,
    part_of,
    read_results,
    table,
    with_numbers,
)


def test_the_promises_have_the_numbers_of_the_results() -> None:
    page = PROMISES.read_text("utf-8")
    assert page == with_numbers(page, read_results())
    assert {found[1] for found in CITED.finditer(page)} == PARTS.keys()


def test_another_number_is_found_out() -> None:
    page = PROMISES.read_text("utf-8")
    assert page != with_numbers(page, {"kills: add": Result(-1, [])})


def test_the_committed_results_have_no_problems_and_are_those_of_the_table() -> None:
    results = read_results()
    assert {name: result.problems for name, result in results.items() if result.problems} == {}
    assert {part_of(name) for name in results} == PARTS.keys()
    idle = [line for line in table(results).splitlines() if "| none |" in line]
    assert [line for line in idle if not line.startswith("| checkpoint.py:")] == []
    assert TABLE.read_text("utf-8") == table(results)
