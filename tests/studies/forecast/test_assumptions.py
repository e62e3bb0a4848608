"""The assumptions: every default has a source and can be written as a user writes it; what cannot be is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.errors import UsageError
from chaoskit.studies.forecast.assumptions import ASSUMPTIONS, duration, parse, size


@pytest.mark.parametrize("name", ASSUMPTIONS)
@pytest.mark.parametrize("gpus", [1, 1024, 100_000])
def test_the_argument_that_states_a_default_gives_it_back(name: str, gpus: int):
    known = ASSUMPTIONS[name]
    value = known.default_for(gpus)
    option, _, given = known.written(value).partition(" ")
    assert option == "--assume" and known.source and known.text and known.shown(value)
    assert parse([given]) == {name: pytest.approx(value, rel=1e-3)}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("relaunch", "write NAME=VALUE"),
        ("relaunch=", "write NAME=VALUE"),
        ("relanch=5m", "did you mean 'relaunch'"),
        ("relaunch=-5", "relaunch must be a time"),
        ("relaunch=nan", "relaunch must be a time"),
        ("relaunch=inf", "relaunch must be a time"),
        ("relaunch=1e30", "relaunch must be a time"),
        ("relaunch=99999999999s", "relaunch must be at most"),
        ("bandwidth=100", "bandwidth must have a unit"),
        ("checkpoint-size=1e30TB", "checkpoint-size must have a unit"),
        ("checkpoint-size=99999999999TB", "checkpoint-size must be at most"),
        ("spares=-1", "spares must be a number from 0"),
        ("spares=2.5", "spares must be a number"),
        ("spares=nan", "spares must be a number"),
        ("failed-recoveries=1.5", "failed-recoveries must be a number from 0 up to 1"),
        ("failed-recoveries=nan", "failed-recoveries must be"),
        ("elastic=maybe", "elastic must be yes or no"),
        ("shape=1e30", "shape must be"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: str, sentence: str):
    with pytest.raises(UsageError, match=sentence):
        parse([given])


def test_one_that_is_given_twice_is_refused():
    with pytest.raises(UsageError, match="spares is given twice"):
        parse(["spares=1", "spares=2"])


def test_zero_is_a_time():
    assert parse(["memory-interval=0", "spare-joins=0s"]) == {"memory-interval": 0.0, "spare-joins": 0.0}


@given(st.sampled_from(sorted(ASSUMPTIONS)), st.text(max_size=12))
def test_any_text_is_a_number_or_a_sentence(name: str, text: str):
    try:
        (value,) = parse([f"{name}={text}"]).values()
    except UsageError:
        return
    assert 0 <= value <= ASSUMPTIONS[name].most


def test_numbers_for_people():
    assert [duration(each) for each in (0.25, 90, 1200, 7 * 3600, 3 * 86400, 5e8)] == [
        "0.25 s", "90 s", "20 min", "7 h", "3 days", "5,787 days",
    ]  # fmt: skip
    assert [size(each) for each in (500, 2e6, 3.5e9, 1e12)] == ["0.5KB", "2MB", "3.5GB", "1TB"]
