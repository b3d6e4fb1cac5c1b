"""What a living graph can do that changes its folder, and what must hold after a crash of it.

A new operation is one line of `OPERATIONS`. The folder is opaque: all is done and asked by the
public API.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet
from tests.torture.disk import Tree, tree_of, write_tree
from typer.main import get_command

import lkge
from lkge.cli import app
from lkge.data.formats import Triple
from lkge.errors import LkgeError
from lkge.store.graph import LivingGraph
from lkge.store.inbox import accept
from lkge.store.records import StoreConfig
from lkge.training.events import Event, RunStarted

TINY: dict[str, Any] = {
    "keep": 3,
    "dim": 4,
    "max_epochs": 2,
    "batch_size": 8,
    "replay_queries": 4,
    "backend": "torch",
    "min_steps_per_epoch": 2,
    "min_replayed": 4,
    "small_update": 0.5,
    "update_epochs": 1,
    "min_update_steps": 1,
    "consolidate_after": 0.25,
}
"""A graph that learns in milliseconds, small updates and consolidations too."""
OFTEN = StoreConfig(seconds_between_checkpoints=0.0, deltas_from_bytes=0)
"""A checkpoint after each epoch, and deltas of tables that are small, too."""
NEVER_COMPACTED = replace(OFTEN, compact_after=1000.0)
RELATIONS = "r", "s"
GOLDEN = Path(__file__).parents[1] / "golden"
REFUSED = 2
"""The exit code of an error that was told."""
RING: list[Triple] = [
    (f"e{n}", relation, f"e{(n + step) % 6}")
    for n in range(6)
    for step, relation in enumerate(RELATIONS, 1)
]
NEWS: list[Triple] = [("new", "r", "e1"), ("new", "s", "e2"), ("e1", "r", "new")]
NEXT: list[Triple] = [("next", "r", "e1"), ("e2", "s", "next")]

Acknowledge = Callable[[], None]
Place = Path
"""Where the graph is or will be: `place_in` a folder that is observed as a whole."""


@dataclass(frozen=True)
class Operation:
    """A change of the graph in `Place`.

    name    what it is
    run     does it; calls `Acknowledge` as soon as the change must not be lost any more. What has
            ended is acknowledged.
    begin   makes the graph that it starts with
    result  what it makes beside the graph: as before the operation or as after it
    again   what is called again after a crash, before facts can be added or the result is there
    """

    name: str
    run: Callable[[Place, Acknowledge], object]
    begin: Callable[[Place], object]
    result: Callable[[Place], object] = lambda _: None
    again: Callable[[Place], object] = lambda _: None


def place_in(root: Path) -> Place:
    """Two folders down."""
    return root / "home" / "KG"


def opened(place: Place, version: int | None = None) -> LivingGraph:
    """The graph, which does often what is rare otherwise."""
    return lkge.open(place, version, store_config=OFTEN)


def nothing(place: Place) -> None:
    """No graph."""


def grown(place: Place) -> None:
    """A graph with a tag on its first version, and as many others as are kept."""
    graph = lkge.init(place, store_config=OFTEN, **TINY)
    graph.tag("first", 0)
    graph.add(RING, valid=0.3)
    graph.add([("old", "r", "e1"), ("e2", "s", "old")], valid=0.3, consolidate=False)
    graph.edit(rename=("old", "older"))


def due(place: Place) -> None:
    """The same with a consolidation that is due."""
    grown(place)
    opened(place).add(NEWS, consolidate=False)


def with_deltas(place: Place) -> None:
    """A graph whose newest version has deltas of several versions."""
    grown(place)
    graph = lkge.open(place, store_config=NEVER_COMPACTED)
    graph.edit(rename=("older", "oldest"))
    graph.add([("e5", "r", "oldest")], consolidate=False)
    assert any(len(files) > 1 for files in graph.reader.manifest.files.values())


def waiting(place: Place) -> None:
    """The same with a batch that waits, accepted as the service does."""
    grown(place)
    accept(opened(place).store, [("waits", "r", "e3"), ("e3", "s", "waits")])


def at_start(acknowledge: Acknowledge) -> Callable[[Event], None]:
    """Facts must be on the disk before training starts."""

    def listener(event: Event) -> None:
        if isinstance(event, RunStarted):
            acknowledge()

    return listener


def adding(place: Place, acknowledge: Acknowledge) -> None:
    """Facts, and a consolidation that they make due."""
    opened(place).add(NEWS, valid=0.3, listener=at_start(acknowledge))


def retracting(place: Place, acknowledge: Acknowledge) -> None:
    """Facts come and go."""
    opened(place).add(NEWS, retract=RING[:2], consolidate=False, listener=at_start(acknowledge))


def exported(place: Place) -> frozenset[str] | None:
    """The files of an export, each of which can be read."""
    if not (folder := place.with_name("export")).exists():
        return None
    for file in folder.glob("*.parquet"):
        pyarrow.parquet.read_table(file)
    return frozenset(file.name for file in folder.iterdir())


def exporting(place: Place, _: Acknowledge) -> None:
    """All rows and names into a folder beside the graph."""
    opened(place).export(place.with_name("export"))


@cache
def commands() -> Any:
    """Made once: the runner of typer makes all commands anew for each call."""
    return get_command(app)


def exit_code(*words: object) -> int:
    """That of a command; an error that it has told is raised."""
    told, code = io.StringIO(), 0
    try:
        with redirect_stdout(told), redirect_stderr(told):
            commands().main(list(map(str, words)), prog_name="lkge", terminal_width=9999)
    except SystemExit as end:
        code = int(end.code or 0)
    if code == REFUSED:
        raise LkgeError(told.getvalue())
    return code


def called(*words: object) -> None:
    """A command, which must end well, or with an error that it has told."""
    assert exit_code(*words) == 0


def old(place: Place) -> None:
    """A graph that an older release made."""
    shutil.copytree(GOLDEN / "store-2", place)


def migrate(place: Place) -> None:
    """Bring it to the format of now."""
    called("migrate", place)


def back_up(place: Place) -> None:
    """A copy beside it."""
    called("backup", place, place.with_name("copy"))


def backed_up(place: Place) -> None:
    """A graph that has changed since it was copied."""
    grown(place)
    back_up(place)
    opened(place).add(NEWS, consolidate=False)


def copied(place: Place) -> Answers | None:
    """What the copy says, if it is whole and new."""
    try:
        copy, graph = lkge.open(place.with_name("copy")), lkge.open(place)
    except LkgeError:
        return None
    return Answers.of(copy) if copy.version == graph.version and not copy.check() else None


OPERATIONS = [
    Operation("init", lambda place, _: lkge.init(place, **TINY), nothing),
    Operation("add", adding, grown),
    Operation("add and retract", retracting, grown),
    Operation("learn waiting", lambda place, _: opened(place).learn_waiting(), waiting),
    Operation("remove", lambda place, _: opened(place).edit(remove="e3"), grown),
    Operation("rename", lambda place, _: opened(place).edit(rename=("e3", "other")), grown),
    Operation("merge", lambda place, _: opened(place).edit(merge=("older", "e3")), grown),
    Operation("rollback", lambda place, _: opened(place).rollback(1), grown),
    Operation("tag", lambda place, _: opened(place).tag("second", 2), grown),
    Operation("delete tag", lambda place, _: opened(place).delete_tag("first"), grown),
    Operation("keep", lambda place, _: opened(place).keep(2), grown),
    Operation("accept", lambda place, _: accept(opened(place).store, NEWS), grown),
    Operation("relearn", lambda place, _: opened(place).relearn(), grown),
    Operation("consolidate", lambda place, _: opened(place).consolidate(), due),
    Operation("compact", lambda place, _: opened(place).compact(), with_deltas),
    Operation("add to deltas", adding, with_deltas),
    Operation("migrate", lambda place, _: migrate(place), old, again=migrate),
    Operation("backup", lambda place, _: back_up(place), grown, copied, back_up),
    Operation("backup again", lambda place, _: back_up(place), backed_up, copied, back_up),
    Operation("export", exporting, grown, exported),
]


class Answers(NamedTuple):
    """What a version of a graph says: entities, known facts, answers with their scores, and the
    log."""

    entities: tuple[str, ...]
    facts: frozenset[Triple]
    answers: tuple[Any, ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, graph: LivingGraph) -> Answers:
        """Those of the open version."""
        kinds = tuple(record.kind for record in graph.log())
        entities, relations = tuple(graph.entities("", 99)), graph.reader.relations()
        if not entities:
            return cls((), frozenset(), (), kinds)
        first, last = relations[0], relations[-1]
        answers = [graph.predict(subject=name, relation=first, k=99) for name in entities[:2]]
        answers.append(graph.predict(relation=last, object=entities[-1], k=99))
        flat = tuple(tuple(answer) for each in answers for answer in each)
        return cls(entities, known_facts(graph), flat, kinds)


def known_facts(graph: LivingGraph) -> frozenset[Triple]:
    """All facts that a graph knows."""
    return frozenset(
        (name, fact.relation, fact.entity)
        for name in graph.entities("", 99)
        for fact in graph.neighbourhood(name, 999)
        if fact.relation in RELATIONS
    )


class State(NamedTuple):
    """What a graph says now, its tags, and how many versions stay. Which others are still there is
    not a part of it: the last one that was verified may stay longer."""

    version: int
    now: Answers
    tags: tuple[tuple[str, int], ...]
    keep: int

    @classmethod
    def of(cls, graph: LivingGraph) -> State:
        """That of a graph that nothing is wrong with."""
        assert graph.check() == []
        keep, there = graph.store.options.keep, graph.store.versions()
        assert there[-1] == graph.version
        assert len(there) >= min(keep, graph.version + 1)
        return cls(graph.version, Answers.of(graph), tuple(graph.tags.items()), keep)


def repaired(place: Place) -> bool:
    """Whether a damaged graph could be repaired, as the command line does."""
    try:
        exit_code("verify", place, "--repair")
    except LkgeError:
        return False
    return True


def go_on(place: Place) -> State:
    """Add facts to the graph, made first if there is none; its state."""
    if not place.exists():
        lkge.init(place, **TINY)
    graph = opened(place)
    graph.add(NEXT, consolidate=False)
    return State.of(graph)


class Beginning(NamedTuple):
    """What an operation starts with: the disk, and the answers of each version."""

    tree: Tree
    versions: dict[int, Answers]


@cache
def beginning(begin: Callable[[Place], object]) -> Beginning:
    """Made once for all operations."""
    with tempfile.TemporaryDirectory() as folder:
        place = place_in(Path(folder))
        begin(place)
        return Beginning(tree_of(Path(folder)), versions_of(place))


def versions_of(place: Place) -> dict[int, Answers]:
    """The answers of each version that is on the disk."""
    kept = lkge.open(place).store.versions() if place.exists() else ()
    return {version: Answers.of(lkge.open(place, version)) for version in kept}


@dataclass
class Expected:
    """What an operation leads to if nothing fails: the answers of each version before and after
    it; and what it ends with, the next add included, if it was not done and if it was."""

    versions: dict[int, Answers]
    without: tuple[object, ...]
    done: tuple[object, ...]

    @classmethod
    def of(cls, operation: Operation, root: Path) -> Expected:
        """By doing it."""
        start = beginning(operation.begin)
        without = ended(operation, place_in(write_tree(start.tree, root)))
        place = place_in(write_tree(start.tree, root))
        operation.run(place, lambda: None)
        after = versions_of(place)
        assert all(
            after[version] == start.versions[version] for version in after.keys() & start.versions
        )
        return cls(start.versions | after, without, ended(operation, place))


def ended(operation: Operation, place: Place) -> tuple[object, ...]:
    """What an operation, done or not, leads to: its result, whether there is a graph, the state
    after the next add, and the result if it is called again."""
    result, exists = operation.result(place), place.exists()
    operation.again(place)
    return result, exists, go_on(place), operation.result(place)
