"""The tensors within what a module is given or returns."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest
import torch

from chaoskit.probe.injection.replacement import replacement
from chaoskit.probe.injection.structure import replaced, tensors

Pair = namedtuple("Pair", "x y")


@dataclass(frozen=True)
class Output:
    loss: object
    name: str


class Named(OrderedDict):
    """As libraries have it: a dictionary whose entries are attributes, too."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


@pytest.mark.parametrize(
    "make, read, path",
    [
        (lambda t: t, lambda v: v, "out"),
        (lambda t: [1, t], lambda v: v[1], "out.1"),
        (lambda t: (t, None), lambda v: v[0], "out.0"),
        (lambda t: Pair(1, t), lambda v: v.y, "out.y"),
        (lambda t: {"a": {"b": t}}, lambda v: v["a"]["b"], "out.a.b"),
        (lambda t: Output(t, "n"), lambda v: v.loss, "out.loss"),
        (lambda t: Named(loss=t), lambda v: v.loss, "out.loss"),
        (lambda t: torch.max(t.view(1, 2), dim=1), lambda v: v.values, "out.0"),
    ],
)
def test_every_structure_keeps_its_shape_and_lets_the_gradient_through(make, read, path):
    leaf = torch.ones(2, requires_grad=True)
    value = make(leaf * 2)
    assert tensors(value, "out")[0][0] == path
    made = replaced(value, lambda _, t: replacement(t, t.detach() + 1, factor=3.0) if t.requires_grad else t)
    assert type(made) is type(value) and torch.equal(read(made), read(value) + 1)
    read(value).sum().backward()
    once, leaf.grad = leaf.grad.clone(), None
    read(
        replaced(make(leaf * 2), lambda _, t: replacement(t, t.detach(), factor=3.0) if t.requires_grad else t)
    ).sum().backward()
    assert torch.equal(leaf.grad, 3 * once)


def test_what_holds_no_other_tensor_stays_the_very_same():
    for value in (torch.arange(3), [torch.arange(3), "x"], {"a": None}, (1, 2), object(), None, Output(1, "n")):
        assert replaced(value, lambda _, tensor: tensor) is value


def test_nothing_is_changed_in_place():
    one = torch.ones(2)
    value = {"a": [one], "b": (one,)}
    made = replaced(value, lambda path, tensor: tensor + 1 if path == "a.0" else tensor)
    assert value["a"][0] is one and made["b"] is value["b"] and made["a"] is not value["a"]
    assert made["a"][0].tolist() == [2, 2]
