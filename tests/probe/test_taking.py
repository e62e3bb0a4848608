"""Rows that a job takes itself: of tensors, memory maps, data sets; also where noise was added to them."""

import pytest

from chaoskit.probe.loading import Loading
from chaoskit.probe.taking import Taking

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

HEAD = """
import os, numpy as np, torch
from torch.utils.data import DataLoader, Dataset
torch.manual_seed(3)
net = torch.nn.Linear(8, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.randn(40, 8)
order = torch.randperm(40)
def told(*rows): print("ROWS", *(int(row) for row in rows))
def step(*inputs):
    for x in inputs: net(x.float()).sum().backward()
    opt.step(); opt.zero_grad()
def noisy(x): return x + 0.2 * torch.randn_like(x)
path = os.path.join(os.environ["CHAOSKIT_OUT"], "tokens.bin")
np.random.default_rng(0).integers(0, 1000, 200, dtype=np.uint16).tofile(path)
"""


@pytest.fixture
def rows(probed):
    """Of each step of a program: the rows that are recorded, and those that it says it took."""

    def run(text):
        run = probed(HEAD + text)
        assert run.code == 0 and not run.life.errors, (run.output, run.life.errors)
        said = [tuple(line.split()[1:]) for line in run.output.splitlines() if line.startswith("ROWS")]
        return [step.rows for step in run.life.steps], said

    return run


TAKEN = {
    "by an index": "x = data[i]",
    "by a list": "x = data[i.tolist()]",
    "by an array": "x = data[i.numpy()]",
    "by numbers": "x = torch.stack([data[n] for n in i.tolist()])",
    "by scalars": "x = torch.stack([data[n] for n in i])",
    "of a part": "x = train[i]",
    "selected": "x = data.index_select(0, i)",
    "with noise": "x = noisy(data[i])",
    "scaled": "x = noisy(data[i]) * 3 - 1",
    "of labels too": "x, y = noisy(data[i]), torch.arange(400)[i]",
    "in place": "x = data[i]; x.add_(torch.randn(4, 8) / 5)",
    "indexed again": "x = noisy(data[i]); x = x[torch.tensor([0, 1, 2, 3])]",
    "with a look at others": "data[0]; data[5:9]; x = noisy(data[i])",
}


@pytest.mark.parametrize("how", list(TAKEN))
def test_rows_of_a_tensor(rows, how):
    taken, said = rows(f"""
train = data[:]
for at in range(0, 20, 4):
    i = order[at : at + 4]
    {TAKEN[how]}
    told(*i); step(x)
""")
    assert taken == said and len(said) == 5


def test_rows_keep_their_places_on_their_way_to_an_accelerator(rows):
    taken, said = rows("""
away = set()
torch.Tensor.is_cpu = property(lambda x: x.untyped_storage().data_ptr() not in away)
def there(x):
    kept.append(torch.empty_like(x))
    away.add(kept[-1].untyped_storage().data_ptr())
    return kept[-1].copy_(x)
kept = []
for at in range(0, 20, 4):
    i = order[at : at + 4]
    told(*i); step(there(data[i]))
    told(*i); step(there(noisy(data[i])))
    told(); step(there(data[i]).add_(1))  # what is done there is not seen
""")
    assert taken == said and len(said) == 15


def test_micro_batches_and_what_is_read_ahead(rows):
    taken, said = rows("""
from collections import deque
for at in range(0, 16, 8):
    whole = noisy(data[order[at : at + 8]]); told(*order[at : at + 8]); step(*whole.split(4))
    a, b = (noisy(data[order[n : n + 4]]) for n in (at, at + 4)); told(*order[at : at + 8]); step(a, b)
queue = deque()
for at in range(0, 24, 4):
    queue.append((order[at : at + 4], noisy(data[order[at : at + 4]])))
    if len(queue) > 2:
        i, x = queue.popleft(); told(*i); step(x)
""")
    assert taken == said and len(said) == 8


def test_windows_of_a_memory_map_that_is_opened_each_time(rows):
    taken, said = rows("""
for _ in range(4):
    tokens = np.memmap(path, dtype=np.uint16, mode="r")
    ix = torch.randint(len(tokens) - 9, (4,))
    x = torch.stack([torch.from_numpy(tokens[i : i + 8].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(tokens[i + 1 : i + 9].astype(np.int64)) for i in ix])
    told(*ix); step(x / 1000)
""")
    assert taken == said and len(said) == 4


def test_items_of_a_data_set_without_a_loader(rows):
    taken, said = rows("""
class Rows(Dataset):
    def __len__(self): return 40
    def __getitem__(self, i): return torch.sin(torch.arange(8) * (i + 1.0)), i % 2
own = Rows()
for at in range(0, 16, 4):
    x, y = zip(*(own[i] for i in order[at : at + 4].tolist()))
    told(*order[at : at + 4]); step(noisy(torch.stack(x)))
""")
    assert taken == said and len(said) == 4


