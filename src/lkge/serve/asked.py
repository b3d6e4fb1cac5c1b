"""What clients send, as typed and documented JSON: nothing else is accepted."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from lkge.data.vocabulary import INVERSE
from lkge.serve import limits

Name = Annotated[str, Field(min_length=1, max_length=limits.MAX_NAME)]
NameIfAny = Annotated[
    Name | None,
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": limits.MAX_NAME}),
]
"""Left out or a name; null is neither."""


def _forward(name: str) -> str:
    if name.endswith(INVERSE):
        raise ValueError(f"{INVERSE!r} behind a relation marks its inverse; turn the fact around")
    return name


def _whole(value: Any) -> Any:
    """In JSON 5.0 is the same as 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _no_default(schema: dict[str, Any]) -> None:
    """What may be left out, but not null, has no default to show."""
    schema.pop("default", None)


Whole = Annotated[int, BeforeValidator(_whole)]
VISIBLE = r"[^\s\x1c-\x1f\x85]"
"""Some character that is no white space, whatever a dialect of patterns takes for such."""
NewName = Annotated[str, Field(min_length=1, max_length=limits.MAX_NAME, pattern=VISIBLE)]
NewRelation = Annotated[NewName, AfterValidator(_forward)]
NamedFact = Annotated[tuple[Name, Name, Name], Field(strict=False)]
NewFact = Annotated[tuple[NewName, NewRelation, NewName], Field(strict=False)]


class Body(BaseModel):
    """What a client sends: unknown fields and other types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Query(Body):
    """(subject, relation, ?) or (?, relation, object): which entity fits best?"""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["subject"]}, {"required": ["object"]}],
            "examples": [{"subject": "Paris", "relation": "capital of", "k": 5}],
        },
    )
    subject: NameIfAny = Field(
        default=None, description="Ask for objects of this subject.", json_schema_extra=_no_default
    )
    relation: Name = Field(description=f"A relation; `{INVERSE}` behind it turns it around.")
    object: NameIfAny = Field(
        default=None, description="Ask for subjects of this object.", json_schema_extra=_no_default
    )
    k: Whole = Field(default=10, ge=1, le=limits.MAX_ANSWERS, description="How many answers.")
    new_only: bool = Field(default=False, description="Leave out answers that are known facts.")

    @model_validator(mode="after")
    def _one_side(self) -> Self:
        given = self.model_fields_set & {"subject", "object"}
        if len(given) != 1 or getattr(self, *given) is None:
            raise ValueError("give either a subject or an object")
        return self


class Queries(Body):
    """Several questions at once, answered by one version."""

    queries: list[Query] = Field(min_length=1, max_length=limits.MAX_QUERIES)


class SimilarQuery(Body):
    """Which entities lie nearest?"""

    model_config = ConfigDict(json_schema_extra={"examples": [{"entity": "Paris", "k": 5}]})
    entity: Name
    k: Whole = Field(default=10, ge=1, le=limits.MAX_ANSWERS, description="How many answers.")


class ScoreQuery(Body):
    """How plausible are these facts?"""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"facts": [["Paris", "capital of", "France"]]}]}
    )
    facts: list[NamedFact] = Field(min_length=1, max_length=limits.MAX_SCORED)


class NewFacts(Body):
    """Facts to learn and facts to forget; at least one of either."""

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
        default_factory=list, max_length=limits.MAX_FACTS, description="Facts that no longer hold."
    )
    valid: float = Field(
        default=0.02, ge=0, le=0.5, description="The share of the facts to hold out for measuring."
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.facts and not self.retract:
            raise ValueError("give at least one fact to add or to retract")
        return self
