"""A part of the exam: some trainers of the gallery, each caught by its first experiment, with the right code.

`make gallery` is the whole of it.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

from tinymodels.gallery.catalogue import CRASH_STATES, mutants

EXAM = Path(__file__).resolve().parents[1] / "benchmarks" / "gallery.py"
#: One of each kind of diagnosis, and quick.
CHOSEN = (
    "rng-missing", "sampler-epoch-zero", "optim-not-saved", "ema-hand-rolled-reset", "torn-overwrite",
    "no-checksum", "silent-scratch", "nan-through-clip", "sched-times-world", "fails-open", "debris-grows",
    "nan-to-num", "replica-unreduced",
)  # fmt: skip

#: Those that `make test` has sit, too: state, and a torn checkpoint.
QUICKEST = ("rng-missing", "torn-overwrite")


@pytest.fixture(scope="module")
def exam():
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("exam", EXAM)
    module = sys.modules["exam"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.launches
@pytest.mark.parametrize(
    "slug", [pytest.param(slug, marks=() if slug in QUICKEST else pytest.mark.slow) for slug in CHOSEN]
)
def test_a_broken_trainer_is_caught_and_named(exam, shared_store, slug):
    (mutant,) = (one for one in mutants() if one.slug == slug)
    # Warm from the first launch, where the good trainer has shown what to import: test_launching.py compares.
    alone = {"workers": 1, "controls": False, "store": shared_store.root, "launch": "warm"}
    found = exam.examine([mutant], every=mutant.caught_by[:1], **alone)
    (row,) = found["mutants"]
    answer = row["answers"][mutant.caught_by[0]]
    assert answer["verdict"] == "fail", answer
    assert set(mutant.codes) <= set(answer["codes"]) <= {*mutant.codes, *mutant.also}, answer


def test_what_crashes_leave_is_a_sitting_of_its_own(exam, tmp_path):
    (mutant,) = (one for one in mutants() if one.slug == "no-fsync")
    others, crashes = exam.sittings([mutant], every=(), controls=False)
    assert crashes.experiments == (CRASH_STATES,) and others.experiments == tuple(mutant.equivalent)
    typed = crashes.command(tmp_path, tmp_path / "answer.json", "auto")
    assert typed[1:4] == ["crash-states", "--visits", str(exam.VISITS)] and "-k" not in typed
    assert others.command(tmp_path, tmp_path / "answer.json", "auto")[1:3] == ["run", "-k"]


@pytest.mark.parametrize(
    ("kills", "named"), [({"exact": 9, "crashed": 0}, True), ({"exact": 8, "crashed": 1}, False)]
)
def test_what_is_safe_from_kills_must_be(exam, kills, named):
    (mutant,) = (one for one in mutants() if one.slug == "no-fsync")
    found = {
        "verdict": "fail",
        "codes": ["checkpoint-not-durable", "torn-checkpoint"],
        "profiles": {"kill": kills, "posix": {"exact": 3, "crashed": 4}},
        "stories": [{"text": "after the rename the data may be missing"}],
    }
    row = exam.Row(mutant, {CRASH_STATES: exam.of_crashes(found)})
    assert row.caught and row.named is named
