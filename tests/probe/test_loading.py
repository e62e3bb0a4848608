"""Which rows of the data set a step is of: as the loader asked for them, whatever becomes of the batch on its way."""

import pytest

from chaoskit.probe.loading import MOST, Loading

torch = pytest.importorskip("torch")

HEAD = """
import os, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
torch.manual_seed(3)
net = torch.nn.Linear(3, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.tensor([i, i + 0.5, 1.0])
def told(*batches):
    "The rows by what the data says of itself."
    print("ROWS", *(int(v) for x in batches for v in x[:, 0]))
def step(*inputs):
    for x in inputs:
        net(x).sum().backward()
    opt.step(); opt.zero_grad()
"""


@pytest.fixture
def rows(probed):
    """Of each step of a program: what is recorded, and what the data says."""

    def run(text):
        run = probed(HEAD + text)
        assert run.code == 0 and not run.life.errors, run.output
        said = [tuple(line.split()[1:]) for line in run.output.splitlines() if line.startswith("ROWS")]
        return [step.rows for step in run.life.steps], said

    return run


@pytest.mark.parametrize(
    "options", ["", "num_workers=2", "num_workers=2, persistent_workers=True", "drop_last=True"]
)
def test_the_rows_of_shuffled_batches(rows, options):
    seen, said = rows(
        f"""
loader = DataLoader(Rows(), batch_size=3, shuffle=True, {options})
for _ in range(2):
    for x in loader:
        told(x); step(x)
"""
    )
    assert seen == said and len(set(seen)) == len(seen) == (4 if "drop" in options else 6)


def test_what_of_a_batch_the_model_is_given(rows):
    seen, said = rows(
        """
class Long(Rows):
    def __getitem__(self, i): return {"x": torch.tensor([i, 0.0, 1.0, 2.0]), "y": torch.tensor(i)}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.inner = net
    def forward(self, batch, flag=True): return self.inner(batch["x"][:, :-1])
whole = Net()
for batch in DataLoader(Long(), batch_size=4, shuffle=True):
    x = batch["x"]
    told(x); step(x[:, :-1])  # inputs and targets, shifted
    told(x); step(x[:, 1:])
    told(x); step(x[:2, :-1], x[2:, :-1])  # micro-batches
    told(x[3:]); step(x[3:, :-1])
    told(x); step(*(part[:, :-1] for part in x.chunk(2)))
    told(x); whole(batch).sum().backward(); opt.step()
    told(x); whole({**batch, "more": torch.ones(4)}).sum().backward(); opt.step()
"""
    )
    assert seen == said and len(seen) == 14


def test_noise_that_a_model_is_given_beside_is_no_data(probed):
    run = probed(
        HEAD
        + """
for x in DataLoader(Rows(), batch_size=4):
    step(torch.randn(3, 3), x); step(x, torch.randn(2, 3)); step(x)
step(torch.randn(3, 3)); step(torch.randn(3, 3))
"""
    )
    assert not run.life.errors, run.output
    assert [step.rows for step in run.life.steps] == [tuple("0123")] * 3 + [tuple("4567")] * 3 + [()] * 2
    assert [len(step.samples) for step in run.life.steps] == [4] * 6 + [3] * 2
    one, _, _, two, _, _, *alone = [step.components["batch"] for step in run.life.steps]
    assert [step.components["batch"] for step in run.life.steps[:6]] == [one] * 3 + [two] * 3
    assert len({one, two, *alone}) == 4


def test_a_batch_that_was_copied_is_known_by_what_it_holds(rows):
    """Two workers are ahead of the training; a mask is the same in every batch."""
    seen, said = rows(
        """
class Masked(Rows):
    def __getitem__(self, i): return {"x": super().__getitem__(i), "mask": torch.ones(2)}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.inner = net
    def forward(self, mask, x): return self.inner(x)
whole = Net()
for _ in range(2):
    for batch in DataLoader(Masked(), batch_size=2, shuffle=True, num_workers=2):
        x, mask = batch["x"].clone(), batch["mask"].clone()
        del batch
        told(x); whole(mask, x).sum().backward(); opt.step()
"""
    )
    assert seen == said and len(seen) == 8


def test_copies_that_two_batches_may_be_of_are_not_taken_for_either(rows):
    seen, _ = rows(
        """
class Same(Rows):
    def __getitem__(self, i): return torch.ones(3)
for index in (range(4), range(4, 8)):
    kept = [x for x in DataLoader(Same(), batch_sampler=[[2 * i, 2 * i + 1] for i in index])]
for x in kept: step(x.clone())
"""
    )
    assert len(seen) == 4 and set(seen) == {()}


