"""The settings of the replay model."""

from lkge.config import MethodConfig, setting


class ReplayModelConfig(MethodConfig):
    """How the replay model is trained."""

    replay_model_passes: int = setting(6, "Passes over the facts of a snapshot.", ge=1)
    replay_model_separate_passes: int = setting(
        16, "The same where its score is not the model's.", ge=1
    )
    replay_model_min_steps: int = setting(300, "Steps of its training, at least.", ge=1)
    replay_model_learning_rate: float = setting(0.1, "Step size of its Adagrad.", gt=0)
    replay_model_damping: float = setting(
        0.1, "Added to its sums of squared gradients: small gradients move little.", gt=0
    )
    replay_model_tolerance: float = setting(
        0.1, "A query is fitted if no candidate's expected count is off by more.", gt=0
    )
    replay_model_init_std: float = setting(0.1, "Standard deviation of separate rows.", gt=0)
    replay_model_old_per_new: float = setting(
        1.0, "Old queries trained again beside new facts, for each of these.", ge=0
    )
