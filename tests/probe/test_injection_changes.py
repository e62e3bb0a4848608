"""What is done to the numbers of one tensor."""

import math
import random
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.probe.injection.changes import InjectionRefused, alter, bits_of, width

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
EIGHTS = [torch.float8_e4m3fn, torch.float8_e5m2]
WHOLE = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
MANTISSA = {
    torch.float64: 52, torch.float32: 23, torch.float16: 10, torch.bfloat16: 7,
    torch.float8_e4m3fn: 3, torch.float8_e5m2: 2,
}  # fmt: skip


def values(dtype, shape=(3, 5)):
    count = math.prod(shape)
    return (torch.arange(1, count + 1).reshape(shape) * (1 if dtype in WHOLE else 0.25)).to(dtype)


def raw(tensor):
    """The bits of every element, as Python's whole numbers without a sign."""
    size = tensor.element_size()
    return [bits % (1 << 8 * size) for bits in tensor.contiguous().view(INTEGERS[size]).view(-1).tolist()]


def differing(one, other):
    return [index for index, (a, b) in enumerate(zip(raw(one), raw(other), strict=True)) if a != b]


@settings(deadline=None, max_examples=200)
@given(
    dtype=st.sampled_from([*FLOATS, *EIGHTS, *WHOLE]),
    which=st.sampled_from(["exponent", "mantissa", "sign", "any"]),
    bits=st.integers(1, 3),
    elements=st.one_of(st.integers(1, 15), st.just("all")),
    seed=st.integers(0, 2**40),
)
def test_a_bit_flip_inverts_as_many_bits_of_as_many_elements_as_asked_for(dtype, which, bits, elements, seed):
    tensor = values(dtype)
    how = {"kind": "bitflip", "bits": bits, "which": which}
    try:
        allowed = bits_of(dtype, which)
        made = alter(tensor, how, elements=elements, seed=seed)
    except InjectionRefused as refused:
        names = {"exponent": 1, "mantissa": MANTISSA.get(dtype, 0), "sign": 1}
        assert dtype in WHOLE or names[which] < bits, refused
        return
    changed = differing(tensor, made.tensor)
    assert len(changed) == made.changed == (15 if elements == "all" else elements)
    for index in changed:
        flipped = raw(tensor)[index] ^ raw(made.tensor)[index]
        assert flipped.bit_count() == bits
        assert all(place in allowed for place in range(64) if flipped >> place & 1)
    assert made.tensor.dtype == dtype and made.tensor.shape == tensor.shape


@given(dtype=st.sampled_from(FLOATS), seed=st.integers(0, 100))
def test_the_bits_of_a_number_are_where_they_should_be(dtype, seed):
    everything = bits_of(dtype, "any")
    parts = [bits_of(dtype, which) for which in ("mantissa", "exponent", "sign")]
    assert [place for part in parts for place in part] == everything == list(range(width(dtype))) and len(
        parts[0]
    ) == MANTISSA[dtype]
    flipped = alter(values(dtype), {"kind": "bitflip", "which": "sign"}, elements=1, seed=seed)
    assert float.fromhex(flipped.after[0]) == -float.fromhex(flipped.before[0])


@given(bit=st.integers(0, 63))
def test_a_given_bit_is_the_one(bit):
    tensor = values(torch.float64)
    made = alter(tensor, {"kind": "bitflip", "bits": 5, "which": "sign", "bit": bit}, elements=1, seed=bit)
    (index,) = differing(tensor, made.tensor)
    assert raw(tensor)[index] ^ raw(made.tensor)[index] == 1 << bit
    before, after = (struct.pack("<d", float.fromhex(text)) for text in (made.before[0], made.after[0]))
    assert int.from_bytes(before, "little") ^ int.from_bytes(after, "little") == 1 << bit


@pytest.mark.parametrize("dtype", [*FLOATS, *EIGHTS])
def test_changes_of_floating_point_numbers(dtype):
    tensor = values(dtype)

    def made(how, elements=1, **more):
        return alter(tensor, how, elements=elements, seed=5, **more)

    nan = made({"kind": "nan"}, 4)
    assert nan.after == ["nan"] * 4 and not nan.finite and nan.changed == 4 and nan.of == 15
    if dtype == torch.float8_e4m3fn:
        with pytest.raises(InjectionRefused, match="float8_e4m3fn has no infinity"):
            made({"kind": "inf"})
    else:
        assert made({"kind": "inf"}).after == ["inf"]
    double = made({"kind": "scale", "factor": 2.0}, "all")
    assert torch.equal(double.tensor.double(), tensor.double() * 2) and double.finite
    assert made({"kind": "stuck", "value": 0.5}, 3).after == [(0.5).hex()] * 3
    assert not made({"kind": "zero"}, "all").tensor.double().any()
    noisy = made({"kind": "noise", "sigma": 0.5}, "all").tensor.double() - tensor.double()
    assert 0 < noisy.std() < 2 * tensor.double().std()
    bad = made({"kind": "bad"}, "all").tensor.double()
    assert tensor.double().min() <= bad.min() and bad.max() <= tensor.double().max()
    old = values(dtype).flip(0)
    assert torch.equal(made({"kind": "stale"}, "all", old=old).tensor.double(), old.double())


