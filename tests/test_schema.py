"""What others may have written is checked against types: each error names the field, and nothing else gets through."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.protocol.event_schema import FIELDS, check_event
from chaoskit.schema import Count, FileName, Like, OneOf, Range, SchemaError, conform
from chaoskit.verdict import Outcome


@dataclass(frozen=True)
class Part:
    name: str
    sizes: tuple[int, ...] = ()


class Head(TypedDict):
    id: FileName


class Whole(Head, total=False):
    parts: list[Part]
    ranks: Mapping[int, str | None]


def test_a_value_that_conforms_has_the_types_of_the_annotation():
    told = {"id": "a", "parts": [{"name": "x", "sizes": [1, 2], "later": 1}], "ranks": {"0": None}, "more": [1]}
    made = conform(Whole, told)
    assert made == {"id": "a", "parts": [Part("x", (1, 2))], "ranks": {0: None}, "more": [1]}
    assert conform(Outcome, "pass") is Outcome.PASS
    assert conform(float, 3) == 3 and conform(tuple[str, int], ["a", 1]) == ("a", 1)
    assert math.isnan(conform(dict[str, Any], {"a": math.nan})["a"]), "of free JSON nobody knows what it means"


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (Whole, [], "it must be an object, not a list"),
        (Whole, {}, "it lacks id"),
        (Whole, {"id": "../x"}, "id must be the name of a file, not '../x'"),
        (Whole, {"id": "a\x1bb"}, "id must be the name of a file, not 'a\\x1bb'"),
        (Whole, {"id": "a", "parts": [{"name": "x"}, {"name": 3}]}, r"parts[1].name must be a text, not 3"),
        (Part, {"name": "x", "sizes": [True]}, "sizes[0] must be a whole number, not True"),
        (Whole, {"id": "a", "ranks": {"x": ""}}, "ranks.x must be named by a number"),
        (Whole, {"id": "a", "ranks": {"1": 2}}, "ranks.1 must be a text or null, not 2"),
        (int, 2**63, "it must be a number of 64 bits"),
        (float, 10**400, "it must be a finite number"),
        (float, math.nan, "it must be a finite number"),
        (float, "1", "it must be a number, not '1'"),
        (Count, -1, "it must be a number from 0, not -1"),
        (Annotated[int, Range(1, 3)], 4, "it must be a number from 1 to 3, not 4"),
        (Annotated[str, OneOf(("a", "b"))], "c", "it must be one of a, b, not 'c'"),
        (Annotated[Mapping[str, Any], Like(Head)], {}, "it lacks id"),
        (Literal["a", "b"], "c", "it must be one of 'a', 'b', not 'c'"),
        (tuple[str, int], ["a"], "it must be a list of 2, not a list"),
        (Sequence[str], "ab", "it must be a list, not 'ab'"),
        (Mapping[str, Any], {"a": {"b": 2**64}}, "a must be a number of 64 bits"),
        (str, None, "it must be a text, not None"),
        (int, "x" * 500, f"it must be a whole number, not {'x' * 60!r}"[:90]),
    ],
)
def test_what_does_not_conform_is_named(kind, value, said):
    with pytest.raises(SchemaError) as caught:
        conform(kind, value)
    assert str(caught.value).startswith(said)
    assert len(str(caught.value)) < 200


def test_free_json_is_not_nested_deeply():
    value: Any = 1
    for _ in range(40):
        value = [value]
    with pytest.raises(SchemaError, match="nested too deeply"):
        conform(dict[str, Any], {"a": value})


@pytest.mark.parametrize("kind", ["fault.applied", "fault.of a later version", "fault"])
def test_every_stage_of_a_fault_names_it(kind):
    check_event(kind, {"fault": 1, "evidence": {"rank": 0, "more": [1]}})
    with pytest.raises(SchemaError, match="it lacks fault"):
        check_event(kind, {})
    with pytest.raises(SchemaError, match="rank must be a whole number, not 'x'"):
        check_event(kind, {"fault": 1, "evidence": {"rank": "x", "component": "gradient", "n": 3}})
    with pytest.raises(SchemaError, match=r"saves\[0\] lacks n"):
        check_event(kind, {"fault": 1, "evidence": {"saves": [{"launch": 0, "restart": 0}]}})
    # Of another fault it means something else.
    check_event(kind, {"fault": 1, "evidence": {"rank": -1, "before": 2, "nodes": {"a": 1}, "gone": {"a": 1}}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_an_event_conforms_or_its_error_names_a_field(data):
    kind = data.draw(st.sampled_from(sorted(FIELDS)))
    needed, further = FIELDS[kind]
    names = st.sampled_from(sorted({*needed, *further, "other"}))
    try:
        check_event(kind, data.draw(st.dictionaries(names, JSON, max_size=6)))
    except SchemaError as error:
        assert any(name in str(error) for name in (*needed, *further, "evidence", "what")) or str(error)


@pytest.mark.parametrize(
    "kind", [Annotated[int, Range(0, 9)], Annotated[float, Range(-1, 9)], Annotated[int, Range(2**70, 2**71)]]
)
@pytest.mark.parametrize(
    "value",
    [0, 9, 10, -1, -0.5, 2.0, True, None, "1", [], 2**63, -(2**63), 2**80, math.nan, math.inf, -math.inf, 1e300],
)
def test_a_number_in_a_range_is_read_as_the_type_and_then_the_range(kind, value):
    """However short the way is that a right number takes."""
    base, test = get_args(kind)

    def slowly():
        test(conform(base, value))
        return value

    def said(read):
        try:
            return repr(read())
        except SchemaError as error:
            return str(error)

    assert said(lambda: conform(kind, value)) == said(slowly)
