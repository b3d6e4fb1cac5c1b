"""What a living graph begins with: nothing, or what a run has learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames
from lkge.data.snapshots import Facts, no_facts
from lkge.learning.loop import learned_tensors, restored
from lkge.methods import method_named
from lkge.models.model import Model
from lkge.store.arrays import Arrays
from lkge.store.calibration import UNKNOWN
from lkge.store.exam import Exam
from lkge.store.learner import ENTITY, RELATION, answering_tables
from lkge.store.records import INIT, Manifest, VersionRecord, now
from lkge.store.versions import ANSWERING, EXAM, KNOWN, MODEL, NAMES


@dataclass(frozen=True)
class Beginning:
    """What was learned, of what, and which facts of it are known."""

    config: RunConfig
    tensors: dict[str, Tensor]
    names: MappedNames
    facts: Facts
    lessons: int
    source: str

    @classmethod
    def empty(cls, config: RunConfig) -> Beginning:
        """No entity, no fact."""
        tensors = learned_tensors(Model(config), method_named(config.method.name)(config))
        return cls(config, tensors, MappedNames.of(), no_facts(), 0, "")

    def files(self) -> dict[str, Arrays]:
        """The arrays of version 0, file by file."""
        answers, exam = KnownFacts.build([self.facts]), Exam()
        files: dict[str, Arrays] = {
            MODEL: {name: tensor.numpy() for name, tensor in self.tensors.items()},
            NAMES: self.names.arrays(),
            KNOWN: answers.arrays(),
            EXAM: exam.arrays(),
        }
        answering = self._answering()
        return files if answering is None else files | {ANSWERING: answering}

    def manifest(self) -> Manifest:
        """What version 0 says of itself."""
        record = VersionRecord(
            version=0,
            kind=INIT,
            created=now(),
            facts=len(self.facts),
            new_entities=self.names.num_entities,
            new_relations=self.names.num_relations,
            entities=self.names.num_entities,
            relations=self.names.num_relations,
            known_facts=len(self.facts),
            source=self.source,
        )
        return Manifest(
            version=0,
            last_batch=0,
            config=self.config.to_dict(),
            calibration=UNKNOWN,
            log=(record,),
            lessons=self.lessons,
        )

    def _answering(self) -> Arrays | None:
        """The tables that answer; empty ones before there is anything to ask about."""
        if not self.names.num_entities:
            nothing = np.empty((0, self.config.model.dim), dtype=np.float32)
            return {ENTITY: nothing, RELATION: nothing}
        model, method = restored(self.config, self.tensors)
        return answering_tables(method.predictor(model))
