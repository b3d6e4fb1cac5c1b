from tests.reports.conftest import make_run
from tests.studies.made import fake_answers, fake_program

__all__ = ["fake_answers", "fake_program", "make_run"]
