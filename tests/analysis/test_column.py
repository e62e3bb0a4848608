"""Columns hold exactly what they were made of, however they are packed, and do what a list does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.analysis.record.column import Column, Packing, apart_among, first_apart, is_constant
from chaoskit.protocol.fingerprint import of_bytes

HASHES = [of_bytes(bytes([n])) for n in range(6)]
SAMPLES = [each[:16] for each in HASHES]
LOSSES = [float(x).hex() for x in (0.5, -0.0, 0.0, 1e-300, float("inf"), float("nan"))]
PLACES = ["0", "7", "31", "4294967294"]
#: Much that looks as if it could be packed, and cannot, or only as something else.
ODD = [
    "0" * 32, "f" * 16, "F" * 32, "0x1p+0", "0X1.0P+0", "-nan", "4294967295", "007", "٣", "-", "untouched",
    "tensor:abc", "a" * 31 + "\n", "0x1p+99999", "9" * 5000, "nan inf", f"{HASHES[0]}  {HASHES[1]}",
    f" {SAMPLES[0]}", f"{SAMPLES[0]} ",
]  # fmt: skip


def joined(words):
    """Values of several words, and of none."""
    return st.lists(st.sampled_from(words), max_size=4).map(" ".join)


def columns(blank):
    """Columns as records have them, and worse."""
    alike = [st.sampled_from(HASHES), joined(SAMPLES), joined(LOSSES), joined(PLACES)]
    odd = st.sampled_from([*HASHES[:2], *SAMPLES[:2], *LOSSES[:2], *PLACES[:2], *ODD]) | st.text(max_size=3)
    return st.one_of([st.lists(one | st.just(blank), max_size=30) for one in (*alike, st.one_of(*alike, odd))])


@pytest.mark.parametrize("blank", [None, ""])
@given(data=st.data())
def test_it_is_the_list_that_it_was_made_of(blank, data):
    values = data.draw(columns(blank))
    column = Column.of(values, blank=blank)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(values))] * 2)))
    for own, wanted in ((column, values), (column[start:end], values[start:end])):
        assert list(own) == wanted and [own[at] for at in range(len(own))] == wanted and len(own) == len(wanted)
        assert own == wanted and wanted == own and own != [*wanted, "more"]
        assert is_constant(own) == is_constant(wanted) == (len(set(wanted)) == 1)
        for value in {*values, None, "", *HASHES[:1], *LOSSES[:1], *ODD}:
            assert (value in own) == (value in wanted), value
            assert (own.index(value) if value in own else None) == (
                wanted.index(value) if value in wanted else None
            )
    with pytest.raises(IndexError):
        column[len(values)]


@given(columns(None), columns(None), st.data())
def test_two_columns_differ_where_their_lists_do(one, other, data):
    """Of columns that are packed in different ways too, and of pieces."""
    other = data.draw(st.sampled_from([other, [*one[:3], *other[3:]], list(one)]))
    count = min(len(one), len(other))
    start = data.draw(st.integers(0, count))
    limit = data.draw(st.integers(1, 40))
    wanted = [at for at, (a, b) in enumerate(zip(one[start:count], other[start:count], strict=True)) if a != b]
    a, b = Column.of(one)[start:count], Column.of(other)[start:count]
    for left, right in (
        (a, b),
        (a, other[start:count]),
        (one[start:count], b),
        (one[start:count], other[start:count]),
    ):
        assert first_apart(left, right, limit=limit) == wanted[:limit]
        assert (left == right) == (not wanted)


def test_where_long_columns_differ():
    values = [of_bytes(f"{n}".encode()) for n in range(2000)]
    column = Column.of(values)
    changed = [HASHES[0] if at in (700, 701, 1999) else value for at, value in enumerate(values)]
    assert first_apart(column, Column.of(changed), limit=2000) == [700, 701, 1999]
    assert first_apart(column, Column.of(changed)) == [700]
    assert column.index(values[1500], 1000) == 1500
    with pytest.raises(ValueError):
        column.index(values[1500], 1501)


def test_a_value_is_not_found_between_two_others():
    """Bytes that lie across the border of two values are none."""
    a, b = "0123456789abcdef" * 2, "fedcba9876543210" * 2
    across = (a + b)[2:34]
    assert across not in Column.of([a, b]) and across in Column.of([a, b, across])


@given(columns(""), columns(""), st.sampled_from([*HASHES, *SAMPLES, *LOSSES, *ODD, ""]))
def test_a_longer_column(values, like, more):
    column = Packing().column(values, blank="", like=Column.of(like, blank=""))
    assert list(column.plus(more)) == [*values, more] and list(column) == values


@pytest.mark.parametrize(
    ("values", "size"),
    [
        (HASHES * 10, 16),
        ([None, *HASHES], 16),
        ([" ".join(SAMPLES[:4])] * 9 + [SAMPLES[0]], 32),
        (LOSSES * 3, 8),
        (["1 2 3 4", "5 6 7 4000000000"], 16),
    ],
)
def test_how_small_it_is(values, size):
    column = Column.of(values)
    assert isinstance(column.cells, bytes) and len(column.cells) == size * len(values)


def test_one_long_value_does_not_blow_it_up():
    """Of a damaged or hostile record: each value would take the place of the longest."""
    values = [" ".join(SAMPLES[:1] * 10_000), *SAMPLES * 500]
    column = Column.of(values)
    assert isinstance(column.cells, tuple) and list(column) == values


def test_equal_columns_are_kept_once():
    packing = Packing()
    one, other = packing.column(HASHES), packing.column(list(HASHES))
    assert one.cells is other.cells
    piece = packing.column(HASHES[2:5], like=one)
    assert piece.cells is one.cells and list(piece) == HASHES[2:5]
    assert packing.column([*HASHES[2:5], HASHES[0]], like=one).cells is not one.cells
    assert list(packing.column(SAMPLES, like=one)) == SAMPLES


FEW = [None, "", "0" * 32, "a" * 32, "b" * 32]


@given(
    values=st.lists(st.sampled_from([*FEW, "untouched", "A" * 32]), min_size=1, max_size=40),
    other=st.lists(st.sampled_from(FEW), min_size=40, max_size=40),
    filler=st.integers(0, 60),
    places=st.sets(st.integers(0, 39)),
)
def test_columns_are_compared_at_some_places_however_they_are_packed(values, other, filler, places):
    """Many that have no value are kept as texts, and those beside them as bytes."""
    one, two = [*values, *[None] * filler], [*other[: len(values)], *["c" * 32] * filler]
    at = sorted(place for place in places if place < len(values))
    apart = [place for place in at if one[place] != two[place]]
    for a in (one, Column.of(one)):
        for b in (two, Column.of(two)):
            assert list(apart_among(a, b, at)) == apart
