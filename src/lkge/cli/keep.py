"""What a living graph keeps: its log and health, versions, tags, exports; and its service."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Exit, Option

import lkge
from lkge.cli import output
from lkge.cli.grow import AtVersion, Folder, add_line, health_note, old_mrr, opened
from lkge.reports import grids, text

if TYPE_CHECKING:
    from lkge.store.checking import Damage
    from lkge.store.health import Health
    from lkge.store.records import Comparison, VersionRecord
    from lkge.store.reliability import Reliability
    from lkge.store.versions import Store

DAMAGED, WORSE = 1, 1
LOG_COLUMNS = (
    *("#", "when", "what", "facts", "new entities/ relations"),
    *("MRR new", "MRR old", "drift", "time"),
)
Format = Literal["parquet", "npy", "tsv", "word2vec", "safetensors"]


def log(kg: Folder, as_json: output.AsJson = False) -> None:
    """List the versions: when, what came, how well old and new facts are ranked, drift, time."""
    from lkge.store.inbox import waiting
    from lkge.store.tags import tags_by_version

    reader = opened(kg)
    tags = tags_by_version(reader.store.tags)
    if as_json:
        lines = [
            {**dataclasses.asdict(line), "tags": tags.get(line.version, [])} for line in reader.log
        ]
        output.print_json(lines)
        return
    kept = set(reader.store.versions())
    notes = ["Times are UTC. MRR old: of facts held out before, before → after."]
    notes.append(_health_line(kg, reader.log))
    if len(kept) < len(reader.log):
        notes.append("Faint: no longer on the disk.")
    if batches := len(waiting(reader.store)):
        notes.append(f"{batches} more to be learned: {add_line(kg)}")
    rows = [
        _log_row(record, record.version in kept, tags.get(record.version, []))
        for record in reader.log
    ]
    output.show(grids.grid_of(str(kg), LOG_COLUMNS, rows, names=3, note=" ".join(notes)))


def _health_line(kg: Path, log: Sequence[VersionRecord]) -> str:
    """The verdict on the newest version; if it is worse, since when."""
    newest, command = log[-1], shlex.join(["lkge", "health", str(kg)])
    others = [line.version for line in log if line.verdict != newest.verdict]
    since = max(others, default=-1) + 1
    when = f" since version {since}" if newest.verdict == "worse" else ""
    return f"Health: {health_note(newest)}{when}: {command}."


def _log_row(record: VersionRecord, kept: bool, tags: Sequence[str]) -> grids.Row:
    """One line a version, with its tags in brackets; those no longer on the disk are faint."""
    named = f" [{', '.join(tags)}]" if tags else ""
    texts = (
        str(record.version),
        record.created.replace("T", " ").removesuffix("+00:00")[: len("2026-01-01 12:00")],
        text.printable(f"{record.kind} {record.source}".strip() + named),
        text.count(record.facts) + f" {text.count(-record.retracted)}" * bool(record.retracted),
        f"{text.count(record.new_entities)}/{text.count(record.new_relations)}",
        text.number(record.mrr_new),
        old_mrr(record),
        text.number(record.drift),
        text.duration(record.seconds),
    )
    return tuple(grids.Cell(words, faint=not kept) for words in texts)


def health(kg: Folder, version: AtVersion = None, as_json: output.AsJson = False) -> None:
    """Say whether a graph is as good as it was since its first version; exit code 1 if worse."""
    from lkge.store import records
    from lkge.store.health import health as health_of

    found = health_of(opened(kg, version))
    if as_json:
        output.print_json(found)
    else:
        output.show(_health_grid(kg, found))
        colour = {records.GOOD: "green", records.WORSE: "red"}.get(found.verdict, "")
        output.say(f"{found.verdict}: {found.summary}", style=colour)
        output.say(_reliability_line(found.reliability))
        if found.remedy:
            output.say(f"remedy: {found.remedy}")
        output.say_warnings(found.warnings)
    if found.verdict == records.WORSE:
        raise Exit(WORSE)


def _health_grid(kg: Path, found: Health) -> grids.Grid:
    """The comparisons of a version, one a line."""
    ages = {f"older facts, {age} versions old": each for age, each in found.by_age.items()}
    lines = {
        "older facts, since their baseline": found.since_baseline,
        **{line: each for line, each in ages.items() if line != "older facts, 0 versions old"},
        "older facts, in this version": found.last_update,
        "… with an entity of the batch": found.touched_facts,
        "… without one": found.untouched_facts,
        "retracted facts, since they were known": found.residue,
    }
    rows = [(line, *_compared(each)) for line, each in lines.items() if each.facts]
    drift = f"Drift {text.number(found.drift)}, {text.number(found.total_drift)} in all versions."
    since = "" if found.since is None else f" First evaluated: version {found.since}."
    note = f"Held-out facts, each ranked among the entities of its first version. {drift}{since}"
    columns = ("", "facts", "MRR before", "MRR now", "Hits@10 before", "Hits@10 now", "change")
    return grids.grid_of(f"{kg}, version {found.version}", columns, rows, note=note)


def _reliability_line(found: Reliability | None) -> str:
    """How far plausibility is from a probability."""
    if found is None:
        return "plausibility: its reliability is not measured in this version"
    answers, queries = text.count(found.answers), text.count(found.queries)
    off, above = f"off by {text.number(found.error)} on average", found.error_above
    if above is not None:
        off = f"{off} and by {text.number(above)} above 0.1"
    return f"plausibility: {off}, over {answers} answers to {queries} held-out queries"


def _compared(each: Comparison) -> tuple[str, ...]:
    from lkge.store.health import change_of

    numbers = (each.mrr_before, each.mrr, each.hits10_before, each.hits10)
    return (text.count(each.facts), *map(text.number, numbers), change_of(each))


def verify(
    kg: Folder,
    repair: Annotated[
        bool, Option("--repair", help="Set damaged versions aside; their facts are learned again.")
    ] = False,
    as_json: output.AsJson = False,
) -> None:
    """Read every byte of a living graph and name what is damaged; exit code 1 if anything is.

    If it is stopped, the next call goes on. The last version without damage stays on the disk until
    a newer one is verified.
    """
    from lkge.store import checking, locks, repairing, versions

    store, done = versions.Store(kg), list[str]()
    found = left = checking.check(store)
    if repair and found:
        with locks.writing(store, "verify --repair"):
            done = repairing.repair(store)
        left = checking.check(store)
    if as_json:
        output.print_json({"damage": found, "repaired": done, "whole": not left})
    else:
        _show_check(store, found, done, left)
    if left:
        raise Exit(DAMAGED)


def compact(kg: Folder, as_json: output.AsJson = False) -> None:
    """Write the changes of the newest version into its base files; its content stays.

    `lkge add` does that in the background when the changes are a tenth of the files.
    """
    kinds = lkge.open(kg).compact()
    if as_json:
        output.print_json({"written": kinds})
    else:
        done = f"{', '.join(kinds)} written anew" if kinds else "there is nothing to compact"
        output.say(f"{kg}: {done}")


def backup(
    kg: Folder,
    target: Annotated[Path, Argument(metavar="TARGET", help="A new folder, or an earlier copy.")],
    as_json: output.AsJson = False,
) -> None:
    """Copy a living graph as it is now, while it may be written; only new files, all verified."""
    from lkge.store.backup import backup as copy
    from lkge.store.versions import Store

    size = copy(Store(kg), target)
    if as_json:
        output.print_json({"folder": str(target), "bytes": size})
    else:
        output.say(f"{target}: {text.count(size)} bytes written")


def migrate(kg: Folder, as_json: output.AsJson = False) -> None:
    """Bring a graph of an older release to the format of this one, in its folder.

    The old files stay until the new ones are complete; if it is stopped, call it again.
    """
    from lkge.store import locks, migration, versions

    store = versions.Store(kg)
    with locks.writing(store, "migrate", old=True):
        done = migration.migrate(store)
    if as_json:
        output.print_json({"done": done})
    else:
        for line in done or [f"{kg}: there is nothing to migrate"]:
            output.say(line)


def rollback(
    kg: Folder,
    version: Annotated[str, Argument(metavar="VERSION", help="A number or a tag of `lkge log`.")],
    as_json: output.AsJson = False,
) -> None:
    """Go back to an old version, by publishing it anew as the newest; the log goes on."""
    record = lkge.open(kg).rollback(version)
    if as_json:
        output.print_json(record)
    else:
        output.say(f"{kg}: version {record.version} is {record.source} again")


def tag(
    kg: Folder,
    name: Annotated[
        str,
        Argument(metavar="NAME", help="Letters, digits, '_', '-' and '.', such as before-import."),
    ],
    version: Annotated[
        str | None, Option("--version", help="What to name.", show_default="the newest")
    ] = None,
    delete: Annotated[bool, Option("--delete", help="Delete the tag; the version stays.")] = False,
    as_json: output.AsJson = False,
) -> None:
    """Give a version a name. It then stays on the disk, and the name stands for its number."""
    if delete and version is not None:
        raise lkge.SettingsError("--delete needs the name alone: leave out --version")
    graph = lkge.open(kg)
    number = graph.delete_tag(name) if delete else graph.tag(name, version)
    if as_json:
        output.print_json(graph.tags)
    elif delete:
        output.say(f"{kg}: the tag {name} of version {number} is deleted")
    else:
        output.say(f"{kg}: version {number} has the tag {name}")


def keep(
    kg: Folder,
    keep: Annotated[int | None, Option(min=2, help="How many of the newest versions stay.")] = None,
    keep_days: Annotated[
        int | None, Option(min=0, help="Days for which each version stays at least; 0: none.")
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Change which versions stay on the disk, and remove the others; without options: show it.

    Versions with a tag stay always.
    """
    graph = lkge.open(kg)
    asked = keep is None and keep_days is None
    options = graph.store.options if asked else graph.keep(keep, keep_days)
    if as_json:
        output.print_json(
            {
                "keep": options.keep,
                "keep_days": options.keep_days,
                "tags": graph.tags,
                "versions": graph.store.versions(),
            }
        )
        return
    days = f", and each for {options.keep_days:,} days" if options.keep_days else ""
    output.say(f"{kg}: the newest {options.keep:,} versions stay{days}; tagged ones always")
    output.say(f"On the disk: {', '.join(map(str, graph.store.versions()))}")


