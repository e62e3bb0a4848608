"""Baselines: they are packed small and come back as they were, and name what was computed."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chaoskit.studies.nights.baseline import Baseline
from tests.history_writer import Writer
from tests.studies.nights.made import BASELINE

#: What columns hold: one word, several words, nothing, and what a fingerprint never is.
ENTRIES = st.one_of(
    st.none(),
    st.floats(allow_nan=True).map(lambda x: x.hex()),
    st.text(max_size=6),
    st.sampled_from(["a b", "", " ", "\t", "\x85"]),
)


def baselines(steps):
    column = st.lists(ENTRIES, min_size=steps, max_size=steps)
    return st.builds(
        Baseline,
        job=st.lists(st.text(max_size=4)).map(tuple),
        steps=st.just(steps),
        deterministic=st.booleans(),
        ranks=st.dictionaries(st.integers(0, 3), st.dictionaries(st.text(max_size=4), column), max_size=3),
        idle=st.lists(st.text(max_size=4)).map(tuple),
        settings=st.dictionaries(st.text(max_size=4), st.text(max_size=4)),
    )


BASELINES = st.integers(0, 5).flatmap(baselines)


def plain(baseline):
    """The same with lists, which packing does not tell from tuples."""
    ranks = {rank: {name: list(c) for name, c in columns.items()} for rank, columns in baseline.ranks.items()}
    return replace(baseline, ranks=ranks)


@given(BASELINES)
@example(
    replace(BASELINE, ranks={0: {"loss": ["\t", "x"], "ema": [None, None], "lr": ["", ""], "model": ["a b", "c"]}})
)
def test_it_survives_json(baseline):
    back = Baseline.from_json(json.loads(json.dumps(baseline.to_json())))
    assert plain(back) == plain(baseline)
    assert back.digest == baseline.digest


def test_a_column_of_words_is_one_text():
    packed = BASELINE.to_json()["ranks"]["0"]
    assert packed == {"loss": "0x1p+0 0x1p-1", "ema": [None, "ab"]}


def test_the_digest_is_of_what_was_computed():
    assert replace(BASELINE, job=("other.py",)).digest == BASELINE.digest
    assert replace(BASELINE, settings={"torch": "2.14"}).digest != BASELINE.digest
    other = {0: {**BASELINE.ranks[0], "loss": ("0x1p+0", "0x1p-2")}}
    assert replace(BASELINE, ranks=other).digest != BASELINE.digest


def test_it_is_what_the_reference_says():
    run = Writer(steps=6)
    reference = run.case().reference
    baseline = Baseline.of(reference, job=["train.py", "{out}"])
    assert (baseline.job, baseline.steps, baseline.world_size) == (("train.py", "{out}"), 6, reference.world_size)
    assert baseline.deterministic
    assert len(baseline.ranks[0]["loss"]) == 6
    assert baseline.ranks[0]["model"] == reference.controls[0].incarnations[0].ranks[0].steps.columns["model"]


@pytest.mark.parametrize("column", [7, None, {"a": 1}])
def test_a_column_that_is_none_is_refused(column):
    told = BASELINE.to_json()
    told["ranks"]["0"]["loss"] = column
    with pytest.raises(ValueError, match=r"ranks\.0\.loss must be a text or a list"):
        Baseline.from_json(told)


def test_a_column_that_is_too_short_is_refused():
    told = BASELINE.to_json()
    told["ranks"]["0"]["loss"] = ["0x1p+0"]
    with pytest.raises(ValueError, match=r"ranks\.0 does not have 2 steps"):
        Baseline.from_json(told)
