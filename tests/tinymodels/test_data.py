"""Each sample once per epoch, over all ranks; the rest of an epoch, from any step on."""

import random

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tinymodels.config import Config
from tinymodels.elasticity.world import World
from tinymodels.tokens import Tokens
from tinymodels.train import Data

shapes = st.fixed_dictionaries(
    {
        "samples": st.integers(1, 60),
        "batch": st.integers(1, 5),
        "accumulate": st.integers(1, 4),
        "epochs": st.integers(1, 3),
    }
)


def make(rank, size, tmp_path="/nowhere", **flags):
    config = Config(out=tmp_path, context=3, **flags)
    # Each row is its own index: what is seen tells which sample it was.
    rows = torch.arange(config.samples).unsqueeze(1).repeat(1, 4)
    world = World(rank, size, torch.device("cpu"))
    return Data(Tokens(rows, vocabulary=config.samples), config, world)


def walk(data, stop=None):
    """The steps from here on: epoch, samples of the group, and what this rank sees of them."""
    steps = []
    while data.epoch < data.epochs:
        for group in data.groups():
            batches = [rows[:, 0].tolist() for rows in group.batches]
            steps.append((data.epoch, group.samples, batches))
            data.used(group)
            if len(steps) == stop:
                return steps
    return steps


@settings(deadline=None, max_examples=40)
@given(shapes, st.integers(1, 4))
def test_each_sample_once_per_epoch(shape, size):
    ranks = [walk(make(rank, size, **shape)) for rank in range(size)]
    for epoch in range(shape["epochs"]):
        mine = [[step for step in steps if step[0] == epoch] for steps in ranks]
        seen = [x for steps in mine for _, _, batches in steps for b in batches for x in b]
        assert sorted(seen) == list(range(shape["samples"]))
    # In step with each other: as many steps, and as many micro-batches in each, on every rank.
    for together in zip(*ranks, strict=True):
        assert len({(epoch, samples, len(batches)) for epoch, samples, batches in together}) == 1
        assert sum(len(b) for *_, batches in together for b in batches) == together[0][1]
    assert len(ranks[0]) == make(0, size, **shape).steps


@settings(deadline=None, max_examples=40)
@given(shapes, st.integers(1, 3), st.data())
def test_resumed_position_continues_the_walk(shape, size, draw):
    rank = draw.draw(st.integers(0, size - 1))
    whole = walk(make(rank, size, **shape))
    stop = draw.draw(st.integers(1, len(whole)))
    first = make(rank, size, **shape)
    walk(first, stop)
    second = make(rank, size, **shape)
    second.load_state_dict(first.state_dict())
    assert walk(second) == whole[stop:]


def test_epochs_are_shuffled_differently():
    data = make(0, 1, samples=50)
    assert data.order(0) != data.order(1) != list(range(50))


@pytest.mark.parametrize("workers", [0, 2])
def test_iterating_draws_nothing_from_the_global_streams(workers):
    before = (random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state())
    data = make(0, 1, samples=20, workers=workers)
    seen = walk(data)
    after = (random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state())
    assert before[:2] == after[:2] and torch.equal(before[2], after[2])
    assert seen == walk(make(0, 1, samples=20))


def test_the_language_has_structure_and_is_always_the_same():
    one = Tokens.language(400, 32, seed=1)
    assert torch.equal(one.rows, Tokens.language(400, 32, seed=1).rows)
    seen = {}
    hits = total = 0
    for row in one.rows.tolist():
        for a, b, c in zip(row, row[1:], row[2:], strict=False):
            if (a, b) in seen:
                hits, total = hits + (seen[a, b] == c), total + 1
            seen.setdefault((a, b), c)
    assert hits / total > 0.7


def test_text_is_cut_into_rows_that_share_a_byte(tmp_path):
    (tmp_path / "text").write_bytes(bytes(range(11)))
    tokens = Tokens.text(tmp_path / "text", 5)
    assert tokens.rows.tolist() == [[0, 1, 2, 3, 4, 5], [5, 6, 7, 8, 9, 10]]
    with pytest.raises(ValueError, match="holds 11 bytes: a row needs 21"):
        Tokens.text(tmp_path / "text", 20)
