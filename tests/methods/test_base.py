"""The registry of methods, and hooks that do no harm."""

from __future__ import annotations

import pytest
from tests.methods.hand_made import FIRST

from lkge.config import MethodConfig
from lkge.data.snapshots import with_inverses
from lkge.errors import UnknownName
from lkge.methods.base import METHODS, Method, method_named, register
from lkge.methods.profiles import BUILT_IN
from lkge.models.model import Model
from lkge.models.parameters import Gradient
from lkge.testing import paper_config


def test_a_method_is_found_by_its_name() -> None:
    assert {"lkge", "fine-tune", "re-train", "snapshot"} <= set(METHODS)
    for name, method in METHODS.items():
        assert method_named(name) is method
        assert method.name == name


def test_every_method_says_what_it_is() -> None:
    """In words of its own."""
    assert len({method.summary for method in METHODS.values()}) == len(METHODS)
    for method in METHODS.values():
        assert method.keeps
        assert method.__doc__ not in {None, *(base.__doc__ for base in method.__mro__[1:])}


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_the_settings_of_a_method_are_in_the_file_beside_it(name: str) -> None:
    method, config = METHODS[name], BUILT_IN[name].config
    assert method.Config is config
    assert config is MethodConfig or config.__module__ == f"{method.__module__}_settings"


def test_an_unknown_method_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="'fine-tune'"):
        method_named("finetune")


def test_a_name_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lkge.methods.base.METHODS", dict(METHODS))

    class Another(Method):
        name = "lkge"

    with pytest.raises(ValueError, match="'lkge'"):
        register(Another)
    assert register(METHODS["lkge"]) is METHODS["lkge"]


def test_the_hooks_of_the_base_do_no_harm() -> None:
    config = paper_config(dim=4)
    method, model = Method(config), Model(config)
    method.grow(model, FIRST)
    before = model.tables.clone()
    gradient = Gradient.like(model.tables)
    method.begin(model, FIRST)
    assert method.penalty(model, gradient) == 0
    method.adjust(model, gradient)
    method.after_step(model, gradient)
    method.end(model, FIRST)
    assert method.facts(FIRST) is FIRST.train
    assert method.validation(FIRST) is FIRST.valid
    assert method.facts_per_entity(with_inverses(FIRST.train), FIRST) == 10 / 4
    assert method.inference_parameters(model) is model.tables
    assert method.state() == method.working_state() == {}
    assert method.carried_bytes() == 0
    assert (model.tables.entity == before.entity).all()
    assert not gradient.entity.touched.any()
