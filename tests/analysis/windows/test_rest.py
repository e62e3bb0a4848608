"""The rest of the reference, put behind a run that was ended in its window."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit import checks
from chaoskit.analysis.case import Case
from chaoskit.analysis.record.steps import Step, Steps
from chaoskit.analysis.recovery.recovery import summary
from chaoskit.analysis.windows.convergence import Convergence, converged
from chaoskit.analysis.windows.rest import with_rest
from chaoskit.checks import judge
from chaoskit.verdict import Outcome, passed
from tests.analysis.windows.by_hand import begun, killed, reference, stopped
from tests.history_writer import Writer

CHECKS = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.same_data(),
    checks.matches_reference(), checks.stays_finite(), checks.no_checkpoint_lost(), checks.replicas_agree(),
)  # fmt: skip


def samples(rank, position):
    return [f"s{rank}.{position}.{at}" for at in range(2)]


def case(run, of=None):
    of = of or reference(run)
    history = run.history()
    found = converged(history, of)
    assert found is not None
    return Case(with_rest(history, of, found), of)


def told(case):
    return {verdict.check: verdict for verdict in judge(case, CHECKS)}


def bad(case):
    return [(name, verdict.codes) for name, verdict in told(case).items() if verdict.outcome is not Outcome.PASS]


def test_the_whole_training_is_judged():
    made = case(stopped(killed(until=42, samples=samples), ("step-40.pt", 9)))
    assert bad(made) == []
    assert all("(watched: steps 21 to 42 of 60)" in verdict.sentence for verdict in told(made).values())
    assert told(made)["completed"].evidence["window"] == {"first": 21, "last": 42, "of": 60}
    assert (made.history.end, made.history.window.end) == ("finished", 42)


@pytest.mark.parametrize(
    ("off", "check", "code"),
    [
        ({"patch": {(1, 21, "optimizer"): "odd"}}, "state_restored", "optimizer-not-restored"),
        ({"losses": {(0, 22): (9.0).hex()}}, "matches_reference", "loss-diverged"),
    ],
)
def test_what_was_wrong_in_the_window_is_found(off, check, code):
    """It cannot have been ended there; but a second fault may have come, from which it recovered."""
    run = begun()
    run.launch().live(base=20, until=25).fault().died()
    run.launch().live(base=20, until=35, **off).fault("kill rank 0").died()
    run.launch().live(base=30, until=53)
    made = case(stopped(run, ("step-50.pt", 9)))
    assert code in told(made)[check].codes


def test_that_the_window_begins_by_a_resume_proves_nothing():
    """A job that never came back from its fault has restored nothing."""
    run = begun()
    run.launch().live(base=20, until=25).fault().died()
    for _ in range(3):
        run.launch().died()
    made = Case(run.end("gave-up").history(), reference(run))
    assert made.resumes == () and told(made)["state_restored"].outcome is not Outcome.PASS
    assert told(made)["resumed_from_last_valid"].outcome is Outcome.FAIL
    made = case(stopped(killed(until=42)))
    assert [one.incarnation for one in made.resumes] == [2] and summary(made).relaunches == 1
    run = begun().launch().live(base=20, until=42, pause=25)
    assert case(stopped(run)).resumes == ()


def test_a_stale_resume_is_found():
    made = case(stopped(killed(base=10, until=42), ("step-40.pt", 9)))
    assert bad(made) == [("resumed_from_last_valid", ("stale-checkpoint",))]


def test_the_steps_of_the_reference_follow():
    made = case(stopped(killed(until=42, samples=samples)))
    inc, control = made.history.incarnations[-1], made.reference.controls[0].incarnations[0]
    for rank, lifetime in inc.ranks.items():
        whole = control.ranks[rank]
        assert list(lifetime.steps.numbers) == list(range(1, 41))
        assert lifetime.steps.losses == whole.steps.losses[20:]
        assert lifetime.steps.columns == {name: column[20:] for name, column in whole.steps.columns.items()}
        assert all(a < b for a, b in pairwise(lifetime.steps.times))
        assert [save.n for save in lifetime.saves] == [10, 20, 30, 40]
        assert all(save.begun < save.ended for save in lifetime.saves)
        assert lifetime.end is not None and lifetime.end > lifetime.steps.times[-1] and lifetime.halted is None
    ended = made.history.launches[-1]
    assert (ended.code, ended.cause, ended.survivors) == (0, "itself", ()) and ended.ended > ended.begun
    assert [one.settled_at is not None for one in made.checkpoints if one.incarnation == inc.index] == [True] * 4


def test_where_the_rest_comes_from_does_not_show_in_its_paths():
    made = case(stopped(killed(until=42, path="/runs/1/out/step-{}.pt")))
    run = killed(until=42, path="/runs/1/out/step-{}.pt")
    other = [
        Writer(every=10).launch(out="/controls/0/out").live(ends=True, path="/controls/0/out/step-{}.pt")
        for _ in range(2)
    ]
    of = type(made.reference).of([one.exit(0).end().history() for one in other])
    history = case(stopped(run), of).history
    assert [s.path for s in history.incarnations[-1].ranks[0].saves] == [
        f"/runs/1/out/step-{at}.pt/0" for at in (30, 40, 50, 60)
    ]


def test_a_listing_of_the_files_is_not_held_against_saves_that_were_made_later():
    """The rest begins when the run was ended, however slow that was."""
    run = killed(until=42)
    run.t += 500.0
    made = case(stopped(run, ("step-40.pt", 9)))
    assert bad(made) == [] and made.history.files[-1].get("launch") == 2
    # Without the newest checkpoint, that is seen.
    run = killed(until=42)
    assert bad(case(stopped(run, ("step-30.pt", 9)))) == [("no_checkpoint_lost", ("checkpoint-lost",))]


def test_nor_is_one_that_was_made_in_the_middle_of_a_save():
    """The older checkpoint may have been removed already, and nobody watched the rest of that save."""
    run = stopped(killed(until=40), ("step-40.pt", 9))
    made = case(run)
    assert made.history.window.end == 39 and [event.get("launch") for event in made.history.files] == [0]
    assert bad(made) == []


def test_what_the_reference_leaves_behind_at_its_end_this_one_does_too():
    run = stopped(killed(until=42))
    child = {"pid": 8, "command": "sleep 1000"}
    controls = [Writer(every=10).launch().live(ends=True).exit(0, survivors=[child]).end() for _ in range(2)]
    of = type(reference(run)).of([one.history() for one in controls])
    (verdict,) = judge(Case(case(run, of).history, of), [checks.no_orphans()])[1:]
    assert verdict.codes == ("orphans",)


class Slow:
    """A check that nobody has called one for windows."""

    name = "keeps_its_pace"

    def __call__(self, case):
        return passed(self.name, "the pace was kept")

    def to_json(self):
        return {"name": self.name}


def test_a_check_that_needs_a_whole_run_does_not_pass():
    verdict = judge(case(stopped(killed(until=42))), [Slow()])[-1]
    assert verdict.outcome is Outcome.INCONCLUSIVE and "needs the whole run" in verdict.sentence
    assert verdict.evidence["original"]["outcome"] == "pass"


def test_what_is_judged_before_the_window_ended_needs_no_rest():
    """A job that came to its end first."""
    run = killed(until=60, ends=True).exit(0).end()
    made = Case(run.history(), reference(run))
    assert (made.watched.first, made.watched.last) == (21, 60)
    assert told(made)["completed"].sentence.startswith("every rank took its last step, 60, and the job exited")


@pytest.mark.parametrize(("code", "last"), [(0, 60), (1, 57)])
def test_a_job_that_left_out_steps_and_came_to_its_end_was_watched_to_the_end(code, last):
    run = killed(until=57, ends=True).exit(code).end()
    made = Case(run.history(), reference(run))
    assert (made.watched.first, made.watched.last) == (21, last)


WITH_EPOCHS = reference(Writer(every=10, samples=samples, epochs=[0, 20, 40]))


@settings(max_examples=20)
@given(st.data())
def test_wherever_it_is_cut_the_rest_makes_it_whole(data):
    """Any cut of a control, with the rest behind it, has the control's steps, losses, components and saves."""
    base = data.draw(st.sampled_from([0, 10, 20, 30]), label="base")
    end = data.draw(st.integers(base + 9, 59).filter(lambda at: at % 10 != 0), label="end")
    further = data.draw(st.integers(0, 60 - end), label="further steps")
    run, of = Writer(every=10, samples=samples).launch(), WITH_EPOCHS
    run.t += data.draw(st.floats(0, 1e5), label="later")
    run.live(base=base, until=end + further, epochs=[at - base for at in (0, 20, 40) if at >= base])
    history = stopped(run).history()
    whole = with_rest(history, of, Convergence(0, base, base, end))
    for rank, lifetime in whole.incarnations[0].ranks.items():
        control = of.controls[0].incarnations[0].ranks[rank]
        assert lifetime.steps.losses == control.steps.losses[base:]
        assert lifetime.steps.samples == control.steps.samples[base:]
        assert lifetime.steps.columns == {name: column[base:] for name, column in control.steps.columns.items()}
        assert list(lifetime.steps.numbers) == list(range(1, 61 - base))
        assert all(a < b for a, b in pairwise(lifetime.steps.times))
        assert [save.n + base for save in lifetime.saves] == [save.n for save in control.saves if save.n > base]
        assert [at + base for at in lifetime.epochs] == [at for at in control.epochs if at >= base]


