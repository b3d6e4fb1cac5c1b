"""`lkge init`, `add`, `edit` and `relearn`: make a living graph, and change it."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

import lkge
from lkge.cli import output
from lkge.cli.flags import config_from, takes_settings
from lkge.cli.previewed import FACT_FILES, Columns, FileFormat, OnlyPreview, show_preview
from lkge.reports import grids, text
from lkge.training import events as events_

if TYPE_CHECKING:
    from lkge.data.fact_list import FactList
    from lkge.data.facts import NamedFacts
    from lkge.store import reader, records

Folder = Annotated[Path, Argument(metavar="KG", help="The folder of a living graph.")]
AtVersion = Annotated[
    str | None,
    Option("--version", help="Ask an older version, by number or tag.", show_default="the newest"),
]
STANDARD_INPUT = "-"
HELD_OUT = 0.02
KEPT = 5

Valid = Annotated[
    float | None,
    Option(
        min=0,
        max=0.9,
        help="The share of new facts that is held out for validation and test.",
        show_default=str(HELD_OUT),
    ),
]
Events = Annotated[
    bool, Option("--events", help="Print what happens on stdout, one JSON object a line.")
]


@partial(takes_settings, leave_out=frozenset({"dataset"}))
def init(
    *,
    kg: Annotated[Path, Argument(metavar="KG", help="The folder to make.")],
    flags: Mapping[str, Any],
    files: Annotated[
        list[Path] | None,
        Option("--from", help=f"Learn this first; may be repeated. {FACT_FILES}"),
    ] = None,
    columns: Columns = None,
    file_format: FileFormat = None,
    preview: OnlyPreview = False,
    run: Annotated[
        Path | None, Option("--from-run", help="Begin with what a finished run folder has learned.")
    ] = None,
    preset: output.PresetName = None,
    config: output.ConfigPath = None,
    data: output.DataPath = None,
    keep: Annotated[int, Option(min=2, help="Versions that stay on the disk.")] = KEPT,
    keep_days: Annotated[
        int, Option(min=0, help="Days for which each version stays on the disk at least.")
    ] = 0,
    known: Annotated[
        bool, Option(help="Keep the known facts, to mark answers and to leave them out.")
    ] = True,
    valid: Valid = None,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Make a living graph in a new folder: empty, from facts, or from a finished run."""
    from lkge.sizing import Size

    output.require_unused(kg, f"add to it with `{add_line(kg)}`, or name another folder")
    parts = read_files(files or [], columns, file_format, warn=not preview)
    facts = _together(parts)
    if preview:
        if not files:
            raise lkge.SettingsError("--preview looks at facts to begin with: give --from")
        show_preview(lkge.preview(parts), as_json)
        return
    if files and not facts:
        raise lkge.DataError(
            f"there is no fact in {_names(files)}; leave out --from for an empty graph"
        )
    if run is None:
        size = Size(len(facts.entities), len(facts))
        chosen = config_from(config, flags, preset, living=True, size=size)
        if not quiet:
            output.say_size(chosen, size)
        graph = lkge.init(kg, config=chosen, keep=keep, keep_days=keep_days, known=known)
    elif config is not None:
        raise lkge.SettingsError(
            "--from-run goes on with the settings of the run: "
            "leave out --config, and give single settings as flags"
        )
    else:
        kept: dict[str, Any] = {"keep": keep, "keep_days": keep_days, "known": known}
        graph = lkge.init(kg, run=run, data=data, preset=preset, **kept, **flags)
    if files:
        with _learning(graph, quiet) as listener:
            graph.add(facts, valid=valid, source=_names(files), listener=listener)
    if as_json:
        settings = graph.config.to_dict()
        output.print_json({"folder": str(kg), "settings": settings, "log": graph.log()})
        return
    _show(graph.log()[1:])
    output.say(f"{kg} is made. To add facts: {add_line(kg)} FILE…")


