"""The requests of the HTTP API as JSON. Unknown fields are refused."""

from typing import Annotated, Any, Self

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lkge.data.vocabulary import INVERSE
from lkge.serve import limits

VISIBLE = r"[^\s\x1c-\x1f\x85]"
"""A pattern: at least one character is not white space, in each dialect of patterns."""


def _not_inverse(name: str) -> str:
    if name.endswith(INVERSE):
        raise ValueError(
            f"{INVERSE!r} after a relation marks its inverse; exchange subject and object"
        )
    return name


def _integral(value: Any) -> Any:
    """In JSON, 5.0 and 5 are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


Name = Annotated[str, Field(min_length=1, max_length=limits.MAX_NAME)]
OptionalName = Annotated[
    Name | None,
    pydantic.WithJsonSchema({"type": "string", "minLength": 1, "maxLength": limits.MAX_NAME}),
    Field(json_schema_extra=lambda schema: schema.pop("default", None)),
]
"""A name that may be left out. In the JSON schema it is not nullable and has no default."""
NewName = Annotated[Name, Field(pattern=VISIBLE)]
NewRelation = Annotated[NewName, pydantic.AfterValidator(_not_inverse)]
Fact = Annotated[tuple[Name, Name, Name], Field(strict=False)]
NewFact = Annotated[tuple[NewName, NewRelation, NewName], Field(strict=False)]
PAIR_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "string",
        "minLength": 1,
        "maxLength": limits.MAX_NAME,
        "pattern": VISIBLE,
    },
    "minItems": 2,
    "maxItems": 2,
    "uniqueItems": True,
}
OPTIONAL_PAIR = (
    pydantic.WithJsonSchema(PAIR_SCHEMA),
    Field(strict=False, json_schema_extra=_without_default),
)
OptionalPair = Annotated[tuple[NewName, NewName] | None, *OPTIONAL_PAIR]
OptionalRelationPair = Annotated[tuple[NewName, NewRelation] | None, *OPTIONAL_PAIR]
Pair = Annotated[tuple[Name, Name], Field(strict=False)]
AnswerCount = Annotated[
    int,
    Field(ge=1, le=limits.MAX_ANSWERS, description="Number of answers."),
    BeforeValidator(_integral),
]


class RequestBody(BaseModel):
    """Base of all requests: unknown fields and other types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Query(RequestBody):
    """(subject, relation, ?) or (?, relation, object)."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["subject"]}, {"required": ["object"]}],
            "examples": [{"subject": "Paris", "relation": "capital of", "k": 5}],
        },
    )
    subject: OptionalName = Field(default=None, description="Predict objects.")
    relation: Name = Field(description=f"A relation; `{INVERSE}` after it means its inverse.")
    object: OptionalName = Field(default=None, description="Predict subjects.")
    k: AnswerCount = 10
    new_only: bool = Field(default=False, description="Leave out answers that are known facts.")
    in_range: bool = Field(
        default=False,
        description="Leave out answers that no known fact of the relation has in the same place.",
    )
    unlinked: bool = Field(
        default=False, description="Leave out entities in any known fact with the one given."
    )
    among: list[Name] = Field(
        default_factory=list,
        min_length=1,
        max_length=limits.MAX_AMONG,
        description="Only these entities. Default: all.",
    )
    where: list[Pair] = Field(
        default_factory=list,
        max_length=limits.MAX_WHERE,
        description="Only entities with a known fact [relation, object], for each of these.",
    )

    def arguments(self) -> dict[str, Any]:
        """The arguments of `Reader.predict`."""
        return {**self.model_dump(), "among": self.among or None}

    @pydantic.model_validator(mode="after")
    def _one_side(self) -> Self:
        given = self.model_fields_set & {"subject", "object"}
        if len(given) != 1 or getattr(self, *given) is None:
            raise ValueError("give either a subject or an object")
        return self


class Queries(RequestBody):
    """Several queries, answered by the same version."""

    queries: list[Query] = Field(min_length=1, max_length=limits.MAX_QUERIES)


class RelationQuery(RequestBody):
    """(subject, ?, object)."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"subject": "Paris", "object": "France", "k": 3}]}
    )
    subject: Name
    object: Name
    k: AnswerCount = 10
    new_only: bool = Field(default=False, description="Leave out relations of known facts.")
    in_range: bool = Field(
        default=False,
        description="Leave out relations that have the object in no known fact in this place.",
    )


