"""Which objective the settings mean."""

from __future__ import annotations

from collections.abc import Iterator

from lkge.config import RunConfig
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


def objective_of(config: RunConfig, score: Score, fused: bool) -> FactwiseObjective:
    """The loss on facts, with the further terms that have a weight."""
    _check(config)
    on_facts, terms = _on_facts(config, score, fused), list(_terms(config, score, fused))
    return Total(on_facts, terms) if terms else on_facts


def negatives_of(config: RunConfig) -> int:
    """The corruptions that this objective wants for each fact."""
    return 0 if config.training.loss == "softmax" else config.training.negatives


def _on_facts(config: RunConfig, score: Score, fused: bool) -> FactwiseObjective:
    match config.training.loss:
        case "softmax":
            return softmax_objective(score, config.training.label_smoothing, fused)
        case "sampled":
            plain = SampledSoftmax(
                score, config.training.adversarial_temperature, config.training.label_smoothing
            )
            return contrast(plain, fused)
        case _:
            return margin_objective(
                score, config.training.margin, fused, config.training.adversarial_temperature
            )


def _terms(config: RunConfig, score: Score, fused: bool) -> Iterator[Objective]:
    if config.training.relation_prediction_weight:
        yield relation_prediction(score, config.training.relation_prediction_weight, fused)
    if config.training.n3 or config.training.l2:
        yield RowPenalty(score, config.training.n3, config.training.l2, fused)


def _check(config: RunConfig) -> None:
    """Refuse what would have no effect."""
    if config.training.label_smoothing and config.training.loss == "margin":
        raise SettingsError(
            "label_smoothing has no meaning for objective = 'margin'; "
            "choose --objective softmax or sampled, or leave it out"
        )
    if config.training.adversarial_temperature and config.training.loss == "softmax":
        raise SettingsError(
            "adversarial weighs sampled negatives, and objective = 'softmax' has none; "
            "choose --objective sampled or margin, or leave it out"
        )
