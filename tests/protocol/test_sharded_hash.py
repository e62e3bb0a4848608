"""However a tensor is dealt out, the parts of the ranks add up to the same; whatever is changed in it changes that."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.probe.deferred import DeferredEvent
from chaoskit.protocol.sharded_hash import ROW, Shards, is_sharded, sum_of, whole_of
from tests.sharding import dealt, on_ranks

torch = pytest.importorskip("torch")

RING = 1 << 64
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)


def filled(shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randint(0, 1 << 30, shape, generator=generator)
    if dtype.is_complex:
        return torch.complex(whole.float(), -whole.float())
    return whole % 2 == 0 if dtype == torch.bool else whole.to(dtype)


def total(whole):
    return int(sum_of(whole, whole.shape, [0] * whole.dim())) % RING


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 40), st.integers(1, 9), st.lists(st.integers(0, 40), max_size=5), st.sampled_from(TYPES),
    st.integers(0, 1000),
)  # fmt: skip
def test_any_blocks_of_rows_add_up_to_the_whole(rows, columns, cuts, dtype, seed):
    whole = filled((rows, columns, 2), dtype, seed)
    bounds = [0, *sorted(min(cut, rows) for cut in cuts), rows]
    parts = [int(sum_of(whole[a:b], whole.shape, (a, 0, 0))) for a, b in pairwise(bounds) if a < b]
    assert sum(parts) % RING == (total(whole) if rows else 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 12), st.integers(0, 12), st.sampled_from(TYPES))
def test_blocks_of_columns_do_too(rows, columns, across, down, dtype):
    whole = filled((rows, columns), dtype)
    across, down = min(across, columns), min(down, rows)
    blocks = [
        (whole[a:b, c:d], (a, c))
        for a, b in ((0, down), (down, rows))
        for c, d in ((0, across), (across, columns))
    ]
    found = sum(int(sum_of(block, whole.shape, at)) for block, at in blocks if block.numel())
    assert found % RING == total(whole)


@pytest.mark.parametrize("at", [1, ROW - 1, ROW, ROW + 1, 2 * ROW, 3 * ROW + 17])
def test_rows_of_the_hash_may_be_cut_anywhere(at):
    whole = filled((4 * ROW + 5,))
    one, other = sum_of(whole[:at], whole.shape, [0]), sum_of(whole[at:], whole.shape, [at])
    assert (int(one) + int(other)) % RING == total(whole)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 30),
    st.integers(1, 9),
    st.data(),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_two_rows_that_change_places_change_it(rows, columns, data, dtype):
    whole = filled((rows, columns), dtype)
    a, b = data.draw(st.lists(st.integers(0, rows - 1), min_size=2, max_size=2, unique=True))
    if torch.equal(whole[a], whole[b]):
        return
    swapped = whole.clone()
    swapped[[a, b]] = whole[[b, a]]
    assert total(swapped) != total(whole)


def test_every_bit_counts_and_signs_do_not_cancel():
    whole = filled((2 * ROW + 3,), torch.float64)
    for place in (0, 1, ROW // 2, ROW - 1, 2 * ROW + 2):
        other = whole.clone()
        other[place] = -other[place] if other[place] else 1.0
        assert total(other) != total(whole)
    flipped = whole.clone()
    flipped[3], flipped[5] = -whole[3], -whole[5]
    assert total(flipped) != total(whole)


def test_tensors_that_change_places_change_it():
    one, other = filled((8, 3), seed=1), filled((8, 3), seed=2)
    assert dealt([one, other], 2) != dealt([other, one], 2)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_the_ranks_of_any_world_have_the_same_whole(ranks):
    """Seven rows on five ranks: the last one has none."""
    tensors = [filled((7, 3), seed=1), filled((2,), seed=2), filled((64, 5), torch.bfloat16, seed=3)]
    assert dealt(tensors, ranks) == dealt(tensors, 4)


def test_what_is_alike_on_every_rank_counts_once_and_is_compared():
    state = {"exp_avg": filled((7, 3)), "step": torch.tensor(4.0), "lr": 0.1}
    assert dealt(state, 2, plain=("step",)) == dealt(state, 3, plain=("step",))
    parts = on_ranks(state, 2, plain=("step",))
    other = on_ranks({**state, "step": torch.tensor(5.0)}, 2, plain=("step",))
    assert whole_of(parts) != whole_of(other) != whole_of([parts[0], other[1]]) != whole_of(parts)


def test_shards_that_are_replicated_count_once():
    whole = filled((8, 3))
    assert dealt([whole], 2, replicas=2) == dealt([whole], 4) == dealt([whole], 3)


def test_shards_of_another_dimension():
    whole = filled((6, 10))
    assert dealt([whole], 3, dim=1) == dealt([whole], 2)


def test_a_component_without_a_sharded_tensor():
    part = Shards()
    part.value([filled((3, 3)), "text"])
    assert part.count == 0 and not is_sharded(filled((3, 3)))


def test_what_lies_on_a_device_is_read_later():
    """Two numbers that a device owes: that of a plain tensor, and that of a sharded one."""
    part, plain = Shards(), Shards()
    part.reductions = [torch.tensor([5]), torch.tensor([-3])]
    part._late = {1}
    plain.reductions = [torch.tensor([5])]
    (found,), (alike,) = (
        list(DeferredEvent({"parts": {"model": one}}).settled()["parts"].values()) for one in (part, plain)
    )
    assert found.partition(":")[0] == f"{RING - 3:016x}" and found.partition(":")[2] == alike.partition(":")[2]


def test_a_plain_tensor_on_a_device_may_owe_several_numbers():
    part, alike = Shards(), Shards()
    part.reductions = [torch.tensor([5, 6, 7]), torch.tensor([-3])]
    part._late = {1}
    alike.reductions = [torch.tensor([5, 6, 7])]
    assert part.settled([5, 6, 7, -3]) == f"{RING - 3:016x}:{alike.settled([5, 6, 7]).partition(':')[2]}"


def test_it_runs_at_the_speed_of_memory():
    whole = filled((1 << 22,))
    total(whole)
    begun = time.perf_counter()
    total(whole)
    assert time.perf_counter() - begun < 1.0
