"""Strategies made from the schemas themselves: valid JSON of a type, the typed places in it, and damage to one of them.

What is not in a type, because the constructor of a class checks it, is in `OWN`.
"""

from __future__ import annotations

import copy
import math
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from hypothesis import strategies as st

from chaoskit.errors import CODES
from chaoskit.job import Job
from chaoskit.schema import DEEPEST, Like, OneOf, Range, file_name
from chaoskit.verdict import Outcome, Verdict

_WIDEST = 2**63 - 1


class Free:
    """As a type: JSON that a constructor checks, and no schema describes. Any place in it may be damaged."""


#: Short, with what a terminal, a path or a page may stumble over.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["", "x", "\x1b[31m[red]", "../../etc", "/dev/zero", "nan", "0", "-1", "\u202e", "a" * 300]
)
WHOLE, NUMBERS = st.integers(-_WIDEST, _WIDEST), st.floats(-1e18, 1e18, allow_nan=False)
FILE_NAMES = st.from_regex(r"[a-z0-9_][a-z0-9._-]{0,7}", fullmatch=True)
#: JSON of any kind.
ANYTHING = st.recursive(
    st.none() | st.booleans() | WHOLE | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
#: An example of each type that JSON has.
OF_TYPES: dict[str, tuple[Any, ...]] = {
    "null": (None,), "bool": (True, False), "int": (0, 1, -1, 7), "float": (0.5, -2.25), "text": ("", "x", "0", "pass"),
    "list": ([], [1], [None], [[]]), "object": ({}, {"a": 1}, {"": []}),
}  # fmt: skip


def _verdicts() -> st.SearchStrategy[Any]:
    """A pass has no code, anything else at least one."""
    codes = st.lists(st.sampled_from(sorted(CODES)), min_size=1, max_size=2)
    told = {"check": TEXTS, "sentence": TEXTS}
    more = {"evidence": st.dictionaries(TEXTS, ANYTHING, max_size=2), "weakness": st.booleans()}
    worse = [one.value for one in Outcome if one is not Outcome.PASS]
    return st.fixed_dictionaries({**told, "outcome": st.just("pass")}, optional=more) | st.fixed_dictionaries(
        {**told, "outcome": st.sampled_from(worse), "codes": codes}, optional=more
    )


_JOBS = (
    Job("train.py", ["--out", "{out}"], cwd="/x"), Job("train.py", nnodes="1:2", timeout=3.5, env={"A": "b"}, cwd="/x"),
    Job.from_command(["python", "{out}"], log_regex="(?P<step>.)(?P<loss>.)", log_file="x", cwd="/x", stops_with=3),
    Job("train.py", ["--out", "{out}"], cwd="/x", record_every=10),
)  # fmt: skip
#: By type: what its constructor wants besides.
OWN: dict[Any, st.SearchStrategy[Any]] = {
    Verdict: _verdicts(), Job: st.sampled_from([job.to_json() for job in _JOBS]),
}  # fmt: skip


def documents(kind: Any) -> st.SearchStrategy[Any]:
    """Valid JSON of a type, as `chaoskit.schema` describes them."""
    if kind in OWN:
        return OWN[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return ANYTHING
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin is Annotated:
        return _annotated(inner[0], inner[1:])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, types.UnionType):
        return st.one_of([documents(each) for each in inner])
    if origin is tuple and inner[-1] is not Ellipsis:
        return st.tuples(*map(documents, inner)).map(list)
    if origin in (tuple, Sequence, list):
        return st.lists(documents(inner[0]), max_size=3)
    if origin is frozenset:
        return st.lists(documents(inner[0]), max_size=3, unique=True)
    if origin in (Mapping, dict):
        keys = st.integers(0, 999).map(str) if inner[0] is int else documents(inner[0])
        return st.dictionaries(keys, documents(inner[1]), max_size=3)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from([each.value for each in kind])
    hints, needed = hints_of(kind), needed_of(kind)
    own = {name: documents(hint) for name, hint in hints.items()}
    return st.fixed_dictionaries(
        {name: one for name, one in own.items() if name in needed},
        optional={name: one for name, one in own.items() if name not in needed},
    )


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS, bool: st.booleans(), type(None): st.none(), int: WHOLE, float: NUMBERS | st.integers(-99, 99),
}  # fmt: skip


def _annotated(kind: Any, tests: Sequence[Any]) -> st.SearchStrategy[Any]:
    for test in tests:
        if isinstance(test, Range):
            if kind is int:
                return st.integers(math.ceil(test.least), math.floor(test.most))
            return st.floats(test.least, test.most) | st.integers(0, 99)
        if isinstance(test, OneOf):
            return st.sampled_from(test.words)
        if isinstance(test, Like):
            return documents(test.kind)
        if test is file_name:
            return FILE_NAMES
    raise TypeError(f"no strategy for {tests}: add one here")


def hints_of(kind: Any) -> dict[str, Any]:
    """The fields of a TypedDict or a dataclass that JSON has, with their types."""
    if not is_typeddict(kind) and not is_dataclass(kind):
        raise TypeError(f"no strategy for {kind!r}: add one here")
    hints = get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):
        hints = {each.name: hints[each.name] for each in fields(kind) if each.init}
    return {n: get_args(h)[0] if get_origin(h) in (Required, NotRequired) else h for n, h in hints.items()}


