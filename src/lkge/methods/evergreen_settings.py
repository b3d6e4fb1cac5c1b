"""The settings of evergreen, with those of its parts."""

from typing import Literal

from lkge.config import setting
from lkge.methods.fact_replay_settings import FactReplayConfig
from lkge.methods.replay_model_settings import ReplayModelConfig
from lkge.methods.replay_queries_settings import PseudoQueryConfig


class EvergreenConfig(ReplayModelConfig, PseudoQueryConfig, FactReplayConfig):
    """How old facts are replayed."""

    memory: Literal["facts", "generative", "none"] = setting(
        "generative",
        "facts: replay known facts. generative: query counts and a replay model. "
        "none: pseudo-queries of the last model.",
    )
    replay_weight: float = setting(
        2.0, "δ: weight of an old fact against a new one; 0: no replay.",
        ge=0, grid=(1.0, 2.0, 3.0),
    )  # fmt: skip
    replay_share: float = setting(
        1.0, "κ: share of λ that is replayed; the rest is distilled.", ge=0, le=1
    )
    replay_queries: int = setting(400, "Old queries of a step.", ge=1)
    replay_model: bool = setting(
        True, "Train a replay model to generate facts; off: the last model generates."
    )
    carry_optimizer_state: bool = setting(True, "Keep the optimizer's sums over snapshots.")
    transfer: bool = setting(True, "Initialise new rows from old neighbours.")
    replayed_per_query: float = setting(
        1.25, "Replayed queries for each of `replay_queries`; distilled ones cost more.", gt=0
    )
    replay_candidate_fraction: float = setting(
        0.1, "Share of all entities that replayed facts are contrasted with.", gt=0, le=1
    )
    replay_importance_power: float = setting(
        0.5, "A candidate drawn for n/d others has the importance (n/d)^power.", ge=0, le=1
    )
    replay_batch_share: float = setting(
        0.2, "New facts of a batch beside replayed ones, as a share of batch_size.", gt=0
    )
    distillation_batch_share: float = setting(0.5, "The same beside distilled queries.", gt=0)
    dense_degree: float = setting(
        30.0, "Above so many facts per entity, a replay_weight above 1 falls to 1.", gt=0
    )
    retraction_weight: int = setting(100, "New facts that a retracted one counts for in λ.", ge=0)
    min_epochs: int = setting(3, "Epochs of a snapshot, at least.", ge=1)
    min_batch_size: int = setting(100, "Facts of a batch, at least.", ge=1)
    min_steps_per_epoch: int = setting(
        40, "Steps of an epoch, at least, unless batches become too small.", ge=1
    )
    patience_steps: int = setting(80, "Steps without a gain that end a snapshot, at least.", ge=1)
    max_patience: int = setting(5, "Epochs of patience, at most, for that.", ge=1)
    max_validation_facts: int = setting(5000, "Validation facts of an epoch, at most.", ge=1)
