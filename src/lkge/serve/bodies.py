"""What the service answers, as typed and documented JSON."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lkge.data.vocabulary import INVERSE


def _finite(value: Any) -> Any:
    """JSON has no nan: what could not be measured is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Figure = Annotated[float | None, BeforeValidator(_finite)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Versioned(BaseModel):
    """An answer, and the version that gave it."""

    version: Count = Field(description="The version that answered.")


class Prediction(BaseModel):
    """An entity that may complete a fact."""

    entity: str
    score: float = Field(description="The higher the better; comparable within one question.")
    plausibility: Share = Field(description="The score, calibrated to 0 … 1.")
    known: bool = Field(description="Whether the completed fact is known already.")


class Predictions(Versioned):
    """Answers to one question, best first."""

    answers: list[Prediction]


class BatchPredictions(Versioned):
    """Answers to several questions, in their order."""

    results: list[list[Prediction]]


class SimilarEntity(BaseModel):
    """An entity near the one asked about."""

    entity: str
    similarity: float


class SimilarEntities(Versioned):
    """Entities, nearest first."""

    entities: list[SimilarEntity]


class ScoredFact(BaseModel):
    """A fact and how plausible it is."""

    subject: str
    relation: str
    object: str
    score: float
    plausibility: Share
    known: bool


class ScoredFacts(Versioned):
    """The facts in the order they were given."""

    facts: list[ScoredFact]


class Names(Versioned):
    """Names in dictionary order."""

    names: list[str]


class Neighbour(BaseModel):
    """A known fact of an entity."""

    relation: str = Field(description=f"`{INVERSE}` behind it: the entity is the object.")
    entity: str
    since: Count = Field(description="The version that brought the fact.")


class Neighbourhood(Versioned):
    """What is known of an entity."""

    entity: str
    degree: Count = Field(description="How many facts it has in all.")
    since: Count = Field(description="The version that brought the entity.")
    neighbours: list[Neighbour]


class Map(Versioned):
    """Entities in the plane, as parallel columns."""

    entities: list[str]
    x: list[float]
    y: list[float]
    degree: list[int]
    since: list[int]


class VersionEntry(BaseModel):
    """One version of the graph."""

    model_config = ConfigDict(from_attributes=True)
    version: Count
    kind: str = Field(description="init, add or rollback.")
    created: str = Field(description="ISO 8601, UTC.")
    facts: Count
    retracted: Count
    new_entities: int = Field(description="Fewer than none after a rollback.")
    new_relations: int
    entities: Count
    relations: Count
    known_facts: Count
    mrr_new: Figure = Field(description="MRR on held-out facts of this version.")
    mrr_old_before: Figure = Field(description="MRR on older held-out facts, before.")
    mrr_old: Figure = Field(description="MRR on older held-out facts, after.")
    row: dict[str, Figure] = Field(
        description="MRR after this version on the held-out facts of each version up to it."
    )
    candidates: Count = Field(description="Among how many entities the ranks were taken.")
    drift: Figure = Field(description="Mean 1 - cosine of old rows that moved.")
    touched: Count
    epochs: Count
    seconds: float
    warnings: list[str]
    source: str
    batch: Count


class Versions(BaseModel):
    """The history, oldest first."""

    current: Count
    versions: list[VersionEntry]


class Progress(BaseModel):
    """How far the learning of a batch is."""

    model_config = ConfigDict(frozen=True)
    stage: Literal["starting", "compiling", "learning", "measuring"] = "starting"
    epoch: Count = 0
    max_epochs: Count = 0
    loss: Figure = None
    valid_mrr: Figure = None
    best_mrr: Figure = None
    seconds: float = 0.0


class Job(BaseModel):
    """A batch of facts on its way into a version."""

    model_config = ConfigDict(frozen=True)
    id: int = Field(ge=1, description="The number of the batch.")
    status: Literal["waiting", "learning", "done", "failed"]
    accepted: str = Field(description="Since when the facts are safe on the disk; ISO 8601, UTC.")
    facts: Count
    retracted: Count
    progress: Progress | None = Field(default=None, description="While it is learned.")
    version: int | None = Field(default=None, description="The version that it became.")
    detail: str | None = Field(default=None, description="Why it failed; it is tried again.")


class JobList(BaseModel):
    """Batches that are not learned yet, and the last that were."""

    jobs: list[Job]


class Health(Versioned):
    """Whether the service answers and learns."""

    status: Literal["ok", "degraded"] = Field(description="degraded: learning fails.")
    graph: str = Field(description="The name of its folder.")
    method: str
    dim: Count
    entities: Count
    relations: Count
    facts: Count
    waiting: Count = Field(description="Batches that are not learned yet.")
    jobs: list[Job] = Field(description="Those batches.")
