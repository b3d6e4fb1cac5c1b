"""The settings of the replay of known facts."""

from lkge.config import MethodConfig, setting


class FactReplayConfig(MethodConfig):
    """Settings of fact replay."""

    replayed_per_new: float = setting(
        2.0, "Known facts of an epoch for each new fact.", ge=0, grid=(1.0, 2.0, 4.0)
    )
    min_replayed: int = setting(1000, "Known facts of an epoch, at least.", ge=0)
    negative_queries: int = setting(
        300, "Known facts of a step that are negatives of new entities; 0: none.", ge=0
    )
    negative_candidates: int = setting(
        1000, "Old entities that new ones are compared with in these.", ge=1
    )
    replayed_per_retracted: int = setting(
        200, "Known facts of an epoch of each entity that a retracted fact names, at most.", ge=0
    )
    retraction_strength: float = setting(
        8.0, "A retracted fact weighs in an update as so many passes over a known one.", gt=0
    )
    small_update: float = setting(
        0.1, "An update is small below so many new facts for each known one.", ge=0
    )
    update_epochs: int = setting(3, "Epochs of a small update, at least.", ge=1)
    min_update_steps: int = setting(6, "Steps of a small update, at least.", ge=1)
    update_steps_per_epoch: int = setting(
        2, "Steps of an epoch of a small update, at least, unless batches become too small.", ge=1
    )
    update_step_size: float = setting(
        0.33, "The learning rate of a small update, as a share of training.learning_rate.", gt=0
    )
    min_stopping_facts: int = setting(
        50, "A large update with fewer validation facts trains all its epochs.", ge=0
    )
    consolidate_after: float = setting(
        0.05, "Consolidate after so many facts of small updates for each known one; 0: never.", ge=0
    )
    consolidation_epochs: int = setting(4, "Epochs of a consolidation.", ge=1)
