"""Real jobs, run in windows and whole: the same verdicts, or no window."""

import json
import re
import sys
from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner, stored
from chaoskit.engine.windows.audits import SessionAudits
from chaoskit.engine.windows.kept_outs import OutState
from chaoskit.verdict import Outcome
from tests.claims import CLAIMS
from tests.warm_modes import teach

pytestmark = pytest.mark.launches

TRAINER = Path(__file__).parents[2] / "trainers" / "hidden.py"
CHECKS = (*CLAIMS, checks.no_checkpoint_lost())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = Store(tmp_path_factory.mktemp("windows") / "chaos")
    teach(made)
    return made


class Told(list):
    """What a runner says that it does."""

    def phase(self, text):
        self.append(text)


def job(flaw="", *flags):
    words = [sys.executable, str(TRAINER), "--out", "{out}", *(("--flaw", flaw) if flaw else ()), *flags]
    return Job.from_command(words)


def run(store, job, *schedule, windows="always", judged=CHECKS, **options):
    told = Told()
    made = Runner(store, launch="warm", windows=windows, progress=told, **options).run(job, *schedule)
    made.judge(*judged)
    made.told = told
    return made


def found(run):
    return {verdict.check: (verdict.outcome, verdict.codes) for verdict in run.verdicts}


def earned(store, run):
    """What is stored of the windows of the run's job."""
    return stored_windows(store, run)["why"]


def stored_windows(store, run):
    return json.loads((store.references / run.reference.digest / "windows.json").read_text())


KILL = faults.kill(rank=0).at_step(35)


#: Slow enough for a window to end before the job does.
GOOD = job("", "--pace", "0.05")


@pytest.fixture(scope="module")
def whole(store):
    return run(store, GOOD, KILL, windows="never")


@pytest.fixture(scope="module")
def audited(store):
    """The first window of the job."""
    return run(store, GOOD, KILL)


BOTH = "this experiment is run in a window, and then whole, for comparison"


def test_the_second_control_keeps_the_states(tmp_path):
    store = Store(tmp_path / "chaos")
    teach(store)
    made = run(store, job("", "--pace", "0.01"), KILL)
    assert made.outcome is Outcome.PASS and stored_windows(store, made)["source"] == "control-1"
    assert "keeping states of an uninterrupted run" not in made.told


@pytest.mark.slow
def test_where_it_kept_none_a_further_run_does(store, whole, audited):
    """The reference was made for a run without windows."""
    assert stored_windows(store, audited)["source"] == "windows"
    assert "keeping states of an uninterrupted run" in audited.told


def test_the_first_window_is_run_whole_as_well(store, whole, audited):
    assert BOTH in audited.told and "launch from a kept state" in audited.told
    assert found(audited) == found(whole) and audited.audited
    assert store.read(audited.dir)["status"] == "finished" and audited.case.watched is None
    assert stored_windows(store, audited)["audits"] == [""]


@pytest.mark.slow
def test_one_that_is_drawn_is_run_whole_as_well(store, whole, audited):
    told = Told()
    audits = SessionAudits(frozenset({"test_drawn"}))
    runner = Runner(store, launch="warm", windows="always", audits=audits, experiment="test_drawn", progress=told)
    made = runner.run(GOOD, KILL)
    made.judge(*CHECKS)
    assert BOTH in told and made.audited and "test_drawn" in stored_windows(store, made)["audits"]


@pytest.mark.slow
def test_an_audit_records_every_step(store):
    made = run(store, GOOD, KILL, record_every=5)
    assert made.audited and made.outcome is Outcome.PASS and earned(store, made) == ""


def test_a_window_whose_audit_differs_proves_nothing(store):
    """A late run that begins before step 30 cannot show what 60 steps after a resume from there shows."""
    wrong = job("upper", "--steps", "120", "--after", "60", "--pace", "0.05")
    made = run(store, wrong, KILL)
    assert {name: one for name, one in found(made).items() if name != "windows"} == found(
        run(store, wrong, KILL, windows="never")
    )
    (verdict,) = (one for one in made.verdicts if one.check == "windows")
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("window-wrong",))
    assert "the run differs from the reference at step 92, rank 0, in loss" in verdict.sentence
    assert made.case.watched is None and made.outcome is Outcome.FAIL
    later = run(store, wrong, KILL)
    assert found(later) == found(run(store, wrong, KILL, windows="never")) and later.case.watched is None
    assert any(phrase.startswith("run whole: the experiment was run in a window") for phrase in later.told)


LONG = ("--steps", "300", "--pace", "0.01")


