"""The contract notices what a method does wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch

from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot, no_facts
from lkge.errors import UnknownName
from lkge.methods import METHODS
from lkge.methods.base import Method, State
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.testing import ContractBroken, check_method, contract
from lkge.testing.graphs import SETTINGS


class Idle(Method):
    """Never trains."""

    def facts(self, snapshot: Snapshot) -> Facts:
        return no_facts()


class Unseeded(Method):
    """Its random numbers come from nowhere."""

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        super().grow(model, snapshot)
        model.tables.entity += torch.from_numpy(
            np.random.default_rng().normal(size=model.tables.entity.shape).astype(np.float32)
        )


class Deaf(Method):
    """Takes the same random numbers whatever the seed."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        model.tables = model.tables.map(torch.zeros_like)

    def adjust(self, model: Model, gradient: Gradient) -> None:
        for part in gradient:
            part.values.zero_()


class Secretive(Method):
    """Keeps the facts of the last snapshot without saying so."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._kept = no_facts()

    def facts(self, snapshot: Snapshot) -> Facts:
        return np.concatenate([self._kept, snapshot.train])

    def end(self, model: Model, snapshot: Snapshot) -> None:
        self._kept = snapshot.train


class Understated(Method):
    """Declares its state, but not its size."""

    def state(self) -> State:
        return {"count": torch.ones(3)}

    def carried_bytes(self) -> int:
        return 0


class Boastful(Method):
    """Says that it works row by row, and carries something else."""

    rowwise = True

    def state(self) -> State:
        return {"count": torch.ones(3)}


class Stubborn(Method):
    """Does not survive a retraction."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._spoilt = False

    def retract(self, facts: Facts) -> None:
        self._spoilt = True

    def end(self, model: Model, snapshot: Snapshot) -> None:
        if self._spoilt:
            model.tables.entity[0] = torch.nan


class Overgrown(Method):
    """Loses the rows of what came last."""

    def served(self, model: Model) -> Parameters:
        return Parameters(model.tables.entity[:-1], model.tables.relation)


class Broken(Method):
    """Divides by zero."""

    def end(self, model: Model, snapshot: Snapshot) -> None:
        model.tables.entity[0] = float("nan")


class Biased(Method):
    """Learns other things with kernels than without."""

    def adjust(self, model: Model, gradient: Gradient) -> None:
        if model.backend:
            gradient.entity.values.neg_()


class Amnesiac(Method):
    """Answers with a table that is not saved."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._shift = 0.0

    def end(self, model: Model, snapshot: Snapshot) -> None:
        self._shift = 1.0

    def served(self, model: Model) -> Parameters:
        shifted = model.tables.entity.clone()
        shifted[:, 0] += self._shift
        return Parameters(shifted, model.tables.relation)


WRONG: list[tuple[type[Method], Callable[[RunConfig], None], str]] = [
    (Idle, contract.learns, "training changes nothing"),
    (Unseeded, contract.follows_its_seed, "the same seed gives different tables"),
    (Deaf, contract.follows_its_seed, "different seeds give the same tables"),
    (Unseeded, contract.is_its_hooks, "the loop and the hooks"),
    (Secretive, contract.declares_what_it_carries, "does not declare"),
    (Understated, contract.declares_what_it_carries, "size of what is carried is wrong"),
    (Boastful, contract.carries_rows_if_it_says_so, "carries 'count'"),
    (Stubborn, contract.can_retract, "after a retraction a row is not finite"),
    (Overgrown, contract.learns_any_growth, "not everything has a row"),
    (Broken, contract.learns_any_growth, "a row is not finite"),
    (Biased, contract.learns_alike_on_both_backends, "the backends learn different tables"),
    (Amnesiac, contract.answers_when_restored, "a restored model gives other answers"),
]


@pytest.mark.parametrize(
    ("method", "check", "complaint"), WRONG, ids=lambda part: getattr(part, "__name__", None)
)
def test_a_wrong_method_is_found_out(
    method: type[Method],
    check: Callable[[RunConfig], None],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(METHODS, "wrong", method)
    with pytest.raises(ContractBroken, match=complaint):
        check(SETTINGS.with_changes({"method": "wrong"}))


def test_a_method_that_looks_for_test_facts_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Peeking(Method):
        name: ClassVar[str] = "peeking"

        def facts(self, snapshot: Snapshot) -> Facts:
            return np.concatenate([snapshot.train, snapshot.test])

    monkeypatch.setitem(METHODS, "peeking", Peeking)
    contract.is_blind_to_tests(SETTINGS.with_changes({"method": "peeking"}))


def test_a_good_method_passes_and_an_unknown_one_is_named() -> None:
    check_method("fine-tune")
    with pytest.raises(UnknownName, match="no-such"):
        check_method("no-such")
