"""Arguments are refused by their name, and what is valid comes back."""

import math

import pytest

from chaoskit import validation as v
from chaoskit.errors import UsageError


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda: v.check_number("f", "x", 2, over=0), 2.0),
        (lambda: v.check_number("f", "x", 0, least=0), 0.0),
        (lambda: v.check_number("f", "x", 100, over=0, most=100), 100.0),
        (lambda: v.check_number("f", "x", -1.5), -1.5),
        (lambda: v.check_whole("f", "x", -3), -3),
        (lambda: v.check_whole("f", "x", 5, least=5, most=5), 5),
        (lambda: v.check_size("f", "x", "500MB"), 500_000_000),
        (lambda: v.check_size("f", "x", " 1.5 gib "), 3 << 29),
        (lambda: v.check_flag("f", "x", False), False),
        (lambda: v.check_choice("f", "x", "a", ("a", "b")), "a"),
        (lambda: v.check_choices("f", "x", ["b", "a"], ("a", "b")), ("b", "a")),
        (lambda: v.check_strings("f", "x", ["a"]), ("a",)),
        (lambda: v.check_strings("f", "x", ()), ()),
        (lambda: v.check_pattern("f", "x", "*.pt", example="*"), "*.pt"),
        (lambda: v.check_errno("f", "x", "EIO"), "EIO"),
        (lambda: v.check_numbered("f", "x", (0, -1)), (0, -1)),
        (lambda: v.check_numbered("f", "x", "all", distinct=True), "all"),
    ],
)
def test_what_is_valid_comes_back(make, value):
    assert make() == value and type(make()) is type(value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: v.check_number("f", "x", 0, over=0), "f: x must be a positive number, not 0"),
        (lambda: v.check_number("f", "x", "1", over=0, most=9), "f: x must be a positive number up to 9, not '1'"),
        (lambda: v.check_number("f", "x", True), "f: x must be a finite number, not True"),
        (lambda: v.check_number("f", "x", math.inf), "f: x must be a finite number, not inf"),
        (lambda: v.check_number("f", "x", math.nan, least=0), "f: x must be a number from 0, not nan"),
        (lambda: v.check_number("f", "x", 1, least=0, below=1), "f: x must be a number from 0, below 1, not 1"),
        (lambda: v.check_number("f", "x", 2, over=2), "f: x must be a number over 2, not 2"),
        (lambda: v.check_whole("f", "x", 1.0), "f: x must be a whole number, not 1.0"),
        (lambda: v.check_whole("f", "x", True, least=1), "f: x must be a whole number from 1, not True"),
        (lambda: v.check_whole("f", "x", 9, least=1, most=8, also="None"),
         "f: x must be a whole number from 1 to 8 (or None), not 9"),
        (lambda: v.check_whole("f", "x", 2**63, least=1),
         "f: x must be a whole number from 1 to 9223372036854775807, not 9223372036854775808"),
        (lambda: v.check_whole("f", "x", -(2**63)),
         "f: x must be a whole number from -9223372036854775807 to 9223372036854775807, not -9223372036854775808"),
        (lambda: v.check_flag("f", "x", 1), "f: x must be True or False, not 1"),
        (lambda: v.check_choice("f", "x", "c", ("a", "b")), "f: x must be one of a, b, not 'c'"),
        (lambda: v.check_choices("f", "x", "ab", ("a", "b")), "f: x must be some of a, b, not 'ab'"),
        (lambda: v.check_choices("f", "x", (), ("a", "b")), "f: x must be some of a, b, not ()"),
        (lambda: v.check_choices("f", "x", ("a", "c"), ("a", "b")), "f: x must be some of a, b, not 'c'"),
        (lambda: v.check_strings("f", "x", "ab"), "f: x must be a list of strings, not 'ab'"),
        (lambda: v.check_strings("f", "x", [1]), "f: x must be a list of strings, not [1]"),
        (lambda: v.check_strings("f", "x", None), "f: x must be a list of strings, not None"),
        (lambda: v.check_pattern("f", "x", "", example="a/*"), "f: x must be a shell pattern like 'a/*', not ''"),
        (lambda: v.check_errno("f", "x", "EVIL"), "f: x must be the name of a system error like 'EIO', not 'EVIL'"),
        (lambda: v.check_numbered("f", "x", 0.5), "f: x must be a whole number, a tuple of them or 'all', not 0.5"),
        (lambda: v.check_numbered("f", "x", ()), "f: x must be a whole number, a tuple of them or 'all', not ()"),
        (lambda: v.check_numbered("f", "x", (1, 1), distinct=True),
         "f: x (1, 1) names one of them twice; name each once"),
    ],
)  # fmt: skip
def test_what_is_not_valid_is_named(make, message):
    with pytest.raises(UsageError) as raised:
        make()
    assert str(raised.value) == message