def needed_of(kind: Any) -> frozenset[str]:
    """Those that must be there."""
    if is_typeddict(kind):
        return frozenset(kind.__required_keys__)
    made = [each for each in fields(kind) if each.init]
    return frozenset(e.name for e in made if e.default is MISSING and e.default_factory is MISSING)


# Places.


@dataclass(frozen=True)
class Place:
    """A typed value inside a document: `holder[key]`, of the type `kind`, and how a message names it. `needed`: it must
    be there."""

    name: str
    holder: Any
    key: Any
    kind: Any
    needed: bool = False


def places(kind: Any, value: Any, name: str = "") -> Iterator[Place]:
    """The typed values inside a document of that type."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if kind is Free:
        keys = range(len(value)) if isinstance(value, list) else list(value) if isinstance(value, dict) else ()
        for key in keys:
            yield from _place(Place(f"{name}.{key}", value, key, Free))
        return
    if origin is Annotated:
        alike = next((test.kind for test in inner[1:] if isinstance(test, Like)), inner[0])
        yield from places(alike, value, name)
    elif origin in (Union, types.UnionType):
        fitting = [each for each in inner if json_type(value) in types_of(each)]
        if len(fitting) == 1:
            yield from places(fitting[0], value, name)
    elif isinstance(value, list):
        every = inner if origin is tuple and inner[-1] is not Ellipsis else (inner[0],) * len(value)
        for at in range(len(value)):
            yield from _place(Place(f"{name}[{at}]", value, at, every[at]))
    elif isinstance(value, dict):
        free = origin in (Mapping, dict)
        known = dict.fromkeys(value, inner[1]) if free else hints_of(kind)
        needed = frozenset() if free else needed_of(kind)
        for key in [each for each in value if each in known]:
            yield from _place(Place(f"{name}.{key}", value, key, known[key], key in needed))


def _place(place: Place) -> Iterator[Place]:
    yield place
    yield from places(place.kind, place.holder[place.key], place.name)


def json_type(value: Any) -> str:
    """Its type in JSON, whole numbers apart."""
    by_type = {
        type(None): "null", bool: "bool", int: "int", float: "float", str: "text", list: "list", dict: "object",
    }  # fmt: skip
    return by_type[type(value)]


def types_of(kind: Any) -> frozenset[str]:
    """The types of JSON that a value of this type may have."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or kind is Free:
        return frozenset(OF_TYPES) if kind is Any else frozenset()
    if origin is Annotated:
        return types_of(inner[0])
    if origin is Literal:
        return frozenset(map(json_type, inner))
    if origin in (Union, types.UnionType):
        return frozenset().union(*map(types_of, inner))
    if origin in (tuple, Sequence, list, frozenset):
        return frozenset(["list"])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return frozenset(["text"])
    plain = {str: ["text"], bool: ["bool"], type(None): ["null"], int: ["int"], float: ["int", "float"]}
    return frozenset(plain.get(kind, ["object"]))


# Damage.

#: A type is wrong more often than anything else.
WAYS = ("wrong type", "wrong type", "missing", "huge", "deep", "control characters", "wrapped")
#: No number of 64 bits, or no number.
_HUGE = (2**63, -(2**63) - 1, 10**30, 10**400, math.nan, math.inf, -math.inf)
_DEEP: Any = 1
for _ in range(DEEPEST + 5):
    _DEEP = [_DEEP]


@dataclass(frozen=True)
class Damage:
    """A document of a type after one change. If it `must_be_refused`, then by this `name`."""

    document: Any
    what: str
    name: str = ""
    must_be_refused: bool = False


@st.composite
def damaged(draw: st.DrawFn, kind: Any, valid: st.SearchStrategy[Any] | None = None) -> Damage:
    """A valid document with one wrong place, and whether a reader must refuse it."""
    document = copy.deepcopy(draw(documents(kind) if valid is None else valid))
    every = list(places(kind, document))
    whole = not every or draw(st.integers(0, 19)) == 0
    if whole:
        wrong = draw(st.sampled_from([v for t in OF_TYPES if t not in types_of(kind) for v in OF_TYPES[t]]))
        return Damage(wrong, "another document", "it", kind is not Free)
    place = draw(st.sampled_from(every))
    what = draw(st.sampled_from(WAYS))
    allowed = types_of(place.kind)
    name = place.name.lstrip(".")
    before = place.holder[place.key]
    must = False
    match what:
        case "wrong type" if others := [each for each in OF_TYPES if each not in allowed]:
            place.holder[place.key] = draw(st.sampled_from(OF_TYPES[draw(st.sampled_from(others))]))
            must = True
        case "missing":
            del place.holder[place.key]
            must = place.needed
            if must:
                name = f"lacks {place.key}"
        case "huge":
            value = draw(st.sampled_from(_HUGE))
            place.holder[place.key] = value
            # Of free JSON nobody knows what a number means, and NaN is one.
            must = place.kind is not Any or isinstance(value, int)
        case "deep":
            place.holder[place.key] = _DEEP
            must = "list" not in allowed or place.kind is Any
        case "control characters":
            place.holder[place.key] = "\x1b]0;\x07\x00\u202e"
            must = "text" not in allowed
        case _:
            place.holder[place.key] = [before]
            must = "list" not in allowed
    if what in ("deep", "huge"):  # it may be part of free JSON, which is named as a whole
        name = re.split(r"[.\[]", name)[0]
    return Damage(document, what, name, must and place.kind is not Free)
