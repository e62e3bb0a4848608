"""A part of the exam: some trainers of the gallery, each caught by its first experiment, with the right code.

`make gallery` is the whole of it.
"""

import contextlib
import importlib.util
import sys
import time
from pathlib import Path

import pytest

from chaoskit.cli import configuration
from tinymodels.gallery.catalogue import CRASH_STATES, mutants, sound

EXAM = Path(__file__).resolve().parents[1] / "benchmarks" / "gallery.py"
#: One of each kind of diagnosis, and quick; and all that are given notice.
CHOSEN = (
    "rng-missing", "sampler-epoch-zero", "optim-not-saved", "ema-hand-rolled-reset", "torn-overwrite",
    "no-checksum", "silent-scratch", "nan-through-clip", "sched-times-world", "fails-open", "debris-grows",
    "nan-to-num", "replica-unreduced", "average-exported", "notice-one-rank", "notice-in-handler", "notice-each-epoch",
    "notice-exits-0", "notice-overwrites", "notice-own-part", "loader-dies-of-notice", "notice-imdsv1",
    "notice-false-ends",
)  # fmt: skip

#: Those that `make test` has sit, too: state, and a torn checkpoint.
QUICKEST = ("rng-missing", "torn-overwrite")
#: Those that sit each night alone. Of notices that are got wrong, two others sit in CI. Three lose state in the
#: experiment in which others lose the same in CI: average-exported here, and the script of test_five_bugs.py, which
#: restores neither its optimizer nor its data.
NIGHTLY = (
    "sampler-epoch-zero", "optim-not-saved", "ema-hand-rolled-reset",
    "notice-in-handler", "notice-each-epoch", "notice-exits-0", "notice-overwrites", "notice-own-part",
    "loader-dies-of-notice", "notice-false-ends",
)  # fmt: skip


def when(slug):
    """The marks of a trainer's sitting."""
    return () if slug in QUICKEST else pytest.mark.exhaustive if slug in NIGHTLY else pytest.mark.slow


@pytest.fixture(scope="module")
def exam():
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("exam", EXAM)
    module = sys.modules["exam"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.launches
@pytest.mark.parametrize("slug", [pytest.param(slug, marks=when(slug)) for slug in CHOSEN])
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
    run = others.command(tmp_path, tmp_path / "answer.json", "auto")
    assert run[1:3] == ["run", "-k"] and "--no-proof" in run and "--no-proof" not in typed


def test_those_on_several_nodes_sit_in_containers_too(exam, tmp_path):
    (several,) = (one for one in mutants() if one.slug == "world-order")
    (alone,) = (one for one in mutants() if one.slug == "rng-missing")
    for one in exam.sittings([several, alone], every=(), controls=True, env="docker"):
        typed = one.command(tmp_path, tmp_path / "answer.json", "auto")
        assert one.in_containers is (one.nodes == "1:2")
        # The torchrun of the image, not that of this machine.
        assert one.in_containers is ("torchrun" in typed) is ("docker" in typed) and "netns" not in typed
    (tmp_path / "chaoskit.toml").write_text(exam.configuration("some:image"))
    found = configuration.read(tmp_path)
    assert (found.value("image"), found.value("mount")) == ("some:image", [f"{EXAM.parents[1]}:/repository:ro"])
    assert found.variables == {"PYTHONPATH": "/repository", **exam.SURROUNDINGS}


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


@pytest.fixture
def scripted(exam, monkeypatch):
    """The exam, in which nothing is run: good trainers fail the experiment `alarm`, and skip `skip`. Each sitting, and
    whether the machine was busy then."""
    sat, state = [], {"busy": False}

    @contextlib.contextmanager
    def busy():
        state["busy"] = True
        yield
        state["busy"] = False

    def sit(one, work, **told):
        sat.append((one, state["busy"]))
        words = {"alarm": "fail", "skip": "skipped"}
        answer = {"codes": [], "sentences": [], "seconds": 1.0}
        return {name: {**answer, "verdict": words.get(name, "pass")} for name in one.experiments}

    monkeypatch.setattr(exam, "busy", busy)
    monkeypatch.setattr(exam, "sit", sit)
    return sat


CHOSEN_TWO = [one for one in mutants() if one.slug in ("rng-missing", "ema-reset")]


def test_half_of_the_good_runs_are_under_load(exam, scripted):
    found = exam.examine(CHOSEN_TWO, workers=1, right=sound()[:1], each=20)
    assert found["clean_runs"] >= 20 and found["loaded_runs"] >= 20
    assert all(one.load == busy for one, busy in scripted)
    assert not any(one.load for one, _ in scripted if one.slug)
    assert {one.module for one, _ in scripted if one.load} == {"tinymodels.train", sound()[0].module}
    assert len({one for one, _ in scripted}) == len(scripted), "further runs are further turns"


def test_alarms_say_whether_there_was_load_and_what_is_skipped_is_no_run(exam, scripted):
    found = exam.examine(CHOSEN_TWO, workers=1, every=("alarm", "skip"), each=1)
    assert (found["clean_runs"], found["loaded_runs"], found["false_alarms"]) == (1, 1, 2)
    assert [alarm["load"] for alarm in found["alarms"]] == [False, True]
    text = exam.page(found)
    assert "2 false alarms in 2 runs of good trainers**: 1 in 1" in text and "under load" in text


def test_it_goes_on_where_it_was_interrupted(exam, scripted, tmp_path, monkeypatch):
    def examine():
        kept = exam.KeptAnswers(tmp_path / "answers.jsonl")
        return exam.examine(CHOSEN_TWO, workers=1, each=9, kept=kept)

    first = examine()
    sat = len(scripted)
    with (tmp_path / "answers.jsonl").open("a") as file:
        file.write('{"key": "cut sh')
    again = examine()
    assert len(scripted) == sat
    assert {**again, "seconds": 0} == {**first, "seconds": 0}
    monkeypatch.setattr(sys.modules["gallery_kept"], "_digest_of_all", lambda: "other sources")
    examine()
    assert len(scripted) == 2 * sat


def test_busy_processes_end(exam):
    busy = sys.modules["busy"]
    with busy.busy(processes=2):
        while len(spinning := [one for one in children() if "-I -S -c" in one[1]]) < 2:
            time.sleep(0.01)  # they are about to become what they run
    assert not [one for one in children() if one[0] in {pid for pid, _ in spinning}]


def children():
    """The pids and commands of this process's children."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            found.append((int(pid), command))
    return found