@pytest.mark.parametrize("dtype", WHOLE)
def test_changes_of_whole_numbers(dtype):
    tensor = values(dtype)
    for how in ({"kind": "nan"}, {"kind": "inf"}, {"kind": "scale", "factor": 2.0}, {"kind": "noise", "sigma": 1}):
        with pytest.raises(InjectionRefused, match="is for floating-point numbers, and it holds"):
            alter(tensor, how, elements=1, seed=0)
    with pytest.raises(InjectionRefused, match="has no exponent"):
        alter(tensor, {"kind": "bitflip", "which": "exponent"}, elements=1, seed=0)
    with pytest.raises(InjectionRefused, match="cannot hold"):
        alter(tensor, {"kind": "stuck", "value": 0.5}, elements=1, seed=0)
    assert alter(tensor, {"kind": "stuck", "value": 3.0}, elements=2, seed=0).after == ["3", "3"]
    bad = alter(tensor, {"kind": "bad"}, elements="all", seed=0).tensor
    assert set(bad.view(-1).tolist()) <= set(range(1, 16))


def test_the_tensor_itself_stays_and_so_do_the_jobs_generators():
    tensor, before = values(torch.float32), (torch.get_rng_state(), random.getstate())
    for how in ({"kind": "noise", "sigma": 0.1}, {"kind": "bad"}, {"kind": "bitflip"}):
        made = alter(tensor, how, elements=3, seed=1)
        again = alter(tensor, how, elements=3, seed=1)
        assert torch.equal(made.tensor, again.tensor) and not torch.equal(made.tensor, tensor)
    assert torch.equal(tensor, values(torch.float32))
    assert torch.equal(before[0], torch.get_rng_state()) and before[1] == random.getstate()


def test_it_says_where_and_what():
    made = alter(values(torch.float32), {"kind": "stuck", "value": 9.0}, elements=1, seed=5)
    assert made.tensor[made.at] == 9 and float.fromhex(made.before[0]) == values(torch.float32)[made.at]
    assert made.after == [(9.0).hex()] and made.dtype == "float32" and (made.changed, made.of) == (1, 15)


def test_an_element_that_would_not_change_is_passed_over():
    sparse = torch.zeros(50)
    sparse[7] = 2
    assert alter(sparse, {"kind": "scale", "factor": 3.0}, elements=1, seed=0).at == (7,)
    for tensor, how in (
        (torch.zeros(9), {"kind": "scale", "factor": 3.0}),
        (torch.zeros(9), {"kind": "zero"}),
        (-torch.zeros(9), {"kind": "zero"}),
        (torch.full((9,), math.nan), {"kind": "nan"}),
        (torch.full((9,), math.inf), {"kind": "inf"}),
        (torch.ones(9), {"kind": "stuck", "value": 1.0}),
        (torch.ones(9), {"kind": "bad"}),
    ):
        with pytest.raises(InjectionRefused, match="would change nothing"):
            alter(tensor, how, elements="all", seed=0)
    with pytest.raises(InjectionRefused, match="stale would change nothing"):
        alter(torch.ones(9), {"kind": "stale"}, elements="all", seed=0, old=torch.ones(9))
    # Of bits there is no such thing as no change.
    assert alter(torch.zeros(9), {"kind": "bitflip", "which": "sign"}, elements=1, seed=0).after == ["-0x0.0p+0"]


@pytest.mark.parametrize(
    ("tensor", "how", "says"),
    [
        (torch.ones(0, 3), {"kind": "nan"}, "this rank holds no element of it"),
        (torch.ones(3).to_sparse(), {"kind": "nan"}, "not a dense tensor"),
        (torch.ones(3, dtype=torch.bfloat16), {"kind": "bitflip", "bit": 16}, "bfloat16 has no bit 16"),
        (torch.ones(3), {"kind": "bitflip", "which": "sign", "bits": 2}, "float32 has 1 sign bits, not 2"),
        (torch.ones(3, dtype=torch.bool), {"kind": "bitflip", "bits": 2}, "bool has 1 bits, not 2"),
        (torch.full((3,), math.nan), {"kind": "noise", "sigma": 1.0}, "no finite number"),
        (torch.ones(3), {"kind": "melt"}, "there is no change 'melt'"),
    ],
)
def test_what_cannot_be_is_refused(tensor, how, says):
    with pytest.raises(InjectionRefused, match=says):
        alter(tensor, how, elements=1, seed=0)


def test_other_layouts_and_kinds_of_numbers():
    turned = values(torch.float32).t()
    made = alter(turned, {"kind": "stuck", "value": 99.0}, elements=1, seed=2)
    assert made.tensor.shape == (5, 3) and made.tensor[made.at] == 99
    assert (made.tensor != turned).sum() == 1
    wave = torch.ones(2, 2, dtype=torch.complex64)
    spot = alter(wave, {"kind": "nan"}, elements=1, seed=2)
    assert spot.of == 8 and len(spot.at) == 3 and torch.view_as_real(spot.tensor).isnan().sum() == 1
    one = alter(torch.tensor(2.0), {"kind": "noise", "sigma": 0.1}, elements="all", seed=2)
    assert one.at == () and one.before == [(2.0).hex()] and one.changed == one.of == 1


@pytest.mark.parametrize(
    "how", [{"kind": "bitflip", "which": "exponent"}, {"kind": "noise", "sigma": 0.5}, {"kind": "bad"}, {"kind": "nan"}]
)
def test_a_default_device_of_the_job_changes_nothing(how):
    value = values(torch.float32, (40, 5))
    plain = alter(value, how, elements=3, seed=1)
    with torch.device("meta"):
        found = alter(value, how, elements=3, seed=1)
    assert (found.before, found.after, found.at) == (plain.before, plain.after, plain.at)