def steps(*records):
    made = Steps()
    for n, (components, more) in enumerate(records, start=1):
        made.append(Step(n, float(n), ("0x1p+0",), components, **more))
    return made


def test_steps_that_follow_on_others():
    own = steps(({"model": "a", "ema": "e"}, {"nonfinite": ("model",)}), ({"model": "b"}, {"own": 0.5}))
    rest = steps(({"model": "c", "lr": "l"}, {"parts": {"model": "p"}}), ({"model": "d"}, {"nonfinite": ("lr",)}))
    both = own.followed_by(rest, more=2, later=10.0)
    assert list(both.numbers) == [1, 2, 3, 4] and list(both.times) == [1.0, 2.0, 11.0, 12.0]
    assert both.columns == {
        "model": ["a", "b", "c", "d"],
        "ema": ["e", None, None, None],
        "lr": [None, None, "l", None],
    }
    assert both.parts == {"model": [None, None, "p", None]}
    assert both.nonfinite == {0: ("model",), 3: ("lr",)}
    assert [step.own for step in both] == [None, 0.5, None, None] and len(own) == len(rest) == 2
    again = both.part(2, 4, less=2)
    assert (again.columns["model"], list(again.numbers)) == (["c", "d"], [1, 2])
    assert list(own.followed_by(Steps(), more=2, later=0.0)) == list(own)
