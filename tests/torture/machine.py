"""Random histories of a living graph beside a model of plain Python sets.

python -m tests.torture machine
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.torture.faults import Dead, PowerCut
from tests.torture.filesystem import watched
from tests.torture.operations import (
    GOLDEN,
    NEVER_COMPACTED,
    OFTEN,
    TINY,
    Answers,
    at_start,
    known_facts,
    migrate,
    opened,
    repaired,
)

import lkge
from lkge.data.formats import Triple
from lkge.errors import LkgeError
from lkge.store.backup import backup
from lkge.store.graph import LivingGraph
from lkge.store.inbox import accept
from lkge.store.records import StoreConfig
from lkge.training.events import Event

ENTITIES = [f"e{number}" for number in range(6)]
NEW_NAMES = ["a new name", "ä", "Z"]
RELATIONS = ["r", "s"]
FACTS = st.tuples(st.sampled_from(ENTITIES), st.sampled_from(RELATIONS), st.sampled_from(ENTITIES))
KILLS = st.none() | st.integers(0, 400)
"""Before which call to the file system the process dies; None: it does not."""
CHANGING = ("add", "edit", "rollback")
"""Kinds of versions whose content differs from that of the version before."""
MAX_ENTITIES = 99
READERS = 2

Work = Callable[[LivingGraph, Callable[[Event], None]], object]


class Plain(NamedTuple):
    """What a graph says, as plain sets."""

    facts: frozenset[Triple] = frozenset()
    entities: frozenset[str] = frozenset()
    relations: frozenset[str] = frozenset()

    def with_facts(self, facts: list[Triple]) -> Plain:
        """More facts, and their names."""
        return Plain(
            self.facts | set(facts),
            self.entities | {name for s, _, o in facts for name in (s, o)},
            self.relations | {relation for _, relation, _ in facts},
        )

    def without(self, name: str) -> Plain:
        """No entity of this name, and no fact of it."""
        facts = frozenset(fact for fact in self.facts if name not in (fact[0], fact[2]))
        return self._replace(facts=facts, entities=self.entities - {name})

    def exchanged(self, old: str, new: str) -> Plain:
        """Another name for an entity, or two made one."""
        swap = {old: new}
        facts = frozenset((swap.get(s, s), r, swap.get(o, o)) for s, r, o in self.facts)
        return self._replace(facts=facts, entities=self.entities - {old} | {new})


class History(RuleBasedStateMachine):
    """A graph and its model: the content of each version, the tags, how many versions are kept,
    which are on the disk; and readers with the answers that they gave first."""

    @initialize()
    def begin(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name) / "KG"
        self.graph = lkge.init(self.folder, store_config=NEVER_COMPACTED, **TINY)
        self.contents = [Plain()]
        self.tags: dict[str, int] = {}
        self.keep = TINY["keep"]
        self.on_disk = {0}
        self.aside: dict[int, list[Triple]] = {}
        self.readers: list[tuple[LivingGraph, Answers]] = []

    @property
    def now(self) -> Plain:
        return self.contents[-1]

    # What changes the content

    @rule(facts=st.lists(FACTS, min_size=1, max_size=4), kill=KILLS)
    def add(self, facts: list[Triple], kill: int | None) -> None:
        new = self.after(facts)
        self.do(lambda graph, tell: graph.add(facts, valid=0.3, listener=tell), new, kill)

    @precondition(lambda self: self.now.facts)
    @rule(data=st.data(), others=st.lists(FACTS, max_size=2), kill=KILLS)
    def retract(self, data: st.DataObject, others: list[Triple], kill: int | None) -> None:
        some = st.lists(st.sampled_from(sorted(self.now.facts)), max_size=3)
        gone = [*data.draw(some), *others]
        if gone:
            new = self.now._replace(facts=self.now.facts - set(gone))
            new = new if new != self.now else None
            self.do(lambda graph, tell: graph.add([], retract=gone, listener=tell), new, kill)

    @precondition(lambda self: self.now.entities)
    @rule(data=st.data(), kill=KILLS)
    def remove(self, data: st.DataObject, kill: int | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.now.entities)))
        self.do(lambda graph, _: graph.edit(remove=name), self.now.without(name), kill)

    @precondition(lambda self: self.now.entities)
    @rule(data=st.data(), kill=KILLS)
    def rename(self, data: st.DataObject, kill: int | None) -> None:
        old = data.draw(st.sampled_from(sorted(self.now.entities)))
        new = data.draw(st.sampled_from(sorted({*ENTITIES, *NEW_NAMES} - self.now.entities)))
        self.do(lambda graph, _: graph.edit(rename=(old, new)), self.now.exchanged(old, new), kill)

    @precondition(lambda self: len(self.now.entities) > 1)
    @rule(data=st.data(), kill=KILLS)
    def merge(self, data: st.DataObject, kill: int | None) -> None:
        old, into, *_ = data.draw(st.permutations(sorted(self.now.entities)))
        content = self.now.exchanged(old, into)
        self.do(lambda graph, _: graph.edit(merge=(old, into)), content, kill)

    @rule(data=st.data(), kill=KILLS)
    def rollback(self, data: st.DataObject, kill: int | None) -> None:
        self.prune()
        chosen = data.draw(st.sampled_from([*sorted(self.on_disk), *sorted(self.tags)]))
        content = self.contents[self.tags[chosen] if isinstance(chosen, str) else chosen]
        self.do(lambda graph, _: graph.rollback(chosen), content, kill)

    @rule(facts=st.lists(FACTS, min_size=1, max_size=2), kill=KILLS)
    def accept_and_learn(self, facts: list[Triple], kill: int | None) -> None:
        """As the service does; the learner may be killed, the facts are accepted."""
        accept(self.graph.store, facts)
        self.do(lambda graph, _: graph.learn_waiting(), self.after(facts), kill, accepted=True)

    @rule(facts=st.lists(FACTS, min_size=1, max_size=2), kill=KILLS)
    def set_aside(self, facts: list[Triple], kill: int | None) -> None:
        """A batch is kept and does not wait; if that is killed, it may be learned instead."""
        number = accept(self.graph.store, facts).number
        new = self.after(facts)
        work = lambda graph, _: graph.set_aside(number)  # noqa: E731
        happened = self.do(work, new, kill, needed=False)
        is_aside = number in self.numbers_aside()
        assert is_aside != happened or (new is None and kill is not None)
        if is_aside:
            self.aside[number] = facts

    @precondition(lambda self: self.aside)
    @rule(data=st.data(), kill=KILLS)
    def restore(self, data: st.DataObject, kill: int | None) -> None:
        """A batch waits again, and is learned."""
        number = data.draw(st.sampled_from(sorted(self.aside)))
        new = self.after(self.aside[number])
        work = lambda graph, _: (graph.restore(number), graph.learn_waiting())  # noqa: E731
        happened = self.do(work, new, kill)
        is_aside = number in self.numbers_aside()
        assert is_aside or happened or new is None, "what was set aside is lost"
        assert not is_aside or kill is not None
        if not is_aside:
            del self.aside[number]

    # What does not

    @rule(kill=KILLS)
    def consolidate(self, kill: int | None) -> None:
        self.do(lambda graph, _: graph.consolidate(), None, kill)

    @rule(kill=KILLS)
    def compact(self, kill: int | None) -> None:
        """By another process: the open graph does not know of it."""
        self.do(lambda _, __: opened(self.folder).compact(), None, kill)

    @rule(config=st.sampled_from([OFTEN, NEVER_COMPACTED]))
    def open_again(self, config: StoreConfig) -> None:
        self.graph = lkge.open(self.folder, store_config=config)

    @rule(kill=KILLS)
    def back_up(self, kill: int | None) -> None:
        """Killed, the copy is the one before or none; then it is made whole."""
        copy = Path(self.scratch.name) / "copy"
        with suppress(PowerCut), watched(copy, Dead(400_000 if kill is None else kill)):
            backup(self.graph.store, copy)
        if (copy / "log.jsonl").exists():
            assert lkge.open(copy).check() == []
        backup(self.graph.store, copy)
        assert lkge.open(copy).check() == []
        assert content_of(lkge.open(copy)) == self.now

    @rule(kill=KILLS)
    def migrate(self, kill: int | None) -> None:
        """An old graph beside this one; killed, it is migrated again."""
        old = shutil.copytree(GOLDEN / "store-2", Path(self.scratch.name) / "old")
        before = content_of(lkge.open(old))
        with suppress(PowerCut), watched(old, Dead(400_000 if kill is None else kill)):
            migrate(old)
        assert content_of(lkge.open(old)) == before
        migrate(old)
        assert lkge.open(old).check() == []
        assert content_of(lkge.open(old)) == before
        shutil.rmtree(old)

    @precondition(lambda self: self.now.facts)
    @rule(kill=KILLS)
    def relearn(self, kill: int | None) -> None:
        self.do(lambda graph, _: graph.relearn(), None, kill)

    @rule(name=st.sampled_from(["one", "two"]), data=st.data(), kill=KILLS)
    def tag(self, name: str, data: st.DataObject, kill: int | None) -> None:
        version = data.draw(st.sampled_from(sorted(self.on_disk)))
        if name in self.tags:
            others = {other: number for other, number in self.tags.items() if other != name}
            self.do(lambda graph, _: graph.delete_tag(name), None, kill, tags=others)
        else:
            tags = {**self.tags, name: version}
            self.do(lambda graph, _: graph.tag(name, version), None, kill, tags=tags)

    @rule(number=st.integers(2, 4), kill=KILLS)
    def keep_versions(self, number: int, kill: int | None) -> None:
        self.do(lambda graph, _: graph.keep(number), None, kill, keep=number)

    @precondition(lambda self: self.now.facts)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """A reader opens a version and keeps it."""
        reader = lkge.open(self.folder, data.draw(st.sampled_from(sorted(self.on_disk))))
        self.readers = [*self.readers, (reader, Answers.of(reader))][-READERS:]

    @rule(data=st.data(), place=st.floats(0, 1, exclude_max=True), cut=st.booleans())
    def damage(self, data: st.DataObject, place: float, cut: bool) -> None:
        """A file of the store is damaged: it is found, no answer is wrong, and what was repaired
        learns again all that it lost. Then the folder is put back."""
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        file = data.draw(st.sampled_from([path for path in files if path.stat().st_size]))
        damaged = Path(self.scratch.name) / "damaged"
        shutil.copytree(self.folder, damaged)
        content = bytearray(file.read_bytes())
        spot = int(place * len(content))
        content[spot] ^= 0x55
        content = content[:spot] if cut else content
        (damaged / file.relative_to(self.folder)).write_bytes(content)
        try:
            self.require_found(damaged)
            if repaired(damaged):
                self.require_repaired(damaged)
        finally:
            shutil.rmtree(damaged)

    def require_found(self, damaged: Path) -> None:
        """The graph says what some version says, or check finds the damage, or nothing opens."""
        try:
            graph = lkge.open(damaged)
        except LkgeError:
            return
        if graph.check():
            return
        assert graph.version == self.version
        assert content_of(graph) == self.now

    def require_repaired(self, damaged: Path) -> None:
        """Nothing is damaged any more, and what can be learned again is."""
        graph = opened(damaged)
        assert graph.check() == []
        before = graph.version
        assert content_of(graph) == self.contents[before]
        graph.learn_waiting()
        if "rollback" not in {record.kind for record in self.graph.log()[before + 1 :]}:
            assert content_of(graph) == self.now

    # The comparison

    @property
    def version(self) -> int:
        return len(self.contents) - 1

    def do(
        self,
        work: Work,
        content: Plain | None,
        kill: int | None,
        *,
        tags: dict[str, int] | None = None,
        keep: int | None = None,
        accepted: bool = False,
        needed: bool = True,
    ) -> bool:
        """Do something that leads to a version of this content, if any, to these tags, and to so
        many versions that are kept. If it is killed, what is left is learned; then it has happened
        or not, as a whole. Whether the version has come; `needed`: whether it must unless it was
        killed."""
        acknowledged = [True] if accepted else []
        tell = at_start(lambda: acknowledged.append(True))
        tags = self.tags if tags is None else tags
        killed = False
        try:
            with watched(self.folder, Dead(400_000 if kill is None else kill)):
                work(self.graph, tell)
        except PowerCut:
            killed = True
            self.graph = opened(self.folder)
            self.graph.learn_waiting()
        happened = self.take_versions(content)
        if content is not None and needed and (acknowledged or not killed):
            assert happened, "what was acknowledged is lost"
        before, self.tags = self.tags, self.graph.tags
        assert self.tags == tags or (killed and self.tags == before)
        kept, self.keep = self.keep, self.graph.store.options.keep
        assert self.keep == (keep or kept) or (killed and self.keep == kept)
        self.prune()
        if tags is before:
            more = set(self.graph.store.versions()) - self.on_disk
            assert len(more) <= 1, "only the last verified version may stay beside these"
        return happened

    def after(self, facts: list[Triple]) -> Plain | None:
        """What these facts lead to; None if all are known."""
        return self.now.with_facts(facts) if set(facts) - self.now.facts else None

    def numbers_aside(self) -> set[int]:
        return {batch.number for batch in self.graph.queue() if not batch.waits}

    def take_versions(self, content: Plain | None) -> bool:
        """Take the new versions of the log into the model; whether the content has come."""
        happened = False
        for record in self.graph.log()[len(self.contents) :]:
            changes = record.kind in CHANGING
            assert not changes or (content is not None and not happened)
            happened |= changes
            self.contents.append(content if changes and content is not None else self.now)
            self.on_disk.add(record.version)
        return happened

    def prune(self) -> None:
        newest = sorted(self.on_disk)[-self.keep :]
        self.on_disk = {v for v in self.on_disk if v in newest or v in self.tags.values()}

    @invariant()
    def the_graph_says_what_the_sets_say(self) -> None:
        graph = lkge.open(self.folder)
        assert graph.version == self.version
        assert graph.tags == self.tags
        assert graph.check() == []
        self.compare(graph, self.now)
        for name, version in self.tags.items():
            self.compare(lkge.open(self.folder, name), self.contents[version])
        assert self.on_disk <= set(graph.store.versions())

    def compare(self, graph: LivingGraph, expected: Plain) -> None:
        assert content_of(graph) == expected
        for entity in sorted(expected.entities)[:1]:
            for relation in sorted(expected.relations):
                answers = graph.predict(subject=entity, relation=relation, k=MAX_ENTITIES)
                true = {o for s, r, o in expected.facts if (s, r) == (entity, relation)}
                others = expected.entities - {entity} | true
                assert {answer.entity for answer in answers} == others
                assert {answer.entity for answer in answers if answer.known} == true

    @invariant()
    def readers_keep_their_answers(self) -> None:
        for reader, answers in self.readers:
            assert Answers.of(reader) == answers

    def teardown(self) -> None:
        if hasattr(self, "scratch"):
            self.scratch.cleanup()


def content_of(graph: LivingGraph) -> Plain:
    """What a graph says. A relation stays when its facts go."""
    entities = frozenset(graph.entities("", MAX_ENTITIES))
    relations = frozenset(graph.reader.relations())
    return Plain(known_facts(graph), entities, relations)
