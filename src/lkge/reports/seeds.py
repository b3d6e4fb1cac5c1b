"""Tables over seeds: the interval of each system, and the differences between systems."""

import math
from collections.abc import Iterable, Sequence

from lkge.evaluation.results import PROTOCOLS
from lkge.reports import text
from lkge.reports.comparison import Difference, differences
from lkge.reports.grids import Grid, grid_of
from lkge.reports.systems import MEASURES, System, by_dataset

INTERVAL = "Interval"
INTERVAL_NOTE = (
    "Mean over the seeds and its 95 % interval (Student's t). It holds for other seeds on this "
    "graph, not for other graphs."
)
DIFFERENCE_NOTE = (
    "MRR of the last model over all test facts: the mean difference of runs with the same seed. "
    "Interval (95 %) and p over seeds: paired t test, whether other seeds would agree. p over "
    "relations: randomisation test, whether the difference is spread over the relations or could "
    "be due to a few of them. Neither holds for other graphs, and no p is adjusted for the number "
    "of rows."
)


def interval_grids(systems: Iterable[System]) -> list[Grid]:
    """For each dataset, MRR with its interval of each system with several runs."""
    repeated = [system for system in systems if len(system.runs) > 1]
    columns = ("Method", "Seeds", *(c for p in PROTOCOLS for c in (f"MRR {p}", INTERVAL)))
    return [
        grid_of(f"{dataset}, over seeds", columns, map(_interval_row, group), note=INTERVAL_NOTE)
        for dataset, group in by_dataset(repeated).items()
    ]


def _interval_row(system: System) -> list[str]:
    spreads = [system.spread(MEASURES[protocol][0]) for protocol in PROTOCOLS]
    texts = [(text.number(s.mean), interval(s.mean, s.half_width)) for s in spreads]
    return [system.name, str(len(system.runs)), *(word for pair in texts for word in pair)]


def difference_grids(systems: Sequence[System], reference: str | None = None) -> list[Grid]:
    """For each dataset and protocol, `reference` (by default the first system) minus each other
    one; only rows with an interval or a p."""
    grids = []
    for dataset, group in by_dataset(systems).items():
        for protocol in PROTOCOLS:
            tested = [d for d in differences(group, protocol, reference) if d.is_tested]
            if tested:
                title = f"{dataset}, {tested[0].one} minus others, {protocol} protocol"
                columns = (
                    *("Minus", "Seeds", "Difference", INTERVAL),
                    *("p over seeds", "Relations", "p over relations"),
                )
                rows = map(_difference_row, tested)
                grids.append(grid_of(title, columns, rows, note=DIFFERENCE_NOTE))
    return grids


def _difference_row(found: Difference) -> list[str]:
    return [
        found.other,
        str(found.seeds),
        text.signed(found.mean, decimals=4),
        interval(found.mean, found.half_width, decimals=4),
        text.probability(found.p_seeds),
        str(found.relations) if found.relations else text.ABSENT,
        text.probability(found.p_relations),
    ]


def interval(mean: float, half_width: float, decimals: int = 3) -> str:
    """`0.412 to 0.421`."""
    if math.isnan(half_width):
        return text.ABSENT
    ends = (mean - half_width, mean + half_width)
    return " to ".join(text.number(end, decimals) for end in ends)
