from tests.bench.made import fake_program
from tests.reports.conftest import make_run

__all__ = ["fake_program", "make_run"]
