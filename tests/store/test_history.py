"""Random sequences of add, retract, edit, tag and rollback, beside plain Python sets."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.store.test_editing import known

from lkge.data.formats import Triple
from lkge.living import init, open
from lkge.store.records import VersionRecord

ENTITIES = [f"e{number}" for number in range(6)]
RELATIONS = ["r", "s"]
FACTS = st.tuples(st.sampled_from(ENTITIES), st.sampled_from(RELATIONS), st.sampled_from(ENTITIES))
KEEP = 2


class Plain(NamedTuple):
    """What a graph says, as plain sets."""

    facts: frozenset[Triple]
    entities: frozenset[str]
    relations: frozenset[str]


class History(RuleBasedStateMachine):
    """The graph in `folder` and its model: the content of each version, the tags, and which
    versions are on the disk."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        small = {"dim": 4, "max_epochs": 1, "batch_size": 8, "backend": "torch"}
        place = Path(self.folder.name) / "KG"
        self.graph = init(place, keep=KEEP, replay_queries=4, **small)
        nothing: frozenset[str] = frozenset()
        self.contents = [Plain(frozenset(), nothing, nothing)]
        self.tags: dict[str, int] = {}
        self.on_disk = {0}

    @property
    def now(self) -> Plain:
        return self.contents[-1]

    @rule(facts=st.lists(FACTS, min_size=1, max_size=4))
    def add(self, facts: list[Triple]) -> None:
        record = self.graph.add(facts, valid=0.3)
        self.check_record(record, bool(set(facts) - self.now.facts))
        names = {name for s, _, o in facts for name in (s, o)}
        if record.is_version:
            self.publish(
                Plain(
                    self.now.facts | set(facts),
                    self.now.entities | names,
                    self.now.relations | {relation for _, relation, _ in facts},
                )
            )

    @precondition(lambda self: self.now.facts)
    @rule(data=st.data(), others=st.lists(FACTS, max_size=2))
    def retract(self, data: st.DataObject, others: list[Triple]) -> None:
        some = st.lists(st.sampled_from(sorted(self.now.facts)), max_size=3)
        gone = [*data.draw(some), *others]
        if gone:
            record = self.graph.add([], retract=gone)
            self.check_record(record, bool(set(gone) & self.now.facts))
            if record.is_version:
                self.publish(self.now._replace(facts=self.now.facts - set(gone)))

    @precondition(lambda self: self.now.entities)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.now.entities)))
        self.graph.edit(remove=name)
        facts = frozenset((s, r, o) for s, r, o in self.now.facts if name not in (s, o))
        self.publish(self.now._replace(facts=facts, entities=self.now.entities - {name}))

    @precondition(lambda self: self.now.entities)
    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(sorted(self.now.entities)))
        free = sorted({*ENTITIES, "a new name", "ä", "Z"} - self.now.entities)
        new = data.draw(st.sampled_from(free))
        self.graph.edit(rename=(old, new))
        self.publish(self.exchanged(old, new))

    @precondition(lambda self: len(self.now.entities) > 1)
    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        pairs = st.permutations(sorted(self.now.entities))
        old, into, *_ = data.draw(pairs)
        self.graph.edit(merge=(old, into))
        self.publish(self.exchanged(old, into))

    @rule(name=st.sampled_from(["one", "two"]), data=st.data())
    def tag(self, name: str, data: st.DataObject) -> None:
        if name in self.tags:
            assert self.graph.delete_tag(name) == self.tags.pop(name)
        version = data.draw(st.sampled_from(sorted(self.on_disk)))
        assert self.graph.tag(name, version) == version
        self.tags[name] = version

    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        self.prune()
        chosen = data.draw(st.sampled_from([*sorted(self.on_disk), *sorted(self.tags)]))
        self.graph.rollback(chosen)
        self.publish(self.contents[self.tags[chosen] if isinstance(chosen, str) else chosen])

    @invariant()
    def the_graph_says_what_the_sets_say(self) -> None:
        assert self.graph.version == len(self.contents) - 1
        self.compare(None, self.now)
        for name, version in self.tags.items():
            self.compare(name, self.contents[version])
        assert self.graph.tags == self.tags
        assert set(self.graph.store.versions()) == self.on_disk
        assert self.graph.check() == []

    def compare(self, version: str | None, expected: Plain) -> None:
        graph = open(self.graph.store.folder, version)
        assert known(graph) == expected.facts
        assert set(graph.entities("", 99)) == expected.entities
        assert graph.reader.record.known_facts == len(expected.facts)
        assert graph.reader.num_entities - len(graph.reader.removed) == len(expected.entities)
        for entity in sorted(expected.entities)[:1]:
            for relation in sorted(expected.relations):
                answers = graph.predict(subject=entity, relation=relation, k=99)
                assert {answer.entity for answer in answers} == expected.entities
                true = {o for s, r, o in expected.facts if (s, r) == (entity, relation)}
                assert {answer.entity for answer in answers if answer.known} == true

    def exchanged(self, old: str, new: str) -> Plain:
        """The content with another name for an entity, or with two made one."""
        swap = {old: new}
        facts = frozenset((swap.get(s, s), r, swap.get(o, o)) for s, r, o in self.now.facts)
        return self.now._replace(facts=facts, entities=self.now.entities - {old} | {new})

    def check_record(self, record: VersionRecord, has_news: bool) -> None:
        assert record.is_version == has_news
        if not has_news:
            assert record.version == len(self.contents) - 1
            assert record.warnings[0].startswith("nothing new: ")
            self.prune()

    def publish(self, content: Plain) -> None:
        self.prune()
        self.on_disk.add(len(self.contents))
        self.contents.append(content)
        self.prune()

    def prune(self) -> None:
        newest = sorted(self.on_disk)[-KEEP:]
        self.on_disk = {v for v in self.on_disk if v in newest or v in self.tags.values()}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=6,
    stateful_step_count=12,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
