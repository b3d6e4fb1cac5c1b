"""The settings of LKGE."""

from typing import Literal

from lkge.config import setting
from lkge.methods.regularization_settings import RegularizedConfig


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
