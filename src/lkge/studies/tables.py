"""The tables of a study: measured figures beside the figures that the paper prints."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from lkge.evaluation.results import PROTOCOLS, Results
from lkge.reports import text
from lkge.reports.grids import Cell, Grid, Row, grid_of
from lkge.reports.systems import COSTS, MEASURES, Measure, System, best_text, spread, systems_of
from lkge.reports.tables import measure_cell, summary_rows, with_codes
from lkge.studies.study import RunSpec, Study, SystemSpec

PAPER, CURRENT = (MEASURES[protocol] for protocol in PROTOCOLS)
HITS, TRANSFER = PAPER[1:4], PAPER[4:6]
MRR = PAPER[0]
LARGE = 0.02
"""A difference of MRR above this needs an explanation."""


@dataclass(frozen=True)
class Entry:
    """A system on a dataset. `printed`: mrr, hits1, hits3, hits10 of the paper, if any."""

    spec: SystemSpec
    system: System
    printed: Mapping[str, float]

    @property
    def mrr(self) -> float:
        """MRR rounded to three decimals, as in the tables."""
        return round(self.system.spread(MRR).mean, 3)

    @property
    def difference(self) -> float:
        """MRR minus the printed MRR; nan if none is printed."""
        return round(self.mrr - self.printed.get("mrr", math.nan), 3)


Entries = Mapping[str, Sequence[Entry]]
"""By dataset, the systems that have results."""


def entries_of(study: Study, stored: Mapping[RunSpec, Results]) -> dict[str, list[Entry]]:
    """By dataset, an entry for each system with stored results, in their order. A name says how a
    system differs from the others of its group."""
    alike: dict[tuple[str, str], list[Results]] = {}
    for run, results in stored.items():
        alike.setdefault((run.dataset, run.spec.group), []).append(results)
    systems = (system for runs in alike.values() for system in systems_of(runs))
    system_of = {id(results): system for system in systems for results in system.runs}
    entries: dict[str, dict[SystemSpec, Entry]] = {}
    for run, results in stored.items():
        printed = study.printed.get(run.spec.name, {}).get(run.dataset, {})
        entry = Entry(run.spec, system_of[id(results)], printed)
        entries.setdefault(run.dataset, {}).setdefault(run.spec, entry)
    return {dataset: list(group.values()) for dataset, group in entries.items()}


def large_differences(entries: Iterable[Entry]) -> list[Entry]:
    """The entries whose rounded MRR differs from the printed MRR by more than `LARGE`."""
    return [entry for entry in entries if abs(entry.difference) > LARGE + 1e-9]


def agreement(entries: Iterable[Entry]) -> float:
    """Rank correlation between the order by MRR and the order by printed MRR."""
    known = [(entry.mrr, entry.printed["mrr"]) for entry in entries if entry.printed]
    return rank_correlation([mrr for mrr, _ in known], [printed for _, printed in known])


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's ρ: the correlation of the ranks; nan if all values of one side are equal."""
    if min(len(set(first)), len(set(second))) < 2:
        return math.nan
    return statistics.correlation(ranks(first), ranks(second))


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1; equal values share the mean of their ranks."""
    order = sorted(values)
    return [order.index(value) + (order.count(value) + 1) / 2 for value in values]


def divided(study: Study, entries: Entries) -> dict[str, dict[str, list[Entry]]]:
    """By title of a table: each group; the systems without a group; the systems with variants
    beside their variants."""
    groups: dict[str, set[str]] = {}
    for each in study.specs.values():
        groups.setdefault(each.group, set()).add(each.name)
    specs = [study.specs[name] for name in groups.pop("", set())]
    with_variants = {each.method for each in specs if each.is_variant}
    variants = {each.name for each in specs if each.method in with_variants}
    groups[study.systems_title] = {each.name for each in specs if not each.is_variant}
    if any(e.spec.is_variant and e.spec.name in variants for g in entries.values() for e in g):
        groups[study.variants_title] = variants
    tables = {title: _only(entries, names) for title, names in groups.items()}
    return {title: table for title, table in tables.items() if table}


def overview(title: str, entries: Entries) -> Grid:
    """MRR of each system on each dataset; in brackets the printed MRR."""
    best = {dataset: best_text([e.system for e in g], MRR) for dataset, g in entries.items()}
    found: dict[str, dict[str, Entry]] = {}
    for dataset, group in entries.items():
        for entry in group:
            found.setdefault(entry.spec.name, {})[dataset] = entry
    rows = []
    for by_dataset in found.values():
        name = [entry.system.name for entry in by_dataset.values()][-1]
        cells = [
            _with_printed(by_dataset[dataset], MRR, best[dataset])
            if dataset in by_dataset
            else Cell(text.ABSENT)
            for dataset in entries
        ]
        rows.append((Cell(name), *cells))
    sections = [tuple(rows)]
    if any(entry.printed for group in entries.values() for entry in group):
        orders = (Cell(text.number(agreement(group))) for group in entries.values())
        sections.append(((Cell("rank correlation"), *orders),))
    systems = [[entry.system for entry in by_dataset.values()] for by_dataset in found.values()]
    return with_codes(Grid(title, ("System", *entries), tuple(sections)), systems)


def in_full(dataset: str, entries: Sequence[Entry]) -> Grid:
    """One dataset: every figure of each system, and the printed figures, if any."""
    best = best_text([entry.system for entry in entries], MRR)
    others = (CURRENT[0], *TRANSFER, CURRENT[5])
    is_printed = any(entry.printed for entry in entries)

    def row(entry: Entry) -> Row:
        printed = entry.printed.get(MRR.key, math.nan)
        return (
            Cell(entry.system.name),
            Cell(str(len(entry.system.runs))),
            measure_cell(entry.system, MRR, best),
            *map(Cell, (text.number(printed), text.signed(entry.difference)) if is_printed else ()),
            *(_with_printed(entry, measure) for measure in HITS),
            *(measure_cell(entry.system, measure) for measure in others),
            *(Cell(measure.text(entry.system.spread(measure).mean)) for measure in COSTS),
        )

    columns = (
        *("System", "Seeds", "MRR"),
        *(("Printed", "Difference") if is_printed else ()),
        *(measure.title for measure in HITS),
        *("MRR current", *(measure.title for measure in TRANSFER), "BWT current"),
        *(measure.title for measure in COSTS),
    )
    grid = grid_of(dataset, columns, map(row, entries))
    return with_codes(grid, [[entry.system] for entry in entries])


def differences(entries: Entries) -> Grid:
    """The table of `large_differences`."""
    columns = ("Dataset", "System", "MRR", "Printed", "Difference")
    rows = [
        [
            dataset,
            e.system.name,
            *map(text.number, (e.mrr, e.printed["mrr"])),
            text.signed(e.difference),
        ]
        for dataset, group in entries.items()
        for e in large_differences(group)
    ]
    return grid_of("Differences", columns, rows, names=2)


def paired_comparison(one: str, other: str, entries: Entries) -> Grid:
    """One row a dataset: MRR of `one` minus MRR of `other` (mean ± standard deviation over shared
    seeds), the backward transfer of `one`, time of `other` / time of `one` with the first seed, and
    the carried bytes of `one` per training fact."""
    pairs = {dataset: _pairs(one, other, group) for dataset, group in entries.items()}
    names = ("Dataset", "Seeds", "MRR", "MRR current", "BWT", "BWT current")
    columns = (*names, f"Time of {other}", "Bytes per fact")
    rows = [_paired_row(dataset, found) for dataset, found in pairs.items() if found]
    grid = grid_of(f"{one} minus {other}", columns, rows)
    return grid if rows else replace(grid, sections=())


def _paired_row(dataset: str, pairs: Sequence[tuple[Results, Results]]) -> list[str]:
    first, second = pairs[0]
    gains = [spread(m.of(one) - m.of(other) for one, other in pairs) for m in (MRR, CURRENT[0])]
    transfers = [spread(m.of(one) for one, _ in pairs) for m in (PAPER[5], CURRENT[5])]
    return [
        dataset,
        str(len(pairs)),
        *(text.signed(value.mean) + MRR.deviation(value) for value in (*gains, *transfers)),
        f"× {second.seconds / first.seconds:.1f}",
        f"{spread(bytes_per_fact(one) for one, _ in pairs).mean:.0f}",
    ]


def _pairs(one: str, other: str, group: Sequence[Entry]) -> list[tuple[Results, Results]]:
    """Pairs of runs of both systems with the same seed."""
    runs = {entry.spec.name: {run.seed: run for run in entry.system.runs} for entry in group}
    mine, theirs = runs.get(one, {}), runs.get(other, {})
    return [(mine[seed], theirs[seed]) for seed in mine if seed in theirs]


def bytes_per_fact(run: Results) -> float:
    """Carried bytes after the last snapshot / number of training facts."""
    facts = sum(record.train_facts for record in run.snapshots)
    return run.snapshots[-1].carried_bytes / max(1, facts)


def plain(entries: Entries) -> dict[str, Any]:
    """All figures for JSON."""
    return {
        "systems": [
            {**row, "printed": dict(entry.printed), "difference": entry.difference}
            for group in entries.values()
            for entry in group
            for row in summary_rows(entry.system.runs)
        ],
        "rank_correlation": {dataset: agreement(group) for dataset, group in entries.items()},
    }


def _only(entries: Entries, names: Set[str]) -> dict[str, list[Entry]]:
    """The entries of the systems with these names; datasets without any are left out."""
    found = {d: [x for x in group if x.spec.name in names] for d, group in entries.items()}
    return {dataset: group for dataset, group in found.items() if group}


def _with_printed(entry: Entry, measure: Measure, best: str | None = None) -> Cell:
    """A measure; in brackets its printed value."""
    cell, printed = measure_cell(entry.system, measure, best), entry.printed.get(measure.key)
    return cell if printed is None else replace(cell, text=f"{cell.text} ({text.number(printed)})")
