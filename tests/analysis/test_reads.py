"""What was read decides where a resume began; then what it held; a batch never overrules these."""

import pytest

from chaoskit import checks
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, truth

NAMES = ("model", "optimizer", "lr", "batch")


def digest(text):
    return text.encode().hex().rjust(32, "0")


def still(name, rank, position):
    """A loss that gives no gradient: only the batch ever moves."""
    return truth(name, rank, position) if name == "batch" else name


def plain_sgd(name, rank, position):
    """An optimizer without state."""
    return truth(name, rank, position) if name in ("model", "batch") else name


def content(tell, epoch=lambda position: position // 20):
    def told(rank, position):
        return {"MODEL_STATE.w": digest(tell("model", rank, position)), "EPOCHS_RUN": f"={epoch(position)}"}

    return told


def snapshots(tell=still, epoch=lambda position: position // 20, **options):
    """A job that writes the same snapshot again and again, killed after step 25."""
    run = Writer(names=NAMES, tell=tell, content=content(tell, epoch), **options)
    return run.launch().live(until=25, path="snapshot.pt").fault().died()


def test_a_repeated_epoch_is_no_start_from_scratch():
    """The model stands still, and the batches are those of step 0: the snapshot of step 20 was read all the same."""
    run = snapshots()
    held = run.content(0, 20)
    run.launch().live(base=20, off={"batch": 0}, drift=False, ends=True).load(
        "snapshot.pt", content=lambda rank: held
    )
    case = run.exit(0).end().case()
    assert case.timeline.base(1) == 20
    assert checks.state_restored()(case).codes == ("data-replayed",)
    for check in (checks.resumed_from_last_valid(), checks.checkpoints_faithful()):
        assert check(case).outcome is Outcome.PASS


def test_of_what_nobody_was_seen_to_read_the_batch_still_tells():
    """Nothing else does: a job whose loads the probe cannot see is where its state is."""
    run = snapshots()
    case = run.launch().live(base=20, off={"batch": 0}, drift=False, ends=True).exit(0).end().case()
    assert case.timeline.base(1) == 0


def test_a_path_holds_what_was_saved_there_last():
    """The repeated epoch has its number in the snapshot, so that those of steps 20 and 40 are equal."""
    run = snapshots(epoch=lambda position: 0)
    held = run.content(0, 20)
    for base in (20, 40):
        run.launch().live(base=base, until=base + 25, off={"batch": 0}, drift=False, path="snapshot.pt")
        run.load("snapshot.pt", content=lambda rank: held)
        run.fault().died() if base == 20 else run.exit(0).end()
    case = run.case()
    assert [case.timeline.base(index) for index in (1, 2)] == [20, 40]
    assert [resume.last_valid for resume in case.resumes] == [20, 40]
    assert checks.checkpoints_faithful()(case).outcome is Outcome.PASS
    assert "ranks-diverged" not in checks.resumed_from_last_valid()(case).codes


@pytest.mark.parametrize("path", ["snapshot.pt", "renamed.pt"])
def test_a_state_that_nobody_saw_is_that_of_what_was_read(path):
    """The second life has left the reference and is killed right after its save: no step shows the model that it
    saved. The batch is that of step 20, where a checkpoint was written, too."""
    run = snapshots(plain_sgd)
    first = run.content(0, 20)
    run.launch().live(base=20, until=25, off={"batch": 0}, saves=False)
    run.load("snapshot.pt", content=lambda rank: first)
    held = {"MODEL_STATE.w": digest("another"), "EPOCHS_RUN": "=1"}
    run.content = lambda rank, position: held
    run.save(20, path="snapshot.pt").fault().died()
    run.launch().live(base=40, off={"model": "another", "batch": 20}, ends=True, path="snapshot.pt")
    run.load(path, content=lambda rank: held)
    case = run.exit(0).end().case()
    assert case.timeline.base(2) == 40
    assert checks.checkpoints_faithful()(case).outcome is Outcome.PASS
    found = checks.resumed_from_last_valid()(case).codes + checks.state_restored()(case).codes
    assert not {"corrupt-accepted", "ranks-diverged"} & {*found}


def test_a_rank_that_reads_nothing_stands_where_the_others_have_read():
    """Rank 0 reads and broadcasts. The batches of rank 1 are those of another checkpoint."""
    run = Writer(names=NAMES, tell=still, content=content(still))
    run.launch().live(until=45, path="snapshot.pt").fault().died()
    held = run.content(0, 40)
    run.launch().live(base=40, off={"batch": 20}, drift=False, ends=True)
    run.alive = [0]
    run.load("snapshot.pt", content=lambda rank: held)
    case = run.exit(0).end().case()
    assert case.timeline.base(1) == 40
    assert not case.timeline.starts[1].apart
    assert checks.resumed_from_last_valid()(case).outcome is Outcome.PASS


def test_a_state_that_came_from_elsewhere_is_where_it_came_from():
    """The newest was read last, to compare it perhaps, and the model is that of the one before."""
    run = Writer(content=content(truth)).launch().live(until=45).fault().died()
    held = run.content(0, 40)
    run.launch().live(base=20, ends=True).load("step-40.pt", content=lambda rank: held)
    case = run.exit(0).end().case()
    assert case.timeline.base(1) == 20
    assert checks.resumed_from_last_valid()(case).codes == ("stale-checkpoint",)


def test_what_was_read_and_not_taken_is_a_start_from_scratch():
    run = Writer(content=content(truth)).launch().live(until=25).fault().died()
    held = run.content(0, 20)
    run.launch().live(base=0, ends=True).load("step-20.pt", content=lambda rank: held)
    case = run.exit(0).end().case()
    assert case.timeline.base(1) == 0
    assert checks.resumed_from_last_valid()(case).codes == ("restarted-from-scratch",)


def test_an_optimizer_that_starts_anew_does_not_hide_what_was_read():
    """The model stands still, the optimizer counts its steps and is not saved."""

    def tell(name, rank, position):
        return truth(name, rank, position) if name in ("optimizer", "batch") else name

    run = Writer(names=NAMES, tell=tell, content=content(tell))
    run.launch().live(until=25, path="snapshot.pt").fault().died()
    held = run.content(0, 20)
    run.launch().live(base=20, off={"optimizer": 0, "batch": 0}, drift=False, ends=True)
    run.load("snapshot.pt", content=lambda rank: held)
    case = run.exit(0).end().case()
    assert case.timeline.base(1) == 20
    assert checks.state_restored()(case).codes == ("optimizer-not-restored", "data-replayed")


def test_a_file_that_was_refused_does_not_count():
    """The newest was read and refused, the one before was read and taken; the model stands still."""
    run = Writer(names=NAMES, tell=still, content=content(still)).launch().live(until=45).fault().died()
    newest, older = run.content(0, 40), run.content(0, 20)
    run.launch().live(base=20, off={"batch": 40}, drift=False, ends=True)
    run.load("step-40.pt", content=lambda rank: newest).load("step-20.pt", content=lambda rank: older)
    assert run.exit(0).end().case().timeline.base(1) == 20
