"""The settings of pseudo-queries."""

from lkge.config import MethodConfig, setting


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