def export(
    kg: Folder,
    format_: Annotated[Format, Option("--format", help="How the embeddings are written.")],
    out: Annotated[Path, Option("--out", help="The folder to make.")],
    version: AtVersion = None,
    as_json: output.AsJson = False,
) -> None:
    """Write the embeddings of all entities and relations, with their names, for other programs."""
    names = [file.name for file in lkge.open(kg, version).export(out, format_)]
    if as_json:
        output.print_json({"folder": str(out), "files": names})
    else:
        output.say(f"{out}: {', '.join(names)}")


def _show_check(
    store: Store, found: Sequence[Damage], done: Sequence[str], left: Sequence[Damage]
) -> None:
    from lkge.store.inbox import waiting

    for damage in found:
        output.say(f"{damage.path}: {damage.reason}", style="red")
    for line in done:
        output.say(line)
    if not left:
        count = len(store.versions())
        output.say(f"{store.folder}: every byte of {count} versions is as written", style="green")
        if done and waiting(store):
            output.say(f"Learn again: {add_line(store.folder)}")
    elif not done:
        advice = shlex.join(["lkge", "verify", str(store.folder), "--repair"])
        output.say(f"To set aside what is damaged: {advice}")


def serve(
    kg: Folder,
    host: Annotated[
        str, Option(help="Where to listen; anywhere but loopback every request needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    token_file: Annotated[
        Path | None,
        Option(help="File with the token for writing; also $LKGE_TOKEN. Else one is printed."),
    ] = None,
    read_token_file: Annotated[
        Path | None,
        Option(help="File with a token for reading; also $LKGE_READ_TOKEN. Reading then needs it."),
    ] = None,
    tls_cert: Annotated[
        Path | None, Option(help="Certificate chain in PEM, to serve https; with --tls-key.")
    ] = None,
    tls_key: Annotated[Path | None, Option(help="Its private key in PEM.")] = None,
    read_only: Annotated[
        bool,
        Option("--read-only", help="Learn nothing; beside the one service that writes to KG."),
    ] = False,
    threads: Annotated[int, Option(min=1, help="Questions answered at the same time.")] = 2,
    max_requests: Annotated[
        int, Option(min=1, help="Requests held at the same time; more get status 503.")
    ] = 64,
    max_body: Annotated[int, Option(min=1024, help="Bytes of a request's body.")] = 8 << 20,
) -> None:
    """Answer questions over HTTP, learn posted facts in the background, and show a page at /."""
    try:
        from lkge.serve import auth, server
        from lkge.serve.limits import Limits
    except ModuleNotFoundError as error:
        raise lkge.LkgeError(
            f"the service needs {error.name}: pip install 'lkge[serve]'"
        ) from error

    if (tls_cert is None) != (tls_key is None):
        raise lkge.SettingsError("give both --tls-cert and --tls-key")
    if read_only and token_file is not None:
        raise lkge.SettingsError("--read-only takes no token for writing: leave out --token-file")
    tokens = auth.Tokens(
        None if read_only else auth.token_from(token_file, "LKGE_TOKEN"),
        auth.token_from(read_token_file, "LKGE_READ_TOKEN"),
    )
    limits = Limits(threads=threads, requests=max_requests, body_bytes=max_body)
    tls = (tls_cert, tls_key) if tls_cert and tls_key else None
    server.serve(kg, host, port, tokens, limits, tls, read_only)
