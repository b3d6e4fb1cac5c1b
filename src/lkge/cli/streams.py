"""`lkge bench streams`: living graphs that grow by many adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Exit, Option

from lkge.cli import output
from lkge.cli.bench import Jobs, ReportOnly, repeat, say_failures
from lkge.cli.flags import takes_settings
from lkge.common_settings import COMMON
from lkge.errors import SettingsError, UnknownName

if TYPE_CHECKING:
    from lkge.studies.runner import Failure
    from lkge.studies.stream_results import StreamRun
    from lkge.studies.streams import Split, StreamSpec


@partial(takes_settings, leave_out=frozenset(COMMON))
def bench_streams(
    *,
    flags: Mapping[str, Any],
    streams: Annotated[
        str | None,
        Option(
            help="Datasets, `NAME:SIZE` for adds of SIZE facts, and `genes`; commas between.",
            show_default="ENTITY,RELATION,FACT,HYBRID,brick,brick:100,genes",
        ),
    ] = None,
    stream: Annotated[
        list[Path] | None,
        Option("--stream", help="A file of facts as a stream, in its order; may be repeated."),
    ] = None,
    first: Annotated[float, Option(help="The share of a --stream that is learned first.")] = 0.5,
    size: Annotated[int, Option(min=1, help="Facts of an add of a --stream.")] = 1000,
    retract: Annotated[
        float,
        Option(min=0, max=0.5, help="Earlier facts that an add retracts, as a share of its own."),
    ] = 0.0,
    systems: Annotated[
        str | None,
        Option(help="living, fine-tune, lkge, at-once; commas between.", show_default="all"),
    ] = None,
    seeds: Annotated[str, Option(help="Numbers, with commas.")] = "11",
    facts: Annotated[
        Literal["test", "valid"],
        Option(help="The held-out facts to evaluate; valid: to choose settings by."),
    ] = "test",
    points: Annotated[
        str, Option(help="When to measure: numbers of adds, and shares of all adds.")
    ] = "0%,10%,25%,50%,75%,100%,15,150",
    at_once_points: Annotated[
        str | None, Option(help="The same for at-once.", show_default="the last of --points")
    ] = None,
    jobs: Jobs = 1,
    data: output.DataPath = None,
    data_genes: Annotated[
        Path | None, Option(help="The folder of genes.", show_default="below --data")
    ] = None,
    genes_facts: Annotated[
        int | None, Option(min=1, help="Cut genes to the facts of some, at most so many.")
    ] = None,
    out: Annotated[Path, Option(help="The folder of results and tables.")] = Path(
        "results", "streams"
    ),
    runs: Annotated[
        Path | None, Option(help="The folder of living graphs.", show_default="OUT/runs")
    ] = None,
    report_only: ReportOnly = False,
    as_json: output.AsJson = False,
) -> None:
    """Grow living graphs by streams of facts, measure them on the way, and write tables and a
    figure.

    What is finished is not run again, and what was begun goes on.
    """
    from lkge.studies import stream_report, stream_runs
    from lkge.studies import streams as definitions
    from lkge.studies.study import listed, listed_seeds

    screen = output.console(stderr=as_json)
    failures: Sequence[Failure] = []
    if not report_only:
        if not 0 < first < 1:
            raise SettingsError(f"--first {first} is out of range: it must be between 0 and 1")
        names = listed(streams) or ([] if stream else list(definitions.DEFAULT_STREAMS))
        specs = definitions.named_streams(names, data, data_genes, genes_facts, retract)
        specs += [definitions.file_stream(file, first, size, retract) for file in stream or []]
        wanted = listed(points) or [], listed(at_once_points)
        cells = _runs(specs, listed(systems), listed_seeds(seeds) or [], wanted, facts, flags)
        with output.stoppable(repeat):
            failures = stream_runs.run_streams(
                cells, screen, out=out, folder=runs or out / "runs", at_once=jobs
            )
    say_failures(failures)
    found = stream_report.write(out)
    if as_json:
        output.print_json({"systems": stream_report.plain(found)})
    else:
        output.show(*stream_report.mean_grids(found))
        output.say(f"Kept in {out}; open {out / 'README.md'}")
    if failures:
        raise Exit(output.SOME_FAILED)


def _runs(
    specs: Sequence[StreamSpec],
    chosen: Sequence[str] | None,
    seeds: Sequence[int],
    points: tuple[Sequence[str], Sequence[str] | None],
    split: Split,
    settings: Mapping[str, Any],
) -> list[StreamRun]:
    """All runs: every stream with the first seed, then with the second, …"""
    from lkge.studies.stream_results import AT_ONCE, SYSTEMS, StreamRun
    from lkge.studies.streams import read_stream, resolved_points

    for name in chosen or ():
        if name not in SYSTEMS:
            raise UnknownName("system", name, SYSTEMS)
    _require_distinct(specs)
    own, of_at_once = points
    measured = {}
    for spec in specs:
        adds = read_stream(spec, split).num_adds
        places = resolved_points(own, adds)
        at_once = places[-1:] if of_at_once is None else resolved_points(of_at_once, adds)
        measured[spec.name] = (places, at_once)
    runs = [
        StreamRun(spec, system, seed, measured[spec.name][system == AT_ONCE], split, dict(settings))
        for seed in seeds
        for spec in specs
        for system in SYSTEMS
        if chosen is None or system in chosen
    ]
    for run in runs:
        run.config()
    return runs


def _require_distinct(specs: Sequence[StreamSpec]) -> None:
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"two streams have the name {name!r}; leave one of them out")