@pytest.mark.slow
def test_the_late_run_of_a_long_job_ends_early(store):
    made = run(store, job("", *LONG), KILL)
    late = store.references / made.reference.digest / "late"
    assert earned(store, made) == "" and store.read(late)["status"] == "window"
    assert any("to step 106 at least, of 300" in phrase for phrase in made.told)


@pytest.mark.slow
def test_what_shows_behind_the_late_run_an_audit_shows(store):
    slow = job("counter", "--steps", "300", "--pace", "0.03", "--after", "240")
    made = run(store, slow, KILL)
    assert store.read(store.references / made.reference.digest / "late")["status"] == "window"
    assert "window-wrong" in {code for verdict in made.verdicts for code in verdict.codes}
    assert "differs from the reference at step 272, rank 0, in loss" in earned(store, made)
    whole = run(store, slow, KILL, windows="never")
    assert {name: one for name, one in found(made).items() if name != "windows"} == found(whole)
    assert whole.outcome is Outcome.FAIL


def test_without_a_fault_a_run_begins_late_and_goes_to_the_end(store, whole, audited):
    made = run(store, GOOD)
    assert made.outcome is Outcome.PASS and (made.case.watched.first, made.case.watched.last) == (51, 60)
    assert BOTH not in made.told


@pytest.mark.slow
def test_a_wrong_number_that_stays_is_followed_to_the_end(store, whole, audited):
    made = run(store, GOOD, faults.bitflip(rank=0).at_step(35))
    expected = run(store, GOOD, faults.bitflip(rank=0).at_step(35), windows="never")
    assert found(made) == found(expected) and "launch from a kept state" in made.told


@pytest.mark.slow
def test_what_never_equals_the_reference_again_is_no_audit(store):
    """It has trained to its end, as it would whole. The next experiment is the first that an argument ends."""
    job_of_its_own, audits = job("", "--pace", "0.04"), SessionAudits()
    made = run(
        store, job_of_its_own, faults.bitflip(rank=0).at_step(35), judged=(checks.faults_took_effect(),),
        audits=audits, experiment="test_flip",
    )  # fmt: skip
    assert made.outcome is Outcome.PASS and not made.audited and made.case.trained_to_end
    assert stored_windows(store, made)["audits"] == [] and earned(store, made) == ""
    other = run(store, job_of_its_own, KILL, audits=audits, experiment="test_kill")
    assert other.audited and other.outcome is Outcome.PASS
    assert stored_windows(store, other)["audits"] == ["test_kill"]


@pytest.mark.slow
def test_a_wrong_number_that_a_resume_undoes_needs_no_more_than_a_window(store, whole, audited):
    """The number changes after the last save, and the rank is killed before the next one."""
    made = run(store, GOOD, faults.bitflip(rank=0).at_step(33), KILL, judged=(checks.state_restored(),))
    assert "launch from a kept state" in made.told and made.outcome is Outcome.PASS
    assert made.case.watched.last < 60


def test_a_good_job_gets_the_same_verdicts_and_takes_fewer_steps(store, whole, audited):
    made = run(store, GOOD, KILL)
    assert found(made) == found(whole) and {outcome for outcome, _ in found(made).values()} == {Outcome.PASS}
    assert earned(store, made) == ""
    assert store.read(made.dir)["status"] == "window" and made.history.end == "finished"
    watched = made.case.watched
    assert watched.first == 31 and 41 <= watched.last <= 60
    for name in ("resumed_from", "last_valid"):
        assert getattr(made.summary, name) == getattr(whole.summary, name) == 30
    assert made.summary.steps_lost == whole.summary.steps_lost == 4
    assert made.summary.relaunches == whole.summary.relaunches == 1
    assert all(f"(watched: steps 31 to {watched.last} of 60)" in verdict.sentence for verdict in made.verdicts)
    again = stored(made.dir, store)
    assert again.case.watched == watched and again.judge(*CHECKS) == made.verdicts


@pytest.mark.parametrize(
    ("schedule", "first"),
    [
        ([faults.kill(rank=0).during_save(3)], 21),
        ([faults.kill(rank=0).after_save(3)], 21),
        ([KILL, faults.file_bitflip().before_relaunch()], 31),
        ([KILL, faults.kill(rank=0).after(0.01)], 31),
        ([KILL, faults.kill(rank=0).at_step(33)], 31),
        ([faults.pause(rank=0, seconds=0.2).at_step(35)], 31),
        ([faults.kill(rank=0).at_step(12)], 11),
        ([faults.kill(rank=0).at_step(59)], 51),
    ],
    ids=[
        "in a save",
        "after a save",
        "damage",
        "by the clock",
        "an earlier step",
        "ridden out",
        "the first",
        "the last",
    ],
)
@pytest.mark.slow
def test_other_faults_of_a_good_job(store, audited, schedule, first):
    made = run(store, GOOD, *schedule)
    assert "launch from a kept state" in made.told
    if made.outcome is Outcome.PASS:
        assert made.case.watched is not None and made.case.watched.first == first, made.told
    else:
        assert made.case.watched is None and schedule[1:] and "flip" in str(schedule[1]), made.told
    expected = found(run(store, GOOD, *schedule, windows="never"))
    assert found(made) == expected


