"""What is said of the methods of this package without importing them: in one line, what each keeps
from one snapshot to the next, and its settings, which are in `X_settings.py` beside the method's
`X.py`. None of these imports torch.

A method of another package says the same in its class.
"""

import functools
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import NamedTuple

from lkge.config import METHOD_CONFIGS, MethodConfig
from lkge.errors import UnknownName
from lkge.methods.dicgrl_settings import DicgrlConfig
from lkge.methods.evergreen_settings import EvergreenConfig
from lkge.methods.inductive_settings import InductiveConfig
from lkge.methods.lan_settings import LanConfig
from lkge.methods.lkge_settings import LkgeConfig
from lkge.methods.memory_settings import MemoryConfig
from lkge.methods.regularization_settings import RegularizedConfig, SiConfig

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
