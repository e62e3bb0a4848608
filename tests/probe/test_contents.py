"""What a checkpoint holds depends on the values alone, and shows every one of them that can be told."""

import random
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest

from chaoskit.probe.contents import LONGEST, MOST, MOST_NONFINITE, contents, leaves, nonfinite
from chaoskit.protocol.fingerprint import of_value

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")


@dataclass
class Progress:
    step: int
    loss: float


def checkpoint():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng": {
            "torch": torch.get_rng_state(),
            "python": random.Random(1).getstate(),
            "numpy": numpy.random.RandomState(1).get_state(),
        },
        "progress": Progress(3, 0.5),
        "step": 15360,
        "best": float("inf"),
        "name": "x" * 100,
        "done": False,
        "nothing": None,
        "order": list(range(1000)),
        "raw": b"abc",
        "scalar": torch.tensor(0.1),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "view": torch.arange(12.0).view(3, 4).t(),
        "empty": torch.empty(0),
    }


def test_keys_are_paths_and_values_can_be_read():
    found = contents(checkpoint())
    assert found["step"] == "=15360" and found["progress.loss"] == f"={(0.5).hex()}"
    assert found["done"] == "=False" and found["nothing"] == "=None" and found["best"] == "=inf"
    assert len(found["name"]) == LONGEST
    assert found["optimizer.param_groups.0.betas.1"] == f"={(0.999).hex()}"
    for key in (
        "model.0.weight",
        "optimizer.state.0.exp_avg",
        "rng.torch",
        "order",
        "rng.python.1",
        "rng.numpy.1",
    ):
        assert len(found[key]) == 32 and found[key].isalnum(), key
    assert found["scalar"] == of_value(torch.tensor(0.1)) != of_value(0.1)


def test_what_comes_back_from_a_faithful_file_is_what_was_saved(tmp_path):
    saved = checkpoint()
    torch.save(saved, tmp_path / "file")
    loaded = torch.load(tmp_path / "file", weights_only=False)
    assert contents(loaded) == contents(saved) and len(contents(saved)) > 50
    loaded["optimizer"]["state"][0]["exp_avg"][0, 0] += 1e-6
    loaded["order"][17] += 1
    loaded["progress"].step += 1
    after, before = contents(loaded), contents(saved)
    assert {key for key in before if after[key] != before[key]} == {
        "optimizer.state.0.exp_avg", "order", "progress.step"
    }  # fmt: skip


def test_modules_and_optimizers_are_taken_apart_and_a_tensor_has_no_name():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    assert contents(model) == contents(model.state_dict())
    assert contents({"opt": optimizer}) == contents({"opt": optimizer.state_dict()})
    assert contents(torch.ones(2)) == {"": of_value(torch.ones(2))}


def test_the_hooks_of_a_state_dict_which_may_be_collective_are_not_run():
    model = torch.nn.Linear(2, 1)
    model.register_state_dict_post_hook(lambda *_: pytest.fail("would wait for the other ranks"))
    assert set(contents({"m": model})) == {"m.weight", "m.bias"}


def test_what_cannot_be_taken_apart_is_known_by_its_type():
    class Odd(dict):
        def items(self):
            raise RuntimeError("not for you")

    class Thing:
        def __getattr__(self, name):
            raise KeyError(name)

    itself = {"a": 1}
    itself["again"] = itself
    hollow = torch.ones(4)
    hollow.untyped_storage().resize_(0)
    pair = namedtuple("pair", "x y")(1, 2)
    objects = numpy.array([object()], dtype=object)
    value = {
        "odd": Odd(),
        "itself": itself,
        "thing": Thing(),
        "hollow": hollow,
        "f": print,
        "pair": pair,
        "o": objects,
    }
    assert contents(value) == {
        "odd": "=<Odd>", "itself.a": "=1", "itself.again": "=<dict>", "thing": "=<Thing>", "hollow": "=<Tensor>",
        "f": "=<builtin_function_or_method>", "pair.0": "=1", "pair.1": "=2", "o": "=<ndarray>",
    }  # fmt: skip
    assert nonfinite(value) == []


def test_there_is_an_end_to_it():
    assert len(contents({str(i): "x" for i in range(MOST + 5)})) == MOST
    assert len(nonfinite([float("nan")] * 60)) == MOST_NONFINITE


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64])
def test_numbers_that_are_not_finite_are_found(kind):
    fine, large = torch.ones(100, dtype=kind), torch.full((5000,), 60000.0).to(kind)
    for bad in (float("nan"), float("inf"), float("-inf")):
        broken = fine.clone()
        broken[37] = bad
        value = {
            "fine": fine,
            "large": large,
            "broken": broken,
            "number": bad,
            "list": [0.0] * 100 + [bad],
            "n": 3,
        }
        assert nonfinite(OrderedDict(value)) == ["broken", "number", "list"]


def test_large_finite_numbers_are_no_infinity_though_their_sum_is():
    assert nonfinite({"x": torch.full((100,), 3e38), "y": torch.full((100,), 3e38).bfloat16()}) == []


def test_looking_draws_no_random_number():
    value = checkpoint()
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tobytes()
    contents(value), nonfinite(value)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), numpy.random.get_state()[1].tobytes()) == before[1:]


def test_leaves_are_in_order():
    assert [key for key, _ in leaves({"b": [1, {"c": 2}], "a": 3})] == ["b.0", "b.1.c", "a"]
