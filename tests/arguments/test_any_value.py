"""Every argument of every public callable, with values that its annotation suggests: refused by name, or accepted as
it fits. No other exception, whatever the value is. `test_every_argument.py` has the table of the usual mistakes.
"""

import pytest
from hypothesis import strategies as st

from chaoskit.errors import UsageError
from tests.arguments.any_values import values_for
from tests.arguments.calls import call, every_call
from tests.arguments.survey import GOOD, ending
from tests.stored.holding import COUNTS, hold


def drawn(of):
    """The name of an argument, and a value for it."""
    hints = {name: hint for name, hint in of.hints.items() if name != "return"}
    return st.sampled_from(sorted(hints)).flatmap(lambda name: st.tuples(st.just(name), values_for(hints[name])))


def is_named_or_fits(of, one):
    """The property of one call."""
    argument, given = one
    found = ending(of, argument, given.value)
    if found is None:
        return "would run"
    assert found.how in GOOD, str(found)
    return found.how


@pytest.mark.parametrize("of", list(every_call()), ids=lambda of: of.name)
def test_any_value_is_refused_by_name_or_fits(of):
    if len(of.hints) > ("return" in of.hints):
        hold(of.name, drawn(of), lambda one: is_named_or_fits(of, one), examples=10)


@pytest.mark.slow
def test_many_values_are_refused_by_name_or_fit():
    for of in every_call():
        if len(of.hints) > ("return" in of.hints):
            hold("arguments", drawn(of), lambda one, of=of: is_named_or_fits(of, one), examples=80)
    print(f"\n{sum(COUNTS.values())} values", *(f"{count:>7}  {what}" for what, count in COUNTS.items()), sep="\n")


def raw(*, rank: int) -> int:
    return rank + 1


def unnamed(*, rank: int) -> int:
    if type(rank) is not int:
        raise UsageError("raw: that is wrong")
    return rank


def trusting(*, rank: int) -> None:
    pass


def forgetful(*, rank: int) -> int:
    if type(rank) is not int or rank == 2**63:
        raise UsageError("forgetful: rank must be small") if type(rank) is not int else OverflowError("too large")
    return rank


@pytest.mark.parametrize("broken", [raw, unnamed, trusting, forgetful], ids=lambda broken: broken.__name__)
def test_the_property_sees_a_broken_validator(broken):
    of = call(broken.__name__, broken)
    with pytest.raises(AssertionError):
        hold("broken", drawn(of), lambda one: is_named_or_fits(of, one), examples=400, shrink=False)