def test_of_what_was_changed_or_comes_from_a_stream_nothing_is_said(rows):
    seen, _ = rows(
        """
class Stream(IterableDataset):
    def __iter__(self): return iter(torch.ones(4, 3))
for x in DataLoader(Rows(), batch_size=4): step(x + 1)
for x in DataLoader(Stream(), batch_size=2): step(x)
for x in DataLoader(Stream(), batch_size=2, num_workers=2): step(x)
for x in DataLoader(Rows(), batch_size=None): step(x[None])
class Several(Rows):
    def __getitem__(self, index): return torch.stack([super(Several, self).__getitem__(i) for i in index])
for x in DataLoader(Several(), sampler=[[0, 1], [2, 3]], batch_size=None): step(x)
"""
    )
    assert seen[: 2 + 2 + 4] == [()] * 8
    # What the data set itself was asked for, one item after the other, is seen where it is taken.
    assert seen[8:] == [*((str(row),) for row in range(8)), ("0", "1"), ("2", "3")]


def test_memory_of_a_batch_that_died_holds_no_rows():
    class Iterator:
        _dataset_kind, _auto_collation, _num_workers = 0, True, 0

    def hand_out(rows):
        batch = torch.full((len(rows), 3), float(rows[0]))
        loading.asks(iterator, rows)
        loading.hands_out(iterator, [batch])
        return batch

    loading, iterator = Loading(), Iterator()
    first, second = hand_out([5, 2]), hand_out([1, 7])
    assert (loading.origin([first]).rows, loading.origin([second[1:]]).rows) == ((5, 2), (7,))
    assert loading.origin([torch.zeros(2, 3)]).rows is None
    # Another tensor comes to lie where the first did.
    loading._given[second.data_ptr()] = loading._given.pop(first.data_ptr())
    assert loading.origin([second]).rows == (5, 2)
    del first
    assert loading.origin([second]).rows == (1, 7)  # by what it holds
    kept = [hand_out([n]) for n in range(2 * MOST)]
    assert [loading.origin([each]).rows for each in (second, *kept)] == [None] * (MOST + 1) + [
        (n,) for n in range(MOST, 2 * MOST)
    ]


def test_batches_that_are_views_of_the_data_set_itself(rows):
    """What a collating function hands out unchanged lies where the data set does, not at the beginning of it."""
    seen, said = rows(
        """
data = torch.arange(24.0).view(8, 3) / 3
class Whole(Rows):
    def __getitems__(self, index): return data[index[0] : index[-1] + 1]
for x in DataLoader(Whole(), batch_sampler=[[0, 1, 2], [2, 3, 4, 5, 6]], collate_fn=lambda x: x):
    told(x[:2]); step(x[:2])
    told(x[1:]); step(x[1:])
"""
    )
    assert all(own in ((), due) for own, due in zip(seen, said, strict=True)), (seen, said)


EPOCHS = """
class Stateful(DataLoader):
    "As torchdata's is: its iterator is made in a way of its own."
    def __iter__(self): return self._get_iterator()
valid = DataLoader(Rows(), batch_size=8)
def evaluate():
    net.eval()
    for x in valid: net(x)
    net.train()
"""


@pytest.mark.parametrize("options", ["", "num_workers=2, persistent_workers=True"])
@pytest.mark.parametrize(
    "loop", ["step(x); evaluate()", "evaluate(); step(x)", "step(x[:2], x[2:])", "step(x.clone())"]
)
def test_epochs_are_where_an_iterator_begins_that_is_trained_on(probed, loop, options):
    run = probed(
        HEAD
        + EPOCHS
        + f"""
train = Stateful(Rows(), batch_size=4, {options})
for _ in range(3):
    evaluate()
    for x in train:
        {loop}
"""
    )
    assert run.life.epochs == [0, 2, 4] and len(run.life.steps) == 6 and not run.life.errors, run.output


#: Tensors that are marked stand in for those on an accelerator.
AWAY = """
away, kept = set(), []
torch.Tensor.is_cpu = property(lambda x: x.untyped_storage().data_ptr() not in away)
def buffer(*shape):
    kept.append(torch.empty(*shape))  # or other memory comes to lie there
    away.add(kept[-1].untyped_storage().data_ptr())
    return kept[-1]
"""


def test_a_batch_keeps_its_rows_on_its_way_to_an_accelerator(rows):
    seen, said = rows(
        AWAY
        + """
static = buffer(4, 3)
for x in DataLoader(Rows(), batch_size=4, shuffle=True):
    told(x); step(x.to(torch.float32, copy=True))
    own = buffer(4, 3).copy_(x)
    told(x); step(own)
    told(x[2:]); step(own[2:])
    told(x[1:3]); step(buffer(2, 3).copy_(x[1:3]))
    told(x); step(static.copy_(x))
    told(x); step(static.copy_(x.clone()))  # pinned memory is such a copy
    told(); step(static.mul_(2))  # it may hold whatever it was filled with since
    told(x); step(static.copy_(x)); told(); step(static.copy_(x + 1))
"""
    )
    assert seen == said and len(said) == 18
