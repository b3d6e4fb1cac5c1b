"""The loss on new facts and its row gradient: fused for the CPU, or by autograd on any device."""

from lkge.models.objectives.base import FactwiseObjective, Objective, as_tensors
from lkge.models.objectives.choice import negatives_of, objective_of
from lkge.models.objectives.margin import FusedMargin, PlainMargin, margin_objective

__all__ = [
    "FactwiseObjective",
    "FusedMargin",
    "Objective",
    "PlainMargin",
    "as_tensors",
    "margin_objective",
    "negatives_of",
    "objective_of",
]
