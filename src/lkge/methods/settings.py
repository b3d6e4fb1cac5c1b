"""What is said of the methods of this package without importing them: in one line, what each keeps
from one snapshot to the next, and its settings. Torch is not imported.

A method of another package says the same in its class.
"""

import functools
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import ClassVar, Literal, NamedTuple

from lkge.config import METHOD_CONFIGS, MethodConfig, setting
from lkge.errors import UnknownName

GROUP = "lkge.methods"
"""The entry points by which other packages bring methods."""

NOTHING = "nothing but the tables"
ONE_COUNT = "one count a row"
ONE_NUMBER = "one number a coordinate"
FACTS = "up to `memory_size` training facts"
NEAR_FACTS = "up to `max_neighbours` facts an entity"


class Profile(NamedTuple):
    """A method in one line, what it keeps, and the class of its settings."""

    summary: str
    keeps: str = NOTHING
    config: type[MethodConfig] = MethodConfig


class RegularizedConfig(MethodConfig):
    """Of methods that pull rows towards their old values."""

    regularization_weight: float = setting(
        0.01, "α: weight of the pull towards the old embeddings.",
        ge=0, grid=(0.01, 0.1, 1.0),
    )  # fmt: skip


class LkgeConfig(RegularizedConfig):
    """The parts of LKGE."""

    autoencoder_weight: float = setting(
        0.1, "β: weight of the masked autoencoder.", ge=0, grid=(0.01, 0.1, 1.0)
    )
    regularization_form: Literal["linear", "squared"] = setting(
        "linear", "linear: ω·‖Δ‖² as in Eq. (10); squared: ‖ω·Δ‖² as in the published code."
    )
    fine_tuning: bool = setting(True, "Train on every snapshot; off: on the first alone.")
    autoencoder: bool = setting(True, "Learn with the masked autoencoder.")
    transfer: bool = setting(True, "Initialise new rows from old neighbours.")
    regularization: bool = setting(True, "Pull rows towards their old embeddings.")


class SiConfig(RegularizedConfig):
    """Of SI."""

    damping: float = setting(
        1e-3, "ξ: bounds the importance of a coordinate that hardly moved.", gt=0
    )


class MemoryConfig(MethodConfig):
    """Of methods that keep facts."""

    memory_size: int = setting(5000, "Old facts that are kept.", ge=0)


class DicgrlConfig(MemoryConfig):
    """The components of a row."""

    also_uses: ClassVar[frozenset[str]] = frozenset({"negatives", "margin"})
    components: int = setting(8, "Parts that an entity's vector is divided into.", ge=1)
    active_components: int = setting(4, "How many of them a relation uses.", ge=1, grid=(2, 4, 8))


class InductiveConfig(MethodConfig):
    """Of methods that look at neighbours."""

    also_uses: ClassVar[frozenset[str]] = frozenset({"negatives", "margin"})
    max_neighbours: int = setting(64, "Facts of an entity that it looks at, at most.", ge=1)


class LanConfig(InductiveConfig):
    """The attention of LAN."""

    attention_dim: int = setting(50, "Coordinates of the learned attention, at most.", ge=1)
    min_discount: float = setting(
        0.01, "Lower bound of the logic part's discount of a neighbour.", gt=0, le=1
    )


class FactReplayConfig(MethodConfig):
    """Settings of fact replay."""

    replayed_per_new: float = setting(
        2.0, "Known facts of an epoch for each new fact.", ge=0, grid=(1.0, 2.0, 4.0)
    )
    min_replayed: int = setting(1000, "Known facts of an epoch, at least.", ge=0)
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


class PseudoQueryConfig(MethodConfig):
    """How pseudo-queries are drawn."""

    max_pseudo_queries: int = setting(
        5000, "Pseudo-queries of a snapshot, at most: one for two new facts.", ge=1
    )
    pseudo_query_proposals: int = setting(16, "Queries proposed for each that is chosen.", ge=1)
    pseudo_query_sharpness: float = setting(
        2.0, "A proposed query with answers of entropy H has weight exp(-sharpness · H).", ge=0
    )
    pseudo_query_power: float = setting(
        2 / 3, "Rows are proposed ∝ (sum of squared gradients)^power.", ge=0
    )


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


BUILT_IN: Mapping[str, Profile] = {
    "evergreen": Profile(
        "replay of old facts, generated or known, with new ones; the default",
        "query counts, a replay model that reproduces the facts, the optimizer's sums, and one "
        'count a row; with memory = "facts" the facts instead of the first two',
        EvergreenConfig,
    ),
    "snapshot": Profile("start over on each snapshot's own facts"),
    "re-train": Profile(
        "start over on all facts so far; the costly reference",
        "every training and validation fact",
    ),
    "fine-tune": Profile("keep learning on the new facts alone; forgets"),
    "mean": Profile(
        "trained once; later entities are the mean of their neighbours", NEAR_FACTS, InductiveConfig
    ),
    "lan": Profile(
        "trained once; later entities attend to neighbours by query",
        f"{NEAR_FACTS}; which relation implies which",
        LanConfig,
    ),
    "pnn": Profile("freeze what is learned, train new rows only"),
    "cwr": Profile("learn a temporary model, average it into a consolidated one", ONE_COUNT),
    "si": Profile("hold each coordinate by what its path gained", ONE_NUMBER, SiConfig),
    "ewc": Profile("hold each coordinate by its Fisher information", ONE_NUMBER, RegularizedConfig),
    "gem": Profile("project each step so that remembered facts do not suffer", FACTS, MemoryConfig),
    "emr": Profile("learn remembered facts together with the new ones", FACTS, MemoryConfig),
    "dicgrl": Profile(
        "vectors in components; replay old facts that share them", FACTS, DicgrlConfig
    ),
    "lkge": Profile(
        "autoencoder, transfer and regularisation; the paper's method", ONE_COUNT, LkgeConfig
    ),
}
"""Name of a method → its profile; `register` gives each class its own."""

METHOD_CONFIGS.update({name: profile.config for name, profile in BUILT_IN.items()})


def profiles() -> dict[str, Profile]:
    """Of all methods, those of other packages too, which are imported for that."""
    if METHOD_CONFIGS.keys() == BUILT_IN.keys() and not _are_others_installed():
        return dict(BUILT_IN)
    from lkge.methods.base import known_methods

    known = known_methods()
    return {name: Profile(each.summary, each.keeps, each.Config) for name, each in known.items()}


@functools.cache
def _are_others_installed() -> bool:
    return bool(entry_points(group=GROUP))


def profile_of(name: str) -> Profile:
    """The profile of one method."""
    known = profiles()
    if name not in known:
        raise UnknownName("method", name, sorted(known))
    return known[name]
