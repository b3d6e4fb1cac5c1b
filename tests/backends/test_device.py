"""Every method learns and answers on another device than the CPU, and mixes no devices.

The other device is made up: a tensor subclass that holds its values on the CPU, says that it is on
`meta`, and refuses every operation with a tensor of the CPU, unless that is a scalar. So it behaves
as a GPU would, and works on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

import lkge
from lkge import backends
from lkge.config import RunConfig
from lkge.configure import configure
from lkge.data.known_facts import KnownFacts
from lkge.evaluation.ranking import View
from lkge.methods import METHODS
from lkge.models.scores import SCORES
from lkge.testing.graphs import growing_graph
from lkge.training.checkpoint import Checkpoints
from lkge.training.events import EpochFinished, Event
from lkge.training.loop import Loop

DEVICE = "meta"
GRAPH = growing_graph((12, 18), (2, 3))


class Mixed(Exception):
    """Tensors of two devices met in one operation."""


class OnDevice(Tensor):
    """A tensor of the other device."""

    values: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> OnDevice:
        made: OnDevice = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, values.shape, strides=values.stride(), dtype=values.dtype, device=DEVICE
        )
        made.values = values
        return made

    def __repr__(self, **_: Any) -> str:
        return f"OnDevice({self.values})"

    @classmethod
    def __torch_dispatch__(
        cls, operation: Any, types: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        return performed(operation, arguments, named or {})


class OtherDevice(TorchDispatchMode):
    """While it is active, `meta` is a device that holds values."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        return performed(operation, arguments, named or {})


