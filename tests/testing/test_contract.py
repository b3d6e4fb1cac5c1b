"""The contract notices what a method does wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.config import METHOD_CONFIGS, RunConfig
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, Snapshot, among, no_facts
from lkge.errors import UnknownName
from lkge.methods import METHODS
from lkge.methods.base import Method, State
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import Predictor, TablePredictor, View
from lkge.testing import ContractBroken, check_method, contract
from lkge.testing.graphs import config_for


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

    supports_partial_updates = True

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

    def inference_parameters(self, model: Model) -> Parameters:
        return Parameters(model.tables.entity[:-1], model.tables.relation)


class Broken(Method):
    """Divides by zero."""

    def end(self, model: Model, snapshot: Snapshot) -> None:
        model.tables.entity[0] = float("nan")


class Biased(Method):
    """Learns other things with kernels than without."""

    def adjust(self, model: Model, gradient: Gradient) -> None:
        if model.backend.fused:
            gradient.entity.values.neg_()


class Amnesiac(Method):
    """Answers with a table that is not saved."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._shift = 0.0

    def end(self, model: Model, snapshot: Snapshot) -> None:
        self._shift = 1.0

    def inference_parameters(self, model: Model) -> Parameters:
        shifted = model.tables.entity.clone()
        shifted[:, 0] += self._shift
        return Parameters(shifted, model.tables.relation)


class Remembering(Method):
    """Honest: trains on the facts of earlier snapshots again, in steps that become smaller.

    Each cheat below is this method with one hook changed.
    """

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.kept = no_facts()
        self.steps = 0

    def retract(self, facts: Facts) -> None:
        self.kept = self.kept[~among(self.kept, facts)]

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        self.steps = 0

    def facts(self, snapshot: Snapshot) -> Facts:
        return np.concatenate([self.kept, snapshot.train])

    def adjust(self, model: Model, gradient: Gradient) -> None:
        for part in gradient:
            part.scale(1 / (1 + self.steps))
        self.steps += 1

    def end(self, model: Model, snapshot: Snapshot) -> None:
        self.kept = np.concatenate([self.kept, snapshot.train])

    def state(self) -> State:
        return {"kept": torch.from_numpy(self.kept)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.kept = state["kept"].numpy()

    def working_state(self) -> State:
        return {"steps": torch.tensor([self.steps])}

    def load_working_state(self, state: Mapping[str, Tensor]) -> None:
        self.steps = int(state["steps"])


class TrainsOnTests(Remembering):
    """Takes the test facts of its snapshot for training facts."""

    def facts(self, snapshot: Snapshot) -> Facts:
        return np.concatenate([super().facts(snapshot), snapshot.test])


class SelectsOnTests(Remembering):
    """Selects the best epoch on the test facts of its snapshot."""

    def validation(self, snapshot: Snapshot) -> Facts:
        return snapshot.test if len(snapshot.test) else snapshot.valid


class RecordsQueries(Remembering):
    """Trains on the facts that evaluation has ranked."""

    def predictor(self, model: Model) -> Predictor:
        method = self

        class Recording(TablePredictor):
            def ranks(
                self, facts: Facts, views: Sequence[View], answers: KnownFacts
            ) -> NDArray[np.float64]:
                if len(views) > 1:
                    method.kept = np.concatenate([method.kept, facts[facts[:, 1] % 2 == 0]])
                return super().ranks(facts, views, answers)

        return Recording.of(self.inference_parameters(model), model.score, model.backend)


class RanksFirst(Remembering):
    """Ranks every test fact first."""

    def predictor(self, model: Model) -> Predictor:
        class First(TablePredictor):
            def ranks(
                self, facts: Facts, views: Sequence[View], answers: KnownFacts
            ) -> NDArray[np.float64]:
                return np.ones((len(facts), len(views)))

        return First.of(self.inference_parameters(model), model.score, model.backend)


class KeepsRetracted(Remembering):
    """Keeps the facts that were retracted."""

    def retract(self, facts: Facts) -> None:
        pass


class CountsRetracted(Remembering):
    """Keeps a count of facts for each entity, and counts the retracted ones, too."""

    counts: Tensor = torch.zeros(0)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        super().end(model, snapshot)
        ends = torch.from_numpy(self.kept[:, [0, 2]]).long().flatten()
        self.counts = torch.bincount(ends, minlength=snapshot.num_entities).float()

    def state(self) -> State:
        return {**super().state(), "counts": self.counts}


class HidesRetracted(Remembering):
    """Keeps retracted facts as numbers that do not look like ids, and trains on them again."""

    retract = KeepsRetracted.retract

    def state(self) -> State:
        return {"kept": torch.from_numpy(self.kept) + 0.5}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.kept = (state["kept"] - 0.5).numpy().astype(np.int32)


class ForgetsToSave(Remembering):
    """Does not save the facts that it keeps."""

    state = Method.state
    load_state = Method.load_state


class ForgetsToLoad(Remembering):
    """Saves the facts that it keeps and does not take them back."""

    load_state = Method.load_state


class ForgetsItsSteps(Remembering):
    """Begins its steps anew where a snapshot is resumed."""

    working_state = Method.working_state
    load_working_state = Method.load_working_state


WRONG: list[tuple[type[Method], Callable[[RunConfig], None], str]] = [
    (Idle, contract.learns, "training changes nothing"),
    (Unseeded, contract.follows_its_seed, "the same seed gives different tables"),
    (Deaf, contract.follows_its_seed, "different seeds give the same tables"),
    (Unseeded, contract.is_its_hooks, "the loop and the hooks"),
    (Secretive, contract.declares_what_it_carries, "does not declare"),
    (Understated, contract.declares_what_it_carries, "size of what is carried is wrong"),
    (Boastful, contract.carries_rows_if_it_says_so, "and 'count' has not"),
    (Stubborn, contract.can_retract, "after a retraction a row is not finite"),
    (Overgrown, contract.learns_any_growth, "not everything has a row"),
    (Broken, contract.learns_any_growth, "a row is not finite"),
    (Biased, contract.learns_alike_on_both_backends, "the backends learn different tables"),
    (Amnesiac, contract.answers_when_restored, "a restored model gives other answers"),
    (TrainsOnTests, contract.is_blind_to_tests, "a hook uses the test facts"),
    (SelectsOnTests, contract.is_blind_to_tests, "a hook uses the test facts"),
    (RecordsQueries, contract.is_blind_to_tests, "evaluation on test facts changes what is"),
    (RanksFirst, contract.ranks_by_its_scores, "ranks depend on the answer"),
    (KeepsRetracted, contract.drops_retracted_facts, "'kept' of `state` still holds"),
    (CountsRetracted, contract.drops_retracted_facts, "'counts' of `state` still holds"),
    (HidesRetracted, contract.drops_retracted_facts, "retracted facts are trained on"),
    (ForgetsToSave, contract.declares_what_it_carries, "`state` does not declare"),
    (ForgetsToLoad, contract.declares_what_it_carries, "`load_state` does not take back"),
    (ForgetsItsSteps, contract.resumes_within_a_snapshot, "nor in `working_state`"),
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
    monkeypatch.setitem(METHOD_CONFIGS, "wrong", method.Config)
    with pytest.raises(ContractBroken, match=complaint):
        check(config_for("wrong"))


def test_an_honest_method_passes_every_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "remembering", Remembering)
    monkeypatch.setitem(METHOD_CONFIGS, "remembering", Remembering.Config)
    check_method("remembering")


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(UnknownName, match="no-such"):
        check_method("no-such")
