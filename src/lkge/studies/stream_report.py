"""The report of `lkge bench streams`: README.md and a figure from the stored JSON files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lkge.data.files import write_text_atomically
from lkge.errors import RunError
from lkge.evaluation.results import nan_to_none
from lkge.provenance import codes_of
from lkge.reports import text
from lkge.reports.grids import Cell, Grid, grid_of, markdown_table, markdown_text
from lkge.reports.plot_style import render
from lkge.reports.tables import provenance_note
from lkge.studies import stream_figure
from lkge.studies.stream_results import (
    AT_ONCE,
    GROUPS,
    LIVING,
    REMOVED,
    SYSTEMS,
    Group,
    Point,
    StreamResults,
    mean,
    results_in,
)
from lkge.studies.streams import resolved_points

FIGURE = "quality-over-adds"
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
CAPTION = (
    "MRR of held-out facts over the position in the stream: of all that can be evaluated, of the "
    "oldest tenth and of the newest tenth. A thin level extends what was measured only once."
)
INTRODUCTION = """\
# Living graphs on streams of facts

`lkge bench streams` writes this page and the figure from the JSON files in this folder. A stream is
a first batch of facts and many adds, in order. *living*: a graph as `lkge init` makes it without
flags. *fine-tune*: the method fine-tune on the same base model. *lkge*: a graph as `lkge init
--method lkge` makes it. *at-once*: as living, but all facts so far are its only batch; it is the
reference.