class SuggestQuery(RequestBody):
    """Which facts are missing? With a subject or an object, and a relation, if they are given."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {"required": ["subject", "object"]},
            "examples": [{"relation": "capital of", "k": 20}],
        }
    )
    subject: OptionalName = Field(default=None, description="Only facts with this subject.")
    relation: OptionalName = Field(default=None, description="Only facts with this relation.")
    object: OptionalName = Field(default=None, description="Only facts with this object.")
    k: AnswerCount = 10

    @pydantic.model_validator(mode="after")
    def _not_both_sides(self) -> Self:
        given = self.model_fields_set
        if {"subject", "object"} <= given:
            raise ValueError("give a subject or an object, not both")
        if any(getattr(self, name) is None for name in given):
            raise ValueError("leave out what is not given")
        return self


class ExplainQuery(RequestBody):
    """Which known facts speak for this fact?"""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"subject": "Paris", "relation": "capital of", "object": "France"}]
        }
    )
    subject: Name
    relation: Name
    object: Name
    k: Annotated[
        int,
        Field(ge=1, le=limits.MAX_REASONS, description="Number of known facts."),
        BeforeValidator(_integral),
    ] = 10


class NewLabels(RequestBody):
    """Texts to show for names; an empty one removes the label."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"labels": {"wd:Q90": "Paris"}}]},
    )
    labels: dict[Name, Annotated[str, Field(max_length=limits.MAX_NAME)]] = Field(
        min_length=1, max_length=limits.MAX_LABELS, description="Label by name."
    )


class SimilarQuery(RequestBody):
    """Which entities have the most similar embeddings?"""

    model_config = ConfigDict(json_schema_extra={"examples": [{"entity": "Paris", "k": 5}]})
    entity: Name
    k: AnswerCount = 10


class ScoreQuery(RequestBody):
    """How plausible are these facts?"""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"facts": [["Paris", "capital of", "France"]]}]}
    )
    facts: list[Fact] = Field(min_length=1, max_length=limits.MAX_SCORED)


class NewFacts(RequestBody):
    """Facts to learn and facts to retract; at least one fact in total."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": [name], "properties": {name: {"minItems": 1}}}
                for name in ("facts", "retract")
            ],
            "examples": [{"facts": [["Paris", "capital of", "France"]], "valid": 0.02}],
        }
    )
    facts: list[NewFact] = Field(
        default_factory=list,
        max_length=limits.MAX_FACTS,
        description="Facts as [subject, relation, object]; unknown names become new ones.",
    )
    retract: list[NewFact] = Field(
        default_factory=list, max_length=limits.MAX_FACTS, description="Facts no longer true."
    )
    valid: float = Field(
        default=0.02, ge=0, le=0.5, description="Share of the facts to hold out for evaluation."
    )

    @pydantic.model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.facts and not self.retract:
            raise ValueError("give at least one fact to add or to retract")
        return self


class NewEdit(RequestBody):
    """One change of the graph: exactly one of the fields."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": [name]} for name in ("remove", "rename", "rename_relation", "merge")
            ],
            "examples": [{"merge": ["Lutetia", "Paris"]}],
        }
    )
    remove: OptionalName = Field(
        default=None, description="An entity, to be removed with all its facts."
    )
    rename: OptionalPair = Field(
        default=None, description="[old, new] of an entity; its row and facts stay."
    )
    rename_relation: OptionalRelationPair = Field(
        default=None, description="[old, new] of a relation."
    )
    merge: OptionalPair = Field(
        default=None,
        description="[old, into]: facts of the first entity become facts of the second.",
    )

    @pydantic.model_validator(mode="after")
    def _one_change(self) -> Self:
        given = self.model_fields_set
        if len(given) != 1 or getattr(self, *given) is None:
            raise ValueError("give exactly one of remove, rename, rename_relation and merge")
        pair = self.rename or self.rename_relation or self.merge
        if pair and pair[0] == pair[1]:
            raise ValueError("give two names that differ")
        return self