def test_where_no_state_was_kept_before_the_fault_a_window_begins_with_the_first_step(store, whole, audited):
    fault = faults.kill(rank=0).at_step(11)
    made = run(store, GOOD, fault)
    assert made.outcome is Outcome.PASS and store.read(made.dir)["status"] == "window"
    assert made.case.watched.first == 1 and made.case.watched.last < 60
    expected = run(store, GOOD, fault, windows="never")
    assert found(made) == found(expected)
    for name in ("resumed_from", "last_valid", "steps_lost", "relaunches"):
        assert getattr(made.summary, name) == getattr(expected.summary, name)
    again = stored(made.dir, store)
    assert again.case.watched == made.case.watched and again.judge(*CHECKS) == made.verdicts


HIDDEN = {
    "counter": "differs from the reference at step 42",
    "cache": "differs from the reference at step 26",
    "retention": "left no step-040.pt at step 41",
    "rng": "differs from the reference at step 1[12]",
    "optimizer": "differs from the reference at step 1[12]",
    "child": "fails no_orphans",
    "elsewhere": "the job makes no save that is followed",
    "pointer": "did not resume from step 10, but from 0",
    "moved": "(saved something else|left no step-0)",
}


@pytest.mark.parametrize(
    "flaw",
    [pytest.param(flaw, marks=() if flaw in ("counter", "retention") else pytest.mark.slow) for flaw in HIDDEN],
)
def test_what_shows_late_costs_a_job_its_windows(store, tmp_path, flaw):
    flags = ("--elsewhere", str(tmp_path)) if flaw == "elsewhere" else ()
    fault = faults.kill(rank=0).at_step(35 if flaw == "retention" else 15)
    one, two = (run(store, job(flaw, *flags), fault, windows=windows) for windows in ("always", "never"))
    assert re.search(HIDDEN[flaw], earned(store, one))
    assert one.history.window is None and found(one) == found(two)
    assert f"run whole: {earned(store, one)}" in one.told
    assert (two.outcome is Outcome.FAIL) == (flaw not in ("elsewhere", "pointer", "moved"))


@pytest.mark.parametrize(("flaw", "code"), [("torn", "torn-checkpoint"), ("older", "stale-checkpoint")])
@pytest.mark.slow
def test_what_only_a_fault_shows_is_found_in_a_window_and_judged_whole(store, flaw, code):
    """A window only passes: one that fails may come of the resume that it has more."""
    made = run(store, job(flaw), faults.kill(rank=0).during_save(4))
    assert earned(store, made) == "" and "launch from a kept state" in made.told
    assert made.history.window is None and made.case.watched is None
    assert code in {code for _, codes in found(made).values() for code in codes}
    assert found(made) == found(run(store, job(flaw), faults.kill(rank=0).during_save(4), windows="never"))


@pytest.mark.slow
def test_what_each_launch_leaves_under_a_name_of_its_own_does_not_matter(store):
    made = run(store, job("debris"), KILL)
    assert earned(store, made) == "" and made.audited
    assert {outcome for outcome, _ in found(made).values()} == {Outcome.PASS}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["outs/30/step-030.pt", "events"])
def test_a_state_that_was_altered_since_is_made_again(store, whole, audited, where):
    place = store.references / whole.reference.digest / stored_windows(store, whole)["source"] / where
    place = place if place.is_file() else next(place.glob("rank-*.jsonl"))
    place.write_bytes(place.read_bytes().replace(b"0", b"1", 1))
    other = run(store, GOOD, KILL)
    assert other.audited and found(other) == found(whole)
    assert any("altered since" in phrase and "the states are made again" in phrase for phrase in other.told)
    assert "keeping states of an uninterrupted run" in other.told
    assert "keeping states of an uninterrupted run" not in run(store, GOOD, KILL).told