Ranks are of the {split} facts that are never added, as soon as all their names are known: among all
entities of that point, filtered by all facts of the stream. *Oldest*, *newest*: the tenth of these
facts that could be evaluated first, and last. *of at-once*: MRR as a share of that of at-once at
the same point. *Removed*: facts that were retracted, which at-once has never learned: the MRR of
at-once is the goal. Seconds are those of one thread; *training*: an add without writing, evaluating
and calibrating; *consolidation*: training on all known facts again, which follows some adds, as a
mean over all adds.
*Version*: the bytes of the newest version. *Carried*: what the method keeps beside the embeddings.
*Known*: the known facts of the newest version. With several seeds: means over them."""


@dataclass(frozen=True)
class StreamSystem:
    """The runs of a system on a stream, which differ in their seed."""

    stream: str
    system: str
    runs: tuple[StreamResults, ...]

    @property
    def points(self) -> list[int]:
        """The numbers of adds at which all runs are measured."""
        measured = [{point.adds for point in run.points} for run in self.runs]
        return sorted(set.intersection(*measured))

    def mean(self, adds: int, of: Callable[[Point], float]) -> float:
        """A figure of a point, mean over the runs; nan where it is not measured."""
        found = (run.point(adds) for run in self.runs)
        return mean(of(point) for point in found if point is not None)

    def mrr(self, adds: int, group: Group) -> float:
        """The MRR of a group of held-out facts."""
        return self.mean(adds, lambda point: getattr(point, group).mrr)

    def hits10(self, adds: int, group: Group) -> float:
        """Hits@10 of a group of held-out facts."""
        return self.mean(adds, lambda point: getattr(point, group).hits10)

    def add_seconds(self, adds: int, kind: str) -> list[float]:
        """The time of each add up to a point; of all runs. `kind`: wall or training."""
        return [getattr(each, kind) for run in self.runs for each in run.add_seconds(adds)]


Systems = Mapping[str, Mapping[str, StreamSystem]]
"""By stream, then by system."""


def write(folder: Path) -> Systems:
    """Write `README.md` and `figures/` into a folder of results; the systems of the results."""
    results = results_in(folder)
    if not results:
        raise RunError(f"{folder}: no run of a stream is stored here")
    systems = systems_of(results, folder)
    lines = {
        stream: {
            name: {str(group): _line(system, group) for group in GROUPS}
            for name, system in group_of.items()
        }
        for stream, group_of in systems.items()
    }
    render(stream_figure.quality_over_adds(lines), FIGURE).write(folder / "figures")
    write_text_atomically(folder / "README.md", readme(systems))
    return systems


def systems_of(results: Sequence[StreamResults], folder: Path) -> Systems:
    """The systems by stream. Results of one folder that cannot be compared are an error."""
    if len({result.run.split for result in results}) > 1:
        raise RunError(
            f"{folder}: has results on test facts and on validation facts; move one kind away"
        )
    found: dict[str, dict[str, list[StreamResults]]] = {}
    for result in results:
        of_stream = found.setdefault(result.run.stream.name, {})
        of_stream.setdefault(result.run.system, []).append(result)
        first = next(iter(of_stream.values()))[0]
        if first.stream.digest != result.stream.digest:
            raise RunError(
                f"{folder}: {first.run.name} and {result.run.name} are of other facts; "
                "move one away"
            )
    return {
        stream: {name: StreamSystem(stream, name, tuple(runs)) for name, runs in group.items()}
        for stream, group in found.items()
    }


def readme(systems: Systems) -> str:
    """The page in Markdown."""
    runs = [run for group in systems.values() for each in group.values() for run in each.runs]
    parts = [
        INTRODUCTION.format(split="validation" if runs[0].run.split == "valid" else "test"),
        provenance_note(run.provenance for run in runs),
        _settings(runs),
        *map(_section, (*share_grids(systems), streams_grid(systems), *mean_grids(systems))),
        f"![{CAPTION}](figures/{FIGURE}.png)\n\n*{CAPTION}*",
    ]
    for stream, group in systems.items():
        parts += [f"## {markdown_text(stream)}"]
        parts += [markdown_table(grid).strip() for grid in stream_grids(group)]
    return "\n\n".join(filter(None, parts)) + "\n"


def streams_grid(systems: Systems) -> Grid:
    """What each stream is made of."""
    columns = ("Stream", "Order", "First facts", "Adds", "Facts", "Entities", "Held out")
    rows = []
    for stream, group in systems.items():
        facts = next(iter(group.values())).runs[0].stream
        counts = (facts.first_facts, facts.adds, facts.facts, facts.entities, facts.held_out)
        rows.append((stream, facts.note, *map(text.count, counts)))
    return grid_of("Streams", columns, rows, names=2)


def share_grids(systems: Systems) -> list[Grid]:
    """The MRR of living as a share of that of at-once, at the first and at the last point that both
    have: a row for each stream, and their mean."""
    rows, shares = [], []
    for stream, group in systems.items():
        living, at_once = group.get(LIVING), group.get(AT_ONCE)
        if living is None or at_once is None:
            continue
        if not (both := sorted({*living.points} & {*at_once.points})):
            continue
        adds = both[0], both[-1]
        shares.append([_ratio(living, at_once, each, "all") for each in adds])
        cells = [
            (text.count(each), text.number(living.mrr(each, "all")), _share(share))
            for each, share in zip(adds, shares[-1], strict=True)
        ]
        rows.append((stream, text.count(len(living.runs)), *cells[0], *cells[1]))
    if len(rows) > 1:
        first, last = (_share(mean(each)) for each in zip(*shares, strict=True))
        rows.append(("mean", "", "", "", first, "", "", last))
    columns = ("Stream", "Seeds", *("Adds", "MRR of living", "of at-once") * 2)
    return [grid_of("A living graph and learning at once", columns, rows)] if rows else []


def _share(ratio: float) -> str:
    return f"{100 * ratio:.1f} %"


def mean_grids(systems: Systems) -> list[Grid]:
    """Quality and cost at the last point and quality on the way, means over the streams that all
    systems have."""
    names: list[str] = [
        name for name in SYSTEMS if any(name in group for group in systems.values())
    ]
    shared = {
        stream: group
        for stream, group in systems.items()
        if all(name in group for name in names) and _end(group) is not None
    }
    if not shared:
        return []
    note = f"Means over {', '.join(shared)}."
    rows = {name: [_row(group, name) for group in shared.values()] for name in names}
    whole = {name: _mean_row(found) for name, found in rows.items()}
    return [
        _quality_grid("Quality at the last point", whole, note),
        _cost_grid("Cost", whole, note),
        *_way_grids(shared, names, note),
    ]


def _way_grids(systems: Systems, names: Sequence[str], note: str) -> list[Grid]:
    """Quality after shares of all adds, where every stream is measured then."""
    rows = []
    for name in names:
        for share in SHARES:
            found = [(group[name], _place(group[name], share)) for group in systems.values()]
            if all(place in system.points for system, place in found):
                means = [mean(s.mrr(place, group) for s, place in found) for group in GROUPS]
                rows.append((name, text.percent(share), *map(text.number, means)))
    columns = ("System", "Adds", *(f"MRR {group}" for group in GROUPS))
    return [grid_of("Quality on the way", columns, rows, note=note)] if rows else []


def _place(system: StreamSystem, share: float) -> int:
    """The number of adds that a share of all adds is."""
    (place,) = resolved_points([f"{100 * share:g}%"], system.runs[0].stream.adds)
    return place


def stream_grids(group: Mapping[str, StreamSystem]) -> list[Grid]:
    """One stream: quality at every point, and cost at the last one."""
    removes = any(run.last.removed.facts for system in group.values() for run in system.runs)
    columns = ("System", "Adds", "Facts", "Entities", *QUALITIES, "of at-once")
    columns += ("MRR removed",) if removes else ()
    rows = []
    for name, system in group.items():
        reference = group.get(AT_ONCE)
        for adds in system.points:
            point = system.runs[0].point(adds)
            assert point is not None
            counts = (point.adds, point.facts, point.entities)
            ratio = _ratio(system, reference, adds, "all")
            cells = [text.number(each) for each in _qualities(system, adds)]
            cells += [text.percent(ratio)]
            cells += [text.number(system.mrr(adds, REMOVED))] if removes else []
            rows.append((name, *map(text.count, counts), *cells))
    costs = {name: _row(group, name) for name in group if group[name].points}
    return [grid_of("Quality", columns, rows), _cost_grid("Cost", costs)]


def plain(systems: Systems) -> list[dict[str, Any]]:
    """All figures for JSON: a tree for each stream and system."""
    return [
        {
            "stream": stream,
            "system": name,
            "seeds": [run.run.seed for run in system.runs],
            "code": list(
                dict.fromkeys(code for r in system.runs for code in codes_of(r.provenance))
            ),
            "facts": asdict(system.runs[0].stream),
            "points": [[nan_to_none(point) for point in run.points] for run in system.runs],
            "last": nan_to_none(_row(group, name)),
        }
        for stream, group in systems.items()
        for name, system in group.items()
    ]


QUALITIES = tuple(f"{kind} {group}" for group in GROUPS for kind in ("MRR", "Hits@10"))
RATIOS = tuple(f"of at-once, {group}" for group in GROUPS)
COSTS: Mapping[str, Callable[[float], str]] = {
    "Add, mean": text.duration,
    "Add, max": text.duration,
    "Training, mean": text.duration,
    "Consolidation, mean": text.duration,
    "At once": text.duration,
    "At once / add": lambda value: text.ABSENT if math.isnan(value) else f"× {value:,.1f}",
    "Version": text.size,
    "Carried": text.size,
    "Known": text.size,
}
"""The columns of the table of costs, and how each is written."""


def _row(group: Mapping[str, StreamSystem], name: str) -> dict[str, float]:
    """All figures of a system at its last point, by column."""
    system, reference = group[name], group.get(AT_ONCE)
    last = system.points[-1]
    row = dict(zip(QUALITIES, _qualities(system, last), strict=True))
    ratios = [_ratio(system, reference, last, each) for each in GROUPS]
    row |= zip(RATIOS, ratios, strict=True)
    for title, kind in (
        ("Add", "wall"),
        ("Training", "training"),
        ("Consolidation", "consolidation"),
    ):
        row[f"{title}, mean"] = mean(system.add_seconds(last, kind))
    row["Add, max"] = max(system.add_seconds(last, "wall"), default=math.nan)
    at_once = math.nan if reference is None else reference.mean(last, lambda p: p.seconds.wall)
    row["At once"] = at_once
    row["At once / add"] = at_once / row["Add, mean"]
    row["Version"] = system.mean(last, lambda point: point.version_bytes)
    row["Carried"] = system.mean(last, lambda point: point.carried_bytes)
    row["Known"] = system.mean(last, lambda point: point.known_bytes)
    return row


def _mean_row(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each column; the longest add is the longest of all streams."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        name: max(values) if name.endswith(", max") else mean(values)
        for name, values in columns.items()
    }


def _qualities(system: StreamSystem, adds: int) -> list[float]:
    return [of(adds, group) for group in GROUPS for of in (system.mrr, system.hits10)]


def _ratio(system: StreamSystem, reference: StreamSystem | None, adds: int, group: Group) -> float:
    """MRR / MRR of at-once at the same point."""
    if reference is None or system is reference:
        return math.nan
    return system.mrr(adds, group) / reference.mrr(adds, group)


def _quality_grid(title: str, rows: Mapping[str, Mapping[str, float]], note: str) -> Grid:
    numbers = {
        name: [
            *(text.number(row[column]) for column in QUALITIES),
            *(text.percent(row[column]) for column in RATIOS),
        ]
        for name, row in rows.items()
    }
    cells = [[name, *found] for name, found in numbers.items()]
    return grid_of(title, ("System", *QUALITIES, *RATIOS), cells, note=note)


def _cost_grid(title: str, rows: Mapping[str, Mapping[str, float]], note: str = "") -> Grid:
    cells = [
        [Cell(name), *(Cell(words(row[column])) for column, words in COSTS.items())]
        for name, row in rows.items()
    ]
    return grid_of(title, ("System", *COSTS), cells, note=note)


def _end(group: Mapping[str, StreamSystem]) -> int | None:
    """The last point of a stream if all its systems have it."""
    ends = {tuple(system.points[-1:]) for system in group.values()}
    return next(iter(ends))[0] if len(ends) == 1 and () not in ends else None


def _line(system: StreamSystem, group: Group) -> list[tuple[int, float]]:
    return [(adds, system.mrr(adds, group)) for adds in system.points]


def _settings(runs: Iterable[StreamResults]) -> str:
    """The settings that are not the defaults."""
    found = {
        f"{run.run.system}: {', '.join(f'{k} = {v!r}' for k, v in run.run.settings.items())}": None
        for run in runs
        if run.run.settings
    }
    return f"Settings other than the defaults: {markdown_text('; '.join(found))}." if found else ""


def _section(grid: Grid) -> str:
    return f"## {grid.title}\n\n{markdown_table(grid).strip()}"