def performed(operation: Any, arguments: Any, named: dict[str, Any]) -> Any:
    """The operation on the values; what it makes is where its arguments are, or where it says."""
    flat, _ = tree_flatten((arguments, named))
    there = any(isinstance(x, OnDevice) for x in flat)
    here = [x for x in flat if type(x) is Tensor and x.dim()]
    copies = operation in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
    if there and here and not copies:
        raise Mixed(f"{operation} has tensors of two devices")
    wanted = named.get("device")
    if wanted is not None:
        named = {**named, "device": torch.device("cpu")}
        there = torch.device(wanted).type == DEVICE
    arguments, named_values = tree_map(
        lambda x: x.values if isinstance(x, OnDevice) else x, (arguments, named)
    )
    made = operation(*arguments, **named_values)
    if operation is torch.ops.aten._local_scalar_dense.default or not there:
        return made
    changed = {id(x.values): x for x in flat if isinstance(x, OnDevice)}

    def placed(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return changed.get(id(x)) if id(x) in changed else OnDevice(x)

    return tree_map(placed, made)


@pytest.fixture
def other_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(backends, "check_device", lambda device: None)
    with OtherDevice():
        yield


def config_on(method: str, **changes: Any) -> RunConfig:
    small = {"dim": 8, "max_epochs": 2, "batch_size": 64}
    own = {
        "evergreen": {"score": "complex", "loss": "softmax"},
        "dicgrl": {"components": 2, "active_components": 1},
    }
    return configure({"method": method, **small, **own.get(method, {}), **changes})


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_method_learns_on_another_device_what_it_learns_on_the_cpu(
    method: str, request: pytest.FixtureRequest
) -> None:
    graph = GRAPH
    expected = Loop(graph, config_on(method, backend="torch")).run()
    request.getfixturevalue("other_device")
    learned = Loop(graph, config_on(method, device=DEVICE)).run()
    for mine, twin in zip(learned.model.tables, expected.model.tables, strict=True):
        assert isinstance(mine, OnDevice)
        assert torch.equal(mine.values, twin)
    assert learned.results.protocols["paper"].final == expected.results.protocols["paper"].final


@pytest.mark.usefixtures("other_device")
@pytest.mark.parametrize("loss", ["margin", "softmax", "sampled"])
@pytest.mark.parametrize("score", sorted(SCORES))
def test_every_score_and_loss_has_a_step(score: str, loss: str) -> None:
    changes = {"score": score, "loss": loss, "n3": 0.1, "relation_prediction_weight": 0.1}
    Loop(GRAPH, config_on("lkge", device=DEVICE, **changes)).run()


def test_answers_come_back_to_the_host(request: pytest.FixtureRequest) -> None:
    facts = GRAPH.snapshots[0].train

    def answers(**changes: Any) -> list[Any]:
        predictor = Loop(GRAPH, config_on("fine-tune", **changes)).run().predictor
        ranks = predictor.ranks(facts, [View(12, 0)], KnownFacts.build([facts]))
        return [predictor.fact_scores(facts), predictor.candidate_scores(0, 0), ranks]

    expected = answers(backend="torch")
    request.getfixturevalue("other_device")
    for found, twin in zip(answers(device=DEVICE), expected, strict=True):
        assert isinstance(found, np.ndarray)
        assert found.tolist() == twin.tolist()


@pytest.mark.usefixtures("other_device")
def test_tensors_of_two_devices_do_not_mix() -> None:
    table, rows = torch.zeros(3, 2, device=DEVICE), torch.tensor([0, 2])
    assert table[rows.to(DEVICE)].shape == (2, 2)
    with pytest.raises(Mixed):
        table[rows]
    with pytest.raises(Mixed):
        table + torch.ones(3, 2)
    with pytest.raises((RuntimeError, TypeError)):
        table.numpy()
    assert (table + torch.tensor(1.0)).sum().item() == 6


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_run_is_resumed_on_another_device(
    method: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("other_device")
    config = config_on(method, device=DEVICE)
    expected = Loop(GRAPH, config).run()
    last = 0 if method in ("lan", "mean") else 1  # these do not train on later snapshots

    def stop(event: Event) -> None:
        if isinstance(event, EpochFinished) and (event.snapshot, event.epoch) == (last, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Loop(GRAPH, config, Checkpoints(tmp_path), stop, seconds_between_checkpoints=0).run()
    resumed = Loop(GRAPH, config, Checkpoints(tmp_path)).run()
    for mine, twin in zip(resumed.model.tables, expected.model.tables, strict=True):
        assert isinstance(mine, OnDevice)
        assert isinstance(twin, OnDevice)
        assert torch.equal(mine.values, twin.values)


@pytest.mark.parametrize("method", ["evergreen", "lkge", "ewc", "lan"])
def test_a_living_graph_learns_on_another_device(
    method: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ring = [(f"n{i}", "next", f"n{(i + 1) % 12}") for i in range(12)]
    more = [(f"m{i}", "next", f"n{i}") for i in range(3)]
    small: dict[str, Any] = {"dim": 8, "max_epochs": 2, "batch_size": 32, "method": method}

    def learned(folder: Path, **changes: Any) -> lkge.LivingGraph:
        graph = lkge.init(folder, **small, **changes)
        graph.add(ring)
        graph.add(more, retract=ring[:1])
        return graph

    expected = learned(tmp_path / "cpu", backend="torch")
    request.getfixturevalue("other_device")
    found = learned(tmp_path / "device", device=DEVICE)
    query = {"subject": "n3", "relation": "next"}
    for name, array in expected.reader.model_arrays.items():
        assert np.array_equal(found.reader.model_arrays[name], array), name
    assert_alike(found.predict(**query), expected.predict(**query))
    if method != "lan":  # its rows depend on the query
        assert_alike(found.similar("n3", k=3), expected.similar("n3", k=3))
    assert_alike(found.score(ring), expected.score(ring))


def assert_alike(found: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]) -> None:
    """The same rows, but for the last digits of numbers: torch answers for a device, numpy for a
    small graph on the CPU."""
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert one == tuple(
            pytest.approx(each, rel=1e-5) if isinstance(each, float) else each for each in other
        )
