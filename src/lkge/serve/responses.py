"""The responses of the HTTP API as JSON."""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lkge.data.vocabulary import INVERSE


def _finite(value: Any) -> Any:
    """JSON has no nan: an unknown value is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Measurement = Annotated[float | None, BeforeValidator(_finite)]
Count = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, le=1)]


class Versioned(BaseModel):
    """Base of the responses of one version."""

    version: Count = Field(description="The version that this response comes from.")


class Labelled(Versioned):
    """Base of the responses with names."""

    labels: dict[str, str] = Field(
        default_factory=dict, description="The labels of names in this response."
    )


class Calibrated(Labelled):
    """Base of the responses with plausibilities."""

    calibrated: bool = Field(
        description="Whether plausibility is calibrated on held-out facts; else a prior by rank."
    )


class Prediction(BaseModel):
    """An entity that may complete a fact."""

    entity: str
    score: float = Field(description="Higher is better; comparable within one query.")
    plausibility: Probability = Field(
        description="The probability that an answer at this place in the list is true."
    )
    known: bool = Field(description="Whether the completed fact is a known fact.")
    in_range: bool = Field(
        description="Whether a known fact of the relation has the entity in the same place."
    )


class RelationPrediction(BaseModel):
    """A relation that may complete a fact."""

    relation: str
    score: float
    plausibility: Probability = Field(
        description="That of the object at its place in the list of subject and relation."
    )
    known: bool
    in_range: bool = Field(
        description="Whether a known fact of the relation has the object in the same place."
    )


class RelationPredictions(Calibrated):
    """Relations by score, the highest first."""

    answers: list[RelationPrediction]


class Suggestion(BaseModel):
    """A fact that is not known."""

    subject: str
    relation: str
    object: str
    score: float
    plausibility: Probability


class Suggestions(Calibrated):
    """Facts that are not known, most plausible first."""

    facts: list[Suggestion]
    scored: Count = Field(description="How many queries were scored.")
    queries: Count = Field(description="How many queries there are.")
    complete: bool = Field(description="Whether no other query has a better fact.")


class Predictions(Calibrated):
    """Answers to one query, best first."""

    answers: list[Prediction]


class BatchPredictions(Calibrated):
    """Answers to several queries, in the order of the queries."""

    results: list[list[Prediction]]


class SimilarEntity(BaseModel):
    """An entity and its cosine similarity to the entity of the query."""

    entity: str
    similarity: float


class SimilarEntities(Labelled):
    """Entities, most similar first."""

    entities: list[SimilarEntity]


class ScoredFact(BaseModel):
    """A fact and its plausibility."""

    subject: str
    relation: str
    object: str
    score: float
    plausibility: Probability = Field(
        description="The probability that the object is true at its place among all objects."
    )
    known: bool
    in_range: bool = Field(
        description="Whether a known fact of the relation has the object in the same place."
    )


class ScoredFacts(Calibrated):
    """The facts in the order of the request."""

    facts: list[ScoredFact]


class Reason(BaseModel):
    """A known fact that speaks for another fact."""

    subject: str
    relation: str
    object: str
    weight: float = Field(
        description="How much the score of the other fact rises with each 1 of this one's."
    )
    text: str = Field(description="What the two facts share.")


class Explanation(Calibrated):
    """A fact and the known facts that speak most for it."""

    fact: ScoredFact
    reasons: list[Reason]
    compared: Count = Field(description="How many known facts were compared.")


class FoundName(BaseModel):
    """A name and its label, which may be empty."""

    name: str
    label: str


class FoundNames(Versioned):
    """Names, best first."""

    names: list[FoundName]


class LabelCount(BaseModel):
    """How many names have a label."""

    labels: Count


class Names(Versioned):
    """Names in alphabetical order."""

    names: list[str]


class Neighbour(BaseModel):
    """A known fact of an entity."""

    relation: str = Field(description=f"With `{INVERSE}` after it: the entity is the object.")
    entity: str
    since: Count = Field(description="The version that added the fact.")


class Neighbourhood(Labelled):
    """Known facts of an entity."""

    entity: str
    degree: Count = Field(description="The number of all known facts of the entity.")
    since: Count = Field(description="The version that added the entity.")
    neighbours: list[Neighbour]


class EntityMap(Labelled):
    """Entities in the plane, as parallel columns."""

    entities: list[str]
    x: list[float]
    y: list[float]
    degree: list[int]
    since: list[int]


class Comparison(BaseModel):
    """The same held-out or retracted facts before and now, ranked among the same entities."""

    model_config = ConfigDict(from_attributes=True)
    facts: Count
    mrr_before: Measurement
    mrr: Measurement
    hits10_before: Measurement
    hits10: Measurement
    error: Measurement = Field(description="Standard error of the mean difference of 1/rank.")


Verdict = Literal["good", "worse", "unknown"]


class VersionEntry(BaseModel):
    """One version of the graph."""

    model_config = ConfigDict(from_attributes=True)
    version: Count
    kind: str = Field(description="init, add, edit, consolidate, relearn or rollback.")
    created: str = Field(description="ISO 8601, UTC.")
    facts: Count
    retracted: Count
    new_entities: int = Field(description="May be negative after a rollback.")
    new_relations: int
    entities: Count
    relations: Count
    removed: Count = Field(description="How many of the entities were removed.")
    known_facts: Count
    mrr_new: Measurement = Field(description="MRR on held-out facts of this version.")
    mrr_old_before: Measurement = Field(description="MRR on older held-out facts, before.")
    mrr_old: Measurement = Field(description="MRR on older held-out facts, after.")
    candidates: Count = Field(description="Number of entities that are ranked.")
    drift: Measurement = Field(description="Mean of 1 - cosine over the old rows that changed.")
    touched: Count
    epochs: Count
    seconds: float
    warnings: list[str]
    source: str
    batch: Count
    tags: list[str] = Field(default_factory=list, description="Names that the version has.")
    since_baseline: Comparison = Field(description="Older held-out facts against their baseline.")
    by_age: dict[str, Comparison] = Field(description="The same by age in versions.")
    last_update: Comparison = Field(description="Older held-out facts against the last version.")
    touched_facts: Comparison = Field(description="Of these, facts of entities of the batch.")
    untouched_facts: Comparison
    residue: Comparison = Field(description="Retracted facts against when they were known.")
    verdict: Verdict
    causes: list[Literal["quality", "residue"]]


class Versions(BaseModel):
    """The history, oldest first."""

    current: Count
    versions: list[VersionEntry]


class Progress(BaseModel):
    """The progress of learning a batch."""

    model_config = ConfigDict(frozen=True)
    stage: Literal["starting", "compiling", "learning", "measuring"] = "starting"
    epoch: Count = 0
    max_epochs: Count = 0
    loss: Measurement = None
    valid_mrr: Measurement = None
    best_mrr: Measurement = None
    seconds: float = 0.0


class Job(BaseModel):
    """A batch of facts, or an edit, that is or becomes a version."""

    model_config = ConfigDict(frozen=True)
    id: int = Field(ge=1, description="The number of the batch.")
    status: Literal["waiting", "learning", "done", "failed"]
    accepted: str = Field(description="When the facts became durable on disk; ISO 8601, UTC.")
    facts: Count
    retracted: Count
    progress: Progress | None = Field(default=None, description="Present while it is learned.")
    edit: str | None = Field(default=None, description="The edit, if the batch is one.")
    version: int | None = Field(
        default=None, description="The version with these facts; none if nothing was new."
    )
    detail: str | None = Field(
        default=None,
        description="Why it failed or led to no version. Facts that failed are retried; an edit "
        "that cannot be applied is not.",
    )


class AcceptedFile(Job):
    """A batch that came as a file."""

    warnings: list[str] = Field(description="What of the file was left out.")


class ReadFile(BaseModel):
    """How a file is read."""

    model_config = ConfigDict(from_attributes=True)
    facts: Count
    header: list[str] = Field(description="The names of the columns; empty without a header.")
    columns: dict[str, str] | None = Field(
        description="The columns of subject, relation and object, by name or number; null for RDF."
    )
    warnings: list[str] = Field(description="What of the file was left out.")


class Doubt(BaseModel):
    """A new name, or a first fact, that may be a mistake."""

    model_config = ConfigDict(from_attributes=True)
    kind: Literal["entity", "relation", "fact"]
    name: str
    reason: str


class Preview(Versioned):
    """What a file would bring."""

    files: list[ReadFile]
    sample: list[tuple[str, str, str]] = Field(description="The first ten facts.")
    facts: Count
    new_facts: Count | None = Field(description="Null if the graph keeps no known facts.")
    new_entities: Count
    new_relations: Count
    doubts: list[Doubt] = Field(description="The first twenty.")
    num_doubts: Count


class JobList(BaseModel):
    """Batches that are not learned yet, and the last learned batches."""

    jobs: list[Job]


class RelearnJob(BaseModel):
    """Learning all known facts at once, as a new version."""

    model_config = ConfigDict(frozen=True)
    status: Literal["waiting", "learning", "done", "failed"]
    progress: Progress | None = Field(default=None, description="Present while it is learned.")
    version: int | None = Field(default=None, description="The version that it became.")
    detail: str | None = Field(default=None, description="Why it failed; it is not retried.")


class ReliabilityBin(BaseModel):
    """Answers of about the same plausibility."""

    model_config = ConfigDict(from_attributes=True)
    answers: Count
    plausibility: float = Field(description="Their mean plausibility.")
    true: float = Field(description="The share of them that is held out, and so true.")


class Reliability(BaseModel):
    """Plausibility of answers to held-out queries against the share of true ones, cross-fitted."""

    model_config = ConfigDict(from_attributes=True)
    queries: Count
    answers: Count
    error: float = Field(description="Expected calibration error.")
    error_above: float | None = Field(description="The same where plausibility is above 0.1.")
    bins: list[ReliabilityBin]


class Quality(BaseModel):
    """Whether the active version is as good as its baseline."""

    model_config = ConfigDict(from_attributes=True)
    verdict: Verdict
    causes: list[Literal["quality", "residue"]]
    summary: str = Field(description="The verdict in one sentence.")
    remedy: str = Field(description="What to do; empty unless worse.")
    since: int | None = Field(description="The version that was evaluated first.")
    since_baseline: Comparison = Field(description="Older held-out facts against their baseline.")
    by_age: dict[str, Comparison]
    last_update: Comparison
    touched_facts: Comparison
    untouched_facts: Comparison
    residue: Comparison
    drift: Measurement
    total_drift: Measurement
    reliability: Reliability | None = Field(
        description="Measured when plausibility was last calibrated; null if it was not."
    )


class Health(Versioned):
    """The state of the service."""

    status: Literal["ok", "degraded"] = Field(
        description="degraded: learning fails, or the store cannot be used."
    )
    detail: str | None = Field(default=None, description="Why the store cannot be used.")
    graph: str = Field(description="The name of the folder of the graph.")
    method: str
    dim: Count
    entities: Count
    relations: Count
    facts: Count
    waiting: Count = Field(description="The number of batches that are not learned yet.")
    jobs: list[Job] = Field(description="The batches that are not learned yet.")
    quality: Quality | None = Field(default=None, description="The verdict on the active version.")
    relearn: RelearnJob | None = Field(default=None, description="The last relearning, if any.")
