"""A fingerprint is shared by values that are the same to the bit, and by no others."""

import struct
from collections import OrderedDict
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chaoskit.protocol.fingerprint import CHUNK, Fingerprint, of_bytes, of_value, reduce_on_device, settle

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def reduced(tensor):
    return [int(number) for number in reduce_on_device(tensor)]


@given(values)
def test_the_same_value_has_the_same_fingerprint(value):
    assert of_value(value) == of_value(value)


@given(st.floats(), st.floats())
def test_floats_differ_by_their_bits(one, other):
    assume(struct.pack("d", one) != struct.pack("d", other))
    assume(not (one != one and other != other))
    assert of_value(one) != of_value(other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_bit_anywhere_shows(kind):
    tensor = torch.zeros(37, 3, dtype=kind)
    for place in (0, 55, 110):
        changed = tensor.clone()
        changed.view(-1)[place] = 1
        assert of_value(changed) != of_value(tensor)
        assert reduced(changed) != reduced(tensor)


def test_type_shape_and_sign_of_zero_count():
    tensor = torch.zeros(4)
    assert of_value(tensor) != of_value(tensor.view(2, 2))
    assert of_value(tensor) != of_value(tensor.to(torch.int32))
    assert of_value(tensor) != of_value(-tensor)
    assert of_value(torch.tensor([float("nan")])) == of_value(torch.tensor([float("nan")]))


def test_how_a_tensor_lies_in_memory_does_not_count():
    tensor = torch.arange(12.0).view(3, 4)
    assert of_value(tensor.t().contiguous().t()) == of_value(tensor)
    assert of_value(torch.arange(24.0).view(3, 8)[:, ::2]) == of_value(
        (torch.arange(24.0).view(3, 8)[:, ::2]).clone()
    )
    assert of_value(tensor.to_sparse()) == of_value(tensor.clone().to_sparse())


def test_a_step_count_means_the_same_as_a_number_and_as_a_tensor():
    assert of_value(3) == of_value(3.0) == of_value(torch.tensor(3.0)) == of_value(torch.tensor(3))
    assert of_value(2**60) != of_value(2**60 + 1)


def test_the_order_of_keys_does_not_count_and_that_of_lists_does():
    assert of_value({"a": 1, "b": 2}) == of_value(OrderedDict([("b", 2), ("a", 1)]))
    assert of_value([1, 2]) != of_value([2, 1])
    assert of_value({"a": [1]}) != of_value({"a": [], "b": 1})


def test_records_arrays_and_strangers():
    @dataclass
    class Batch:
        x: object

    assert of_value(Batch(torch.ones(2))) == of_value(Batch(torch.ones(2))) != of_value(Batch(torch.zeros(2)))
    assert of_value(numpy.ones(3)) != of_value(numpy.zeros(3))
    assert of_value(object()) == of_value(object())  # an address is no data


def test_what_is_left_out_does_not_count():
    def fingerprint(tensor):
        made = Fingerprint()
        made.value([tensor, 1], skip=lambda t: t.requires_grad)
        return made.hexdigest()

    assert fingerprint(torch.ones(2, requires_grad=True)) == fingerprint(torch.zeros(2, requires_grad=True))
    assert fingerprint(torch.ones(2)) != fingerprint(torch.zeros(2))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=50), st.data())
def test_the_reduction_knows_places(numbers, data):
    i = data.draw(st.integers(0, len(numbers) - 1))
    j = data.draw(st.integers(0, len(numbers) - 1))
    assume(numbers[i] != numbers[j])
    swapped = list(numbers)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    one, other = (torch.tensor(each, dtype=torch.int32) for each in (numbers, swapped))
    assert reduced(one) != reduced(other)


def test_the_reduction_of_constant_tensors_differs_and_long_ones_come_in_chunks():
    # An exclusive-or over words, or a plain sum, takes many of these for equal.
    fills = [reduced(torch.full((1024,), value)) for value in (0.0, 1.0, -1.0, 2.0)]
    assert len({tuple(each) for each in fills}) == 4
    long = torch.ones(CHUNK + 5)
    assert len(reduced(long)) == 2
    moved = long.clone()
    moved[0], moved[-1] = 2.0, 0.0
    assert reduced(moved) != reduced(long)
    assert reduced(torch.empty(0)) == []


def test_what_a_device_delivers_joins_the_rest():
    assert settle("abc", ()) == "abc"
    assert settle("abc", (1, 2)) != settle("abc", (2, 1)) != settle("abd", (2, 1))
    assert len(of_bytes(b"")) == 32


def test_wrappers_without_memory_are_read_through_and_what_cannot_be_read_is_an_error():
    from torch.testing._internal.two_tensor import TwoTensor

    def wrapped(value):
        return TwoTensor(torch.full((3,), value), torch.ones(3))

    assert of_value(wrapped(1.0)) == of_value(wrapped(1.0)) != of_value(wrapped(2.0))
    hollow = torch.ones(4)
    hollow.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="no memory"):
        of_value(hollow)


def test_on_a_device_too_nothing_is_read_that_has_no_memory(monkeypatch):
    from torch.testing._internal.two_tensor import TwoTensor

    monkeypatch.setattr(torch.Tensor, "is_cpu", False, raising=False)

    def settled(tensor):
        made = Fingerprint()
        made.tensor(tensor)
        return made.settled([int(number) for number in made.reductions])

    one, two = (TwoTensor(torch.ones(3), torch.full((3,), value)) for value in (1.0, 2.0))
    assert settled(one) != settled(two)
    assert settled(torch.eye(3).to_sparse()) != settled(torch.ones(3, 3).to_sparse())
    hollow = torch.ones(4)
    hollow.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="no memory"):
        settled(hollow)


def test_the_reduction_does_not_depend_on_where_in_memory_a_tensor_begins():
    whole = torch.arange(9, dtype=torch.uint8)
    assert reduced(whole[1:]) == reduced(whole[1:].clone())
    assert reduced(torch.ones(9, dtype=torch.bfloat16)[1:]) == reduced(torch.ones(8, dtype=torch.bfloat16))


def test_conjugates_differ_and_meta_tensors_have_a_shape_only():
    tensor = torch.tensor([1 + 2j, 3 - 1j])
    assert of_value(tensor) != of_value(tensor.conj()) == of_value(tensor.conj().resolve_conj())
    assert of_value(torch.empty(3, device="meta")) != of_value(torch.empty(4, device="meta"))
