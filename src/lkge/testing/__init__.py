"""For authors of methods: what every method owes, ready to be checked.

from lkge.testing import check_method

check_method("my-method")       # as registered; raises ContractBroken
"""

from lkge.testing.contract import CHECKS, ContractBroken, check_method
from lkge.testing.graphs import config_for, paper_config

__all__ = ["CHECKS", "ContractBroken", "check_method", "config_for", "paper_config"]
