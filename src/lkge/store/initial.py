"""Version 0 of a living graph: empty, or the model of a finished run."""

from dataclasses import dataclass
from typing import Self

import torch

from lkge import provenance
from lkge.config import RunConfig
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames
from lkge.data.snapshots import Facts, no_facts
from lkge.methods import method_named
from lkge.models.model import Model
from lkge.models.parameters import host
from lkge.store.arrays import Arrays
from lkge.store.calibration import UNKNOWN
from lkge.store.holdout import HoldOut
from lkge.store.reader import inference_tables
from lkge.store.records import INIT, Manifest, VersionRecord, now
from lkge.store.versions import ENTITY, HOLD_OUT_FILE, INFERENCE, KNOWN, MODEL, NAMES, RELATION
from lkge.training.trainer import learned_tensors, restored


@dataclass(frozen=True)
class InitialVersion:
    """Settings, learned tensors, names and known facts (k, 3). `updates` is the number of snapshots
    that were learned."""

    config: RunConfig
    tensors: dict[str, torch.Tensor]
    names: MappedNames
    facts: Facts
    updates: int
    source: str

    @classmethod
    def empty(cls, config: RunConfig) -> Self:
        """No entity, no fact."""
        tensors = learned_tensors(Model(config), method_named(config.method.name)(config))
        return cls(config, tensors, MappedNames.of(), no_facts(), 0, "")

    def files(self) -> dict[str, Arrays]:
        """The arrays of version 0 by file."""
        files: dict[str, Arrays] = {
            MODEL: _numpy(self.tensors),
            NAMES: self.names.arrays(),
            KNOWN: KnownFacts.build([self.facts]).arrays(),
            HOLD_OUT_FILE: HoldOut().arrays(),
        }
        nothing = torch.empty((0, self.config.model.dim))
        inference: dict[str, torch.Tensor] | None = {ENTITY: nothing, RELATION: nothing}
        if self.names.num_entities:
            model, method = restored(self.config, self.tensors)
            inference = inference_tables(method.predictor(model))
        return files if inference is None else files | {INFERENCE: _numpy(inference)}

    def manifest(self) -> Manifest:
        """The manifest of version 0, without checksums."""
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
            provenance=provenance.provenance(),
            calibration=UNKNOWN,
            record=record,
            updates=self.updates,
        )


def _numpy(tensors: dict[str, torch.Tensor]) -> Arrays:
    return {name: host(tensor) for name, tensor in tensors.items()}