def add(
    kg: Folder,
    files: Annotated[
        list[Path] | None, Argument(metavar="[FILE]...", help=f"Facts to learn. {FACT_FILES}")
    ] = None,
    retract: Annotated[
        list[Path] | None, Option("--retract", help="Facts that no longer hold; may be repeated.")
    ] = None,
    columns: Columns = None,
    file_format: FileFormat = None,
    preview: OnlyPreview = False,
    valid: Valid = None,
    events: Events = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Learn new facts and publish them as the next version. Without a file: learn what waits.

    The facts are on the disk before learning begins; after Ctrl-C or a crash `lkge add KG` goes on.
    When many facts were added since the last time, all known ones are then trained on again in the
    background, as a version of its own.
    """
    graph = _opened_to_learn(kg, events, as_json)
    before = graph.version
    parts = read_files(files or [], columns, file_format, warn=not preview)
    if preview:
        if retract or not files:
            raise lkge.SettingsError("--preview looks at facts to add: give files, not --retract")
        show_preview(graph.preview(parts), as_json)
        return
    added = _together(parts)
    gone = _together(read_files(retract or [], columns, file_format))
    with _learning(graph, quiet, events) as listener:
        if files or retract:
            source = _names([*(files or []), *(retract or [])])
            last = graph.add(
                added,
                retract=gone,
                valid=valid,
                source=source,
                consolidate=False,
                listener=listener,
            )
            done = [*_since(graph, before), *([last] if not last.is_version else [])]
        else:
            done = graph.learn_waiting(listener)
    if not (done or events or as_json):
        output.say("Nothing waits to be learned.")
    _finish(graph, done, events, as_json)
    if any(record.kind == "failed" for record in done):
        raise Exit(output.SOME_FAILED)


def edit(
    kg: Folder,
    remove_entity: Annotated[
        str | None, Option(metavar="NAME", help="Remove an entity and all its facts.")
    ] = None,
    rename: Annotated[
        tuple[str, str] | None,
        Option(metavar="OLD NEW", help="Rename an entity; its row and facts stay."),
    ] = None,
    rename_relation: Annotated[
        tuple[str, str] | None, Option(metavar="OLD NEW", help="Rename a relation.")
    ] = None,
    merge: Annotated[
        tuple[str, str] | None,
        Option(metavar="OLD INTO", help="Give the facts of OLD to INTO, and remove OLD."),
    ] = None,
    events: Events = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Remove, rename or merge entities, and publish the graph as the next version.

    Facts that wait are learned first. After Ctrl-C or a crash `lkge add KG` goes on.
    """
    graph = _opened_to_learn(kg, events, as_json)
    before = graph.version
    with _learning(graph, quiet, events) as listener:
        graph.edit(
            remove=remove_entity,
            rename=rename,
            rename_relation=rename_relation,
            merge=merge,
            consolidate=False,
            listener=listener,
        )
    _finish(graph, _since(graph, before), events, as_json)


def relearn(
    kg: Folder,
    events: Events = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Learn all known facts at once, from scratch, as a new version; for a graph that forgot.

    After Ctrl-C or a crash the same command goes on.
    """
    graph = _opened_to_learn(kg, events, as_json)
    line = shlex.join(["lkge", "relearn", str(kg)])
    with _learning(graph, quiet, events, f"To go on: {line}") as listener:
        record = graph.relearn(listener)
    if as_json:
        output.print_json(record)
        _say_warnings([record])
    elif not events:
        _show([record])


def _opened_to_learn(kg: Path, events: bool, as_json: bool) -> lkge.LivingGraph:
    if events and as_json:
        raise lkge.SettingsError("--events and --json both speak on stdout: leave one of them out")
    return lkge.open(kg)


def _finish(
    graph: lkge.LivingGraph, done: Sequence[records.VersionRecord], events: bool, as_json: bool
) -> None:
    """Consolidate in the background if that is due, and print what was learned."""
    from lkge.store.background import start_consolidation

    due, next_version = graph.consolidation_due, graph.version + 1
    compacts = not due and bool(graph.compaction_due)
    if due or compacts:
        start_consolidation(graph.store.folder)
    if as_json:
        output.print_json(done)
        _say_warnings(record for record in done if record.is_version)
    elif not events:
        show_done(done)
        if due:
            when = f"as version {next_version}: in the background."
            output.say(f"All known facts are trained on again, {when}")
        elif compacts:
            output.say("The files are compacted in the background.")


def _since(graph: lkge.LivingGraph, version: int) -> list[records.VersionRecord]:
    """The lines of the log after a version."""
    return [record for record in graph.log() if record.version > version]


def show_done(done: Sequence[records.VersionRecord]) -> None:
    """The versions as tables; a line for each batch that led to none."""
    _show([record for record in done if record.is_version])
    for record in done:
        if not record.is_version:
            source = f"{text.printable(record.source)}: " if record.source else ""
            output.say(f"{source}{text.printable(record.warnings[0])}")
            output.say(f"The graph stays at version {record.version}.")


def add_line(folder: Path) -> str:
    """The command that adds facts to a graph."""
    return shlex.join(["lkge", "add", str(folder)])


def _show(learned: Sequence[records.VersionRecord]) -> None:
    output.show(*map(version_grid, learned))
    _say_warnings(learned)


def _say_warnings(learned: Iterable[records.VersionRecord]) -> None:
    output.say_warnings(warning for record in learned for warning in record.warnings)


def opened(kg: Path, version: str | None = None, *, to_answer: bool = False) -> reader.Reader:
    """A version of the graph, by number or tag; default: the newest."""
    from lkge.store.reader import open_reader

    return open_reader(kg, version, to_answer=to_answer)


def read_files(
    files: Iterable[Path],
    columns: str | None = None,
    file_format: str | None = None,
    *,
    warn: bool = True,
) -> list[NamedFacts]:
    """The facts of each file and of each file in a folder; warnings are printed."""
    from lkge.data.sources import read_source

    sources = [sys.stdin.buffer if str(file) == STANDARD_INPUT else file for file in files]
    read = [part for source in sources for part in read_source(source, columns, file_format)]
    if warn:
        output.say_warnings(warning for facts in read for warning in facts.warnings)
    return read


def _together(parts: Iterable[NamedFacts]) -> FactList:
    """The facts of all files in order, each once."""
    from lkge.data.fact_list import FactList

    return FactList.joined(parts)


def version_grid(record: records.VersionRecord) -> grids.Grid:
    """All fields of a version, one a line."""
    known = "" if not record.known_facts else f"; {text.count(record.known_facts)} known"
    gone = "" if not record.retracted else f", {text.count(record.retracted)} retracted"
    lines = {
        "facts": f"{text.count(record.facts)} new{gone}{known}",
        "entities": _grown(record.new_entities, record.entities - record.removed),
        "relations": _grown(record.new_relations, record.relations),
        "MRR of added facts": text.number(record.mrr_new),
        "MRR of kept facts": old_mrr(record),
        **({"MRR of removed facts": _removed_mrr(record)} if record.residue.facts else {}),
        "health": health_note(record),
        "drift": f"{text.number(record.drift)}, {text.count(record.touched)} old rows moved",
        "time": f"{text.duration(record.seconds)}, {text.count(record.epochs)} epochs",
    }
    ranked = f"MRR of held-out facts, among {text.count(record.candidates)} entities."
    columns = ("", text.printable(record.source))
    note = ranked if record.candidates else ""
    return grids.grid_of(f"Version {record.version}", columns, lines.items(), names=2, note=note)


def old_mrr(record: records.VersionRecord) -> str:
    """MRR of the kept held-out facts of older versions, before and after."""
    after = text.number(record.mrr_old)
    before = record.mrr_old_before
    return after if math.isnan(before) else f"{text.number(before)} → {after}"


def _removed_mrr(record: records.VersionRecord) -> str:
    """MRR of retracted facts, when they were known and now."""
    before, now = record.residue.mrr_before, record.residue.mrr
    return f"{text.number(before)} → {text.number(now)}"


def health_note(record: records.VersionRecord) -> str:
    """The verdict on a version, and the change of the MRR since the baseline."""
    from lkge.store.health import change_of

    change = change_of(record.since_baseline, noise=False)
    return record.verdict if change == text.ABSENT else f"{record.verdict}, {change}"


def _grown(new: int, total: int) -> str:
    return f"{text.count(new)} new; {text.count(total)} in all"


@contextmanager
def _learning(
    graph: lkge.LivingGraph, quiet: bool, events: bool = False, to_go_on: str = ""
) -> Iterator[events_.Listener]:
    """The listener of the events; Ctrl-C ends the command and prints how to continue."""
    from lkge.store.inbox import waiting

    def advice() -> str:
        if to_go_on:
            return to_go_on
        if not waiting(graph.store):
            return "No facts were accepted."
        return f"The facts are kept. To go on: {add_line(graph.store.folder)}"

    screen, patience = output.console(stderr=True), graph.config.training.patience
    with output.stoppable(advice):
        if events:
            yield events_.JsonLines(sys.stdout)
        else:
            with output.progress(screen, patience, quiet) as listener:
                yield listener


def _names(files: Sequence[Path]) -> str:
    return ", ".join(file.name for file in files)