def test_a_check_that_looks_at_more_than_a_window_runs_the_experiment_whole(store, whole, audited):
    made = run(store, GOOD, KILL)
    first = made.dir
    assert made.case.watched is not None
    made.judge(*CHECKS, checks.disk_use_bounded())
    assert made.dir != first and not first.exists() and made.case.watched is None
    assert {name: own for name, own in found(made).items() if name != "disk_use_bounded"} == found(whole)
    assert found(made)["disk_use_bounded"][0] is Outcome.PASS


def test_a_fault_that_takes_no_effect_is_tried_once_more_and_the_windows_stay(store, monkeypatch):
    monkeypatch.setattr("chaoskit.engine.observation.OBSERVE_WITHIN", 0.05)
    monkeypatch.setattr(type(faults.kill(rank=0).action), "observed", lambda *_: None)
    made = run(store, GOOD, KILL)
    assert made.history.window is None and found(made)["faults_took_effect"][0] is Outcome.INCONCLUSIVE
    assert "no fault took effect in the window: once more, whole" in made.told and earned(store, made) == ""


def test_a_window_that_differs_before_its_fault_ends_all_windows(store, whole, audited, monkeypatch):
    """Say, because a state was kept in the middle of a save."""
    digest = whole.reference.digest
    kept = store.references / digest / "windows.json"
    run(store, GOOD, KILL)
    before = kept.read_bytes()
    restore = OutState.restore

    def older(state, out):
        shift = restore(state, out)
        (out / "step-030.pt").unlink(missing_ok=True)
        return shift

    monkeypatch.setattr(OutState, "restore", older)
    try:
        made = run(store, GOOD, KILL)
        assert made.history.window is None and found(made) == found(whole)
        assert "did not resume from step 30, but from 20, before any fault" in earned(store, made)
        assert len([path for path in store.all_runs() if path == made.dir]) == 1
        monkeypatch.undo()
        assert any(phrase.startswith("run whole: ") for phrase in run(store, GOOD, KILL).told)
    finally:
        kept.write_bytes(before)


@pytest.mark.slow
def test_a_job_that_has_changed_earns_its_windows_anew(tmp_path):
    store = Store(tmp_path / "chaos")
    teach(store)
    script = tmp_path / "mine.py"
    script.write_text(TRAINER.read_text())
    changed = Job.from_command([sys.executable, str(script), "--out", "{out}"])
    kept = []
    for text in (TRAINER.read_text(), TRAINER.read_text().replace("lr=0.01", "lr=0.02")):
        script.write_text(text)
        made = Runner(store, windows="always").run(changed, KILL)
        made.judge(*CHECKS)
        assert made.audited and made.outcome is Outcome.PASS
        kept.append((made.reference.digest, tuple(stored_windows(store, made)["controls"])))
    assert kept[0][0] == kept[1][0] and kept[0][1] != kept[1][1]


def pair(*flags, **options):
    """Two ranks under torchrun, 60 steps, a save every 5."""
    script = str(TRAINER.with_name("simple.py"))
    return Job(script, ["--out", "{out}", "--epochs", "6", "--save-every", "5", *flags], **options)


@pytest.mark.parametrize(
    ("restarts", "schedule"),
    [
        (0, [faults.kill(rank=1).at_step(33)]),
        (1, [faults.kill(rank=1).at_step(33)]),
        (1, [faults.kill(rank=0).at_step(33), faults.kill(rank=1).at_step(34), faults.kill(rank=1).at_step(36)]),
        (0, [faults.kill(rank=1).during_save(7)]),
        (0, [faults.kill(rank=0).at_step(33), faults.hide(launches=1).before_relaunch()]),
    ],
    ids=["relaunched", "restarted by the agent", "both", "in a save", "hidden"],
)
@pytest.mark.exhaustive  # on a busy machine a rank may be too late for a window, and the run is made whole
def test_two_ranks(store, restarts, schedule, monkeypatch):
    # Without it, torch 2.13 gives restarted ranks the addresses of those before them, and they may hang.
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    audits = SessionAudits()
    assert audits.claim(Runner(store, launch="warm").reference(pair(max_restarts=restarts)).digest, "x", first=True)
    made = run(store, pair(max_restarts=restarts), *schedule, audits=audits)
    scratch = any(fault.action.name == "hide" for fault in schedule)
    assert "launch from a kept state" in made.told and (made.outcome is Outcome.FAIL) == scratch
    if scratch:
        assert made.case.watched is None
    else:
        assert made.case.watched is not None and made.case.watched.first == 31, made.told
    assert found(made) == found(run(store, pair(max_restarts=restarts), *schedule, windows="never"))
    counts = [inc.restart for inc in made.history.incarnations]
    assert (max(counts) > 0) == (restarts > 0)
