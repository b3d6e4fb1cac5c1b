"""The settings that have a flag of their own: their types and texts. Nothing is imported, so that
`lkge --help` is quick; `lkge.config` takes the texts from here."""

from collections.abc import Mapping
from typing import NamedTuple


class Common(NamedTuple):
    """The type of a setting as a flag, and what it does."""

    kind: type[str] | type[int] | type[float]
    text: str


COMMON: Mapping[str, Common] = {
    "dataset": Common(str, "A name from `lkge datasets list`, a folder, or a zip archive."),
    "method": Common(str, "A name from `lkge methods`."),
    "seed": Common(int, "The same seed gives the same bytes on the same machine."),
    "score": Common(str, "transe, transe-l2, distmult, complex or rotate."),
    "dim": Common(int, "Numbers per entity and relation. A complex coordinate is two."),
    "learning_rate": Common(float, "Step size of the optimizer."),
    "batch_size": Common(int, "Positive facts in a step."),
    "max_epochs": Common(int, "Epochs of a snapshot, at most."),
    "patience": Common(
        int, "A snapshot ends after so many epochs without a better validation MRR."
    ),
    "device": Common(str, "Where torch computes: cpu, cuda, mps."),
    "backend": Common(str, "auto, numba (fused CPU kernels) or torch (any device)."),
}
