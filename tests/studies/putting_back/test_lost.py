"""What was lost, and where it would be put back; on histories that are written by hand."""

import pytest

from chaoskit.errors import Undecided
from chaoskit.protocol.putting_back import Resumed
from chaoskit.studies.putting_back import lost_state
from tests.history_writer import NAMES, Writer, killed

HELD = [name for name in NAMES if name not in ("batch", "rng.python")]


@pytest.mark.parametrize("name", HELD)
def test_a_lost_component_is_put_back_on_every_rank_from_the_position_that_was_resumed_from(name):
    lost = lost_state(killed(off={name: 0}).case())
    assert lost.resumed == (Resumed(1, 0, 20, {0: (name,), 1: (name,)}),)
    assert lost.components == (name,) and lost.positions == {20} and not lost.data


def test_only_the_rank_that_lost_it_puts_it_back():
    lost = lost_state(killed(off={(1, "rng.torch"): 0}).case())
    assert lost.resumed[0].ranks == {1: ("rng.torch",)}


def test_an_exact_resume_lost_nothing():
    assert lost_state(killed().case()) is None


def test_a_run_without_a_fault_lost_nothing():
    assert lost_state(Writer().launch().live(ends=True).exit(0).end().case()) is None


def test_codes_choose_among_the_components():
    case = killed(off={"rng.torch": 0, "optimizer": 0}).case()
    assert set(lost_state(case).components) == {"rng.torch", "optimizer"}
    assert lost_state(case, ["optimizer-not-restored"]).components == ("optimizer",)
    assert lost_state(case, ["lr-schedule-off"]) is None


def test_what_was_lost_once_is_put_back_at_every_resume():
    run = Writer()
    run.launch().live(until=25).fault("kill rank 1 at step 26").died()
    run.launch().live(base=20, until=45, off={"lr": 0}).fault("kill rank 1 at step 46").died()
    run.launch().live(base=40, ends=True).exit(0).end()
    lost = lost_state(run.case())
    assert [(one.launch, one.position) for one in lost.resumed] == [(1, 20), (2, 40)]
    assert all(one.ranks == {0: ("lr",), 1: ("lr",)} for one in lost.resumed)


def test_the_position_in_the_data_is_told_apart_from_components():
    lost = lost_state(killed(off={"batch": 0}).case())
    assert lost.data and not lost.components and lost.codes == ("data-replayed",)
    whole = lost.with_position(2)
    assert whole.components == ("batch",) and whole.resumed[0].ranks == {0: ("batch",), 1: ("batch",)}


def test_a_restart_from_scratch_lost_no_component_alone():
    run = Writer()
    run.launch().live(until=25).fault("kill rank 1 at step 26").died()
    run.launch().live(ends=True).exit(0).end()
    with pytest.raises(Undecided, match="began again at its first step"):
        lost_state(run.case())


def test_a_job_that_never_trained_again_restored_nothing():
    run = Writer()
    run.launch().live(until=25).fault("kill rank 1 at step 26").died()
    run.launch().exit(1).end("gave-up")
    with pytest.raises(Undecided, match="did not train again"):
        lost_state(run.case())


def test_without_a_reference_nothing_is_known():
    from chaoskit.checks import Case

    with pytest.raises(Undecided, match="no reference"):
        lost_state(Case(killed().case().history))