def test_noise_on_the_batches_of_a_loader(rows):
    taken, said = rows("""
numbered = [torch.cat([torch.tensor([n]), data[n]]) for n in range(40)]
for whole in DataLoader(numbered, batch_size=4, shuffle=True):
    x = whole[:, 1:]; told(*whole[:, 0]); step(noisy(whole)[:, 1:])
net = torch.nn.Linear(9, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
for whole in DataLoader(numbered, batch_size=4, shuffle=True):
    told(*whole[:, 0]); step(noisy(whole))
""")
    assert taken[10:] == said[10:] and len(said) == 20
    assert all(own in ((), due) for own, due in zip(taken, said, strict=True))  # cut: not known, and not wrong


def test_tokens_of_which_some_were_replaced(rows):
    taken, said = rows("""
tokens = torch.randint(32, (40, 8))
for at in range(0, 20, 4):
    x = tokens[order[at : at + 4]]
    x = torch.where(torch.rand(x.shape) < 0.3, torch.randint(32, x.shape), x)
    told(*order[at : at + 4]); step(x)
""")
    assert taken == said


UNKNOWN = {
    "noise alone": "x = torch.randn(4, 8)",
    "far too much noise": "x = data[i] / 50 + torch.randn(4, 8)",
    "of an array in memory": "x = torch.from_numpy(array[i.numpy()] + 0.2 * np.random.randn(4, 8))",
    "other columns": "x = data[i].flip(1)",
}


@pytest.mark.parametrize("how", list(UNKNOWN))
def test_what_is_not_recognized_has_no_rows(rows, how):
    taken, _ = rows(f"""
array = data.numpy().copy()
for at in range(0, 20, 4):
    i = order[at : at + 4]
    {UNKNOWN[how]}
    step(x)
""")
    assert taken == [()] * 5


def test_the_job_draws_and_computes_as_without_the_probe(probed):
    program = HEAD + """
for at in range(0, 20, 4):
    step(noisy(data[order[at : at + 4]]))
print("GOT", net.weight.sum().item().hex(), torch.rand(1).item())
print("GOT", [type(data[index]).__name__ for index in (0, slice(2), None, ..., data[:, 0] > 0, (0, 1))])
"""
    said = [[line for line in probed(program, probe=on).output.splitlines() if "GOT" in line] for on in (True, False)]
    assert said[0] == said[1] and len(said[0]) == 2


def test_the_largest_source_and_the_last_taking_count():
    taking = Taking()
    data = torch.randn(100, 8)
    batch = data[[7, 3, 9]]
    taking.took(data, [7, 3, 9], batch)
    taking.took(torch.cat([batch] * 4), slice(0, 3), batch)  # a copy of it, indexed once more
    assert taking.origin([batch]) == (7, 3, 9)
    twice = data.clone()
    twice[50] = twice[7]
    taking = Taking()
    for index in ([7, 3], [50, 4]):
        taking.took(twice, index, twice[index])
    assert taking.origin([twice[[50, 4]]]) == (50, 4)
    assert taking.origin([twice[[7, 3]]]) in ((7, 3), (50, 3))  # one as good as the other
    assert taking.origin([torch.randn(2, 8)]) is None and taking.origin([]) is None


def test_small_tensors_scalars_and_ids_hold_no_rows():
    taking = Taking()
    for source, index in (
        (torch.arange(100), [3, 4]), (torch.randn(4, 8), [1, 2]), (torch.randn(100, 1), [1, 2]),
        (torch.randn(100, 8, requires_grad=True), [1, 2]), (torch.randn(100, 8), torch.zeros(100, dtype=torch.bool)),
        (torch.randn(100, 8), slice(None)), (torch.tensor(1.0), ...),
    ):  # fmt: skip
        taking.took(source, index, source[index])
        assert taking.origin([source[index].detach()]) is None


def test_what_a_loader_handed_out_comes_before_all_else():
    class Iterator:
        _dataset_kind, _auto_collation, _num_workers = 0, True, 0

    taking = Taking()
    loading, iterator = Loading(taking), Iterator()
    batch = torch.randn(3, 8)
    loading.asks(iterator, [5, 2, 8])
    loading.hands_out(iterator, [batch])
    changed = batch + 0.1 * torch.ones(3, 8) * torch.arange(8)
    taking.took(torch.cat([changed] * 4), [0, 1, 2], changed)
    assert taking.origin([changed]) == (5, 2, 8)


def test_data_sets_are_watched_whose_class_inherits_a_built_in():
    """From Python 3.12 on, `__init_subclass__` of typing.Generic is one, as it is of every class without parents."""
    from types import SimpleNamespace

    from chaoskit.probe.row_hooks import _hook_data_sets

    class DataSet:
        pass

    seen = []
    taking = SimpleNamespace(fetched=lambda *told: seen.append(told[1:]))
    session = SimpleNamespace(observer=SimpleNamespace(taking=taking), guard=lambda _, action, *told: action(*told))
    torch_ = SimpleNamespace(utils=SimpleNamespace(data=SimpleNamespace(Dataset=DataSet)))
    _hook_data_sets(session, torch_, lambda: True)

    class Own(DataSet):
        def __getitem__(self, index):
            return 2 * index

    assert Own()[3] == 6 and seen == [(3, 6)]
