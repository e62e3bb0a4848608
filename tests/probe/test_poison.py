"""NaN reaches every number that a forward pass returns, and the gradients, and nothing else."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest

from chaoskit.probe.poison import poison

torch = pytest.importorskip("torch")

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


def one():
    return torch.ones(2, requires_grad=True)


@pytest.mark.parametrize(
    "make, read",
    [
        (lambda t: t, lambda v: v),
        (lambda t: [1, t], lambda v: v[1]),
        (lambda t: (t, None), lambda v: v[0]),
        (lambda t: Pair(1, t), lambda v: v.y),
        (lambda t: {"a": {"b": t}}, lambda v: v["a"]["b"]),
        (lambda t: Output(t, "n"), lambda v: v.loss),
        (lambda t: Named(loss=t), lambda v: v.loss),
        (lambda t: torch.max(t.view(1, 2), dim=1), lambda v: v.values),
    ],
)
def test_every_structure_keeps_its_shape_and_lets_the_gradient_through(make, read):
    leaf = one()
    value = make(leaf * 2)
    made, count = poison(value)
    assert count == 1 and type(made) is type(value)
    assert read(made).isnan().all() and not read(value).isnan().any()
    read(made).sum().backward()
    assert leaf.grad.isnan().any()


def test_what_holds_no_such_number_stays_the_very_same():
    for value in (torch.arange(3), [torch.arange(3), "x"], {"a": None}, (1, 2), object(), None):
        assert poison(value) == (value, 0) if not isinstance(value, torch.Tensor) else poison(value)[0] is value


def test_types_and_whole_numbers_stay():
    made, count = poison(
        {"half": torch.ones(2, dtype=torch.bfloat16), "ids": torch.arange(2), "l": [one(), one()]}
    )
    assert count == 3 and made["half"].dtype == torch.bfloat16 and made["ids"].tolist() == [0, 1]
