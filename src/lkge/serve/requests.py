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

    @pydantic.model_validator(mode="after")
    def _one_side(self) -> Self:
        given = self.model_fields_set & {"subject", "object"}
        if len(given) != 1 or getattr(self, *given) is None:
            raise ValueError("give either a subject or an object")
        return self

    def arguments(self) -> dict[str, Any]:
        """The arguments of `Reader.predict`."""
        return self.model_dump()


class Queries(RequestBody):
    """Several queries, answered by the same version."""

    queries: list[Query] = Field(min_length=1, max_length=limits.MAX_QUERIES)


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
