"""The last model by relation: those with the most test facts, the best and the worst."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from lkge.evaluation.results import PROTOCOLS, Accuracy
from lkge.reports import text
from lkge.reports.grids import Cell, Grid, Row
from lkge.reports.systems import System

SHOWN = 5
"""So many relations in each part of the table; all, if there are no more than in three parts."""
LEAST_FACTS = 10
"""A relation with fewer test facts is not called the best or the worst."""


def relation_grid(system: System) -> Grid | None:
    """MRR and Hits@10 by relation, the mean over the runs; None where the results have none."""
    tables = {protocol: relations_of(system, protocol) for protocol in PROTOCOLS}
    known = tables[PROTOCOLS[0]]
    if not known:
        return None
    columns = ("Relation", "Test facts", *(f"{m} {p}" for p in PROTOCOLS for m in ("MRR", "H@10")))
    if len(known) <= 3 * SHOWN:
        parts, note = [list(known)], "The relations with the most test facts first."
    else:
        clear = [name for name in known if known[name].queries >= 2 * LEAST_FACTS]
        ordered = sorted(clear, key=lambda name: -known[name].mrr)
        parts = [list(known)[:SHOWN], ordered[:SHOWN], ordered[SHOWN:][-SHOWN:]]
        note = (
            f"Of {len(known)} relations: those with the most test facts, with the highest MRR in "
            f"the {PROTOCOLS[0]} protocol, and with the lowest; the last two of those with at "
            f"least {LEAST_FACTS} test facts."
        )
    sections = (tuple(_row(name, tables) for name in part) for part in parts if part)
    title = "The last model by relation, both directions of each fact"
    return Grid(title, columns, tuple(sections), note=note)


def _row(name: str, tables: Mapping[str, Mapping[str, Accuracy]]) -> Row:
    found = [tables[protocol][name] for protocol in PROTOCOLS]
    numbers = (text.number(value) for each in found for value in (each.mrr, each.hits10))
    return tuple(map(Cell, (text.printable(name), text.count(found[0].queries / 2), *numbers)))


def relations_of(system: System, protocol: str) -> dict[str, Accuracy]:
    """The accuracy of each relation that all runs have; means over the runs."""
    tables = [run.relations.get(protocol, {}) for run in system.runs]
    return {
        name: _mean([table[name] for table in tables])
        for name in tables[0]
        if all(name in table for table in tables)
    }


def _mean(cells: Sequence[Accuracy]) -> Accuracy:
    def mean(key: str) -> float:
        return fmean(getattr(cell, key) for cell in cells)

    return Accuracy(mean("mrr"), mean("hits1"), mean("hits3"), mean("hits10"), cells[0].queries)
