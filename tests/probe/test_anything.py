"""Anything may come out of a data set, and whatever prepares it is no model."""

import collections
import dataclasses
from typing import Any

import pytest

from chaoskit.protocol.fingerprint import is_tensor, of_value

numpy = pytest.importorskip("numpy")

HEAD = """
import dataclasses, random, numpy as np, torch
from collections import namedtuple
from torch.utils.data import DataLoader, Dataset
class Image:
    "As a picture of pillow is: it describes its memory, and has neither a dtype nor a shape."
    def __init__(self, pixels): self.pixels, self.__dict__["im"] = pixels, object()
    @property
    def __array_interface__(self):
        return {"version": 3, "shape": self.pixels.shape, "typestr": self.pixels.dtype.str, "data": self.tobytes()}
    def tobytes(self): return self.pixels.tobytes()
class Flip(torch.nn.Module):
    def forward(self, image): return Image(image.pixels[::-1].copy()) if torch.rand(1).item() < 0.5 else image
class ToTensor(torch.nn.Module):
    def forward(self, image): return torch.from_numpy(image.pixels.astype(np.float32) / 255)
transform = torch.nn.Sequential(Flip(), ToTensor())
pixels = np.random.default_rng(0).integers(0, 255, (8, 3, 2), dtype=np.uint8)
torch.manual_seed(3)
net = torch.nn.Linear(6, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
def step(x):
    net(x.reshape(len(x), -1).float()).sum().backward(); opt.step(); opt.zero_grad()
"""


def steps(probed, text):
    run = probed(HEAD + text)
    assert run.code == 0 and not run.life.errors, (run.output, run.life.errors)
    return run.life.steps


@pytest.mark.parametrize("where", ["in the data set", "in the loop"])
def test_pictures_and_transforms_that_are_modules(probed, where):
    inside = where == "in the data set"
    loop = "step(x)" if inside else "step(torch.stack([transform(i) for i in x]))"
    made = steps(
        probed,
        f"""
class Pictures(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return {"transform(Image(pixels[i]))" if inside else "Image(pixels[i])"}
for x in DataLoader(Pictures(), batch_size=4, collate_fn={"None" if inside else "list"}):
    {loop}
""",
    )
    assert [len(step.samples) for step in made] == [4, 4]  # and not a picture each
    if inside:
        assert [step.rows for step in made] == [tuple("0123"), tuple("4567")]


RECORDS = """
Pair = namedtuple("Pair", "x name")
@dataclasses.dataclass
class Item:
    x: object
    words: list
class Plain:
    def __init__(self, x): self.x, self.me = x, self
class Odd:
    def __getattr__(self, name): raise RuntimeError(name)
rows = torch.from_numpy(pixels.astype(np.float32))
table = np.array([(i, i / 3) for i in range(8)], dtype=[("a", "i4"), ("b", "f8")])
class Records(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return i
def collate(index):
    x = rows[index].clone()
    return {made}
for batch in DataLoader(Records(), batch_size=4, collate_fn=collate):
    step({taken})
"""


@pytest.mark.parametrize(
    ("made", "taken", "known"),
    [
        ("x, ['a', 'b'], [[1], [2, 3], []]", "batch[0]", True),
        ("{'x': x, 'text': 'words', 'more': {'deep': [Odd()]}}", "batch['x']", True),
        ("Pair(x, 'who')", "batch.x", True),
        ("Item(x, ['a', ['b']])", "batch.x", True),
        ("Plain(x)", "batch.x", True),
        ("[x.numpy(), table[:4]]", "torch.from_numpy(batch[0])", True),
        # What lies in an array of objects is not looked for.
        ("np.array([x, 'ragged', None], dtype=object)", "batch[0]", False),
    ],
)
def test_records_of_any_kind(probed, made, taken, known):
    found = steps(probed, RECORDS.replace("{made}", made).replace("{taken}", taken))
    assert [len(step.samples) for step in found] == [4, 4]
    assert [step.rows for step in found] == ([tuple("0123"), tuple("4567")] if known else [(), ()])


def test_a_module_without_parameters_that_leads_to_a_loss_is_given_data(probed):
    made = steps(
        probed,
        """
weight = torch.nn.Parameter(torch.ones(6, 1))
class Bare(torch.nn.Module):
    def forward(self, x): return x.reshape(len(x), -1) @ weight
bare, own = Bare(), torch.optim.SGD([weight], lr=0.1)
x = torch.from_numpy(pixels.astype(np.float32))
for part in x.split(4):
    bare(part).sum().backward(); own.step()
""",
    )
    assert [len(step.samples) for step in made] == [4, 4]


def test_a_module_of_torchscript_in_training_mode_is_called_as_any_other(probed):
    made = steps(
        probed,
        """
whole = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(6, 1)))
own = torch.optim.SGD(whole.parameters(), lr=0.1)
whole(torch.ones(4, 6)).sum().backward(); own.step()
""",
    )
    assert [len(step.samples) for step in made] == [4]


@dataclasses.dataclass
class Record:
    a: Any
    b: Any = None


class Odd:
    def __getattr__(self, name):
        raise RuntimeError(name)


class Obliging:
    def __getattr__(self, name):
        return None


def structured(value):
    made = numpy.zeros(2, dtype=[("a", "i4"), ("b", "f8")])
    made["b"] = value
    return made


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Record(1), Record(2)),
        (structured(1), structured(2)),
        (structured(1)[0], structured(2)[0]),
        (numpy.array([[1], [2, 3]], dtype=object), numpy.array([[1], [2, 4]], dtype=object)),
        ([[1], [2, [3]]], [[1], [2, [4]]]),
        ({"a": ["x"]}, {"a": ["y"]}),
        (collections.deque([1]), collections.deque([2])),
        (numpy.array(["a"]), numpy.array(["b"])),
    ],
)
def test_what_holds_something_else_has_another_fingerprint(one, other):
    assert of_value(one) != of_value(other) and of_value(one) == of_value(one)


def test_what_holds_itself_or_answers_to_any_name_has_one_too():
    circle: list[Any] = [1]
    circle.append(circle)
    assert of_value(circle) == of_value(circle) != of_value([1])
    owner = Record(1)
    owner.b = owner
    assert of_value(owner) != of_value(Record(2, owner))
    assert of_value(Odd()) and of_value(Obliging()) and not is_tensor(Obliging())


def test_a_picture_of_pillow_counts_by_its_pixels():
    pillow = pytest.importorskip("PIL.Image")
    black, white = (pillow.new("RGB", (4, 4), colour) for colour in ("black", "white"))
    assert of_value(black) == of_value(black.copy()) != of_value(white)
