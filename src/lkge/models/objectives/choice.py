"""Which objective the settings mean."""

from __future__ import annotations

from collections.abc import Iterator

from lkge.config import Settings
from lkge.errors import SettingsError
from lkge.models.objectives.base import FactwiseObjective, Objective
from lkge.models.objectives.contrast import SampledSoftmax
from lkge.models.objectives.fused_contrast import contrast
from lkge.models.objectives.margin import margin_objective
from lkge.models.objectives.relations import relation_prediction
from lkge.models.objectives.rows import RowPenalty
from lkge.models.objectives.softmax import softmax_objective
from lkge.models.objectives.total import Total
from lkge.models.scores import Score


def objective_of(settings: Settings, score: Score, fused: bool) -> FactwiseObjective:
    """The loss on facts, with the further terms that have a weight."""
    _check(settings)
    on_facts, terms = _on_facts(settings, score, fused), list(_terms(settings, score, fused))
    return Total(on_facts, terms) if terms else on_facts


def negatives_of(settings: Settings) -> int:
    """The corruptions that this objective wants for each fact."""
    return 0 if settings.objective == "softmax" else settings.negatives


def _on_facts(settings: Settings, score: Score, fused: bool) -> FactwiseObjective:
    match settings.objective:
        case "softmax":
            return softmax_objective(score, settings.label_smoothing, fused)
        case "sampled":
            plain = SampledSoftmax(score, settings.adversarial, settings.label_smoothing)
            return contrast(plain, fused)
        case _:
            return margin_objective(score, settings.margin, fused, settings.adversarial)


def _terms(settings: Settings, score: Score, fused: bool) -> Iterator[Objective]:
    if settings.relation_weight:
        yield relation_prediction(score, settings.relation_weight, fused)
    if settings.n3 or settings.l2:
        yield RowPenalty(score, settings.n3, settings.l2, fused)


def _check(settings: Settings) -> None:
    """Refuse what would have no effect."""
    if settings.label_smoothing and settings.objective == "margin":
        raise SettingsError(
            "label_smoothing has no meaning for objective = 'margin'; "
            "choose --objective softmax or sampled, or leave it out"
        )
    if settings.adversarial and settings.objective == "softmax":
        raise SettingsError(
            "adversarial weighs sampled negatives, and objective = 'softmax' has none; "
            "choose --objective sampled or margin, or leave it out"
        )
