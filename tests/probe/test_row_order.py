"""The rows that a loader asks for, kept in one run and handed out in another."""

import pytest
from torch import arange
from torch.utils.data import DataLoader, TensorDataset

from chaoskit.probe.row_order import RowKeeper, RowOrder, kind_of


def loader(rows):
    return DataLoader(TensorDataset(arange(8)), batch_sampler=rows)


def kept(path, epochs):
    """The record of a run that trains on these batches, one a step."""
    keeper, position = RowKeeper(path), 0
    for epoch in epochs:
        iterator = iter(loader(epoch))
        # The loader runs ahead.
        for rows in epoch:
            keeper.asked(iterator, rows)
        for rows in epoch:
            keeper.trained(" ".join(map(str, rows)), position)
            position += 1
    return path.read_bytes()


EPOCHS = [[[0, 1], [2, 3], [4, 5]], [[5, 4], [3, 2], [1, 0]], [[1, 4], [0, 5], [2, 3]]]


def fed(order, way, asked):
    """The rows that iterators get which would themselves have asked for these."""
    found = []
    for rows in asked:
        iterator, own = iter(loader(rows)), iter(rows)
        got = []
        while True:
            try:
                ask = lambda own=own: next(own)  # noqa: E731
                got.append(order.of_epoch(iterator, ask) if way == "epoch" else order.flowing(ask))
            except StopIteration:
                break
        found.append(got)
    return found


def test_an_epoch_goes_on_in_its_middle_and_later_ones_follow(tmp_path):
    content = kept(tmp_path / "rows.jsonl", EPOCHS)
    order = RowOrder.read(content, 4)
    assert order.begun and order.kind == kind_of(iter(loader(EPOCHS[0])))
    # The job begins its epoch again, and then has one too many.
    assert fed(order, "epoch", [EPOCHS[0], EPOCHS[1], EPOCHS[2]]) == [[[3, 2], [1, 0]], EPOCHS[2], []]


def test_rows_flow_from_one_iterator_to_the_next(tmp_path):
    content = kept(tmp_path / "rows.jsonl", EPOCHS)
    assert fed(RowOrder.read(content, 4), "flow", [EPOCHS[0], EPOCHS[1]]) == [
        [[3, 2], [1, 0], [1, 4]],
        [[0, 5], [2, 3]],
    ]


def test_at_the_beginning_of_an_epoch_the_sampler_draws_what_it_draws_there(tmp_path):
    order = RowOrder.read(kept(tmp_path / "rows.jsonl", EPOCHS), 3)
    assert not order.begun
    calls = []

    def ask():
        calls.append(1)
        return [7]

    iterator = iter(loader(EPOCHS[0]))
    assert [order.of_epoch(iterator, ask) for _ in range(3)] == EPOCHS[1] and len(calls) == 1


def test_what_is_not_known_is_refused(tmp_path):
    content = kept(tmp_path / "rows.jsonl", EPOCHS)
    with pytest.raises(ValueError, match="step 10"):
        RowOrder.read(content, 9)
    # An iterator of the same kind that is not trained on.
    keeper = RowKeeper(tmp_path / "more.jsonl")
    first, second = iter(loader(EPOCHS[0])), iter(loader(EPOCHS[0]))
    keeper.asked(first, [0, 1])
    keeper.asked(second, [2, 3])
    keeper.trained("0 1", 0)
    with pytest.raises(ValueError, match="not trained on"):
        RowOrder.read((tmp_path / "more.jsonl").read_bytes(), 0)
