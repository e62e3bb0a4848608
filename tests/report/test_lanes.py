"""Lanes tell the lives of each rank: where they began, stood still and ended, and how."""

import signal

from chaoskit.checks import Case
from chaoskit.report.svg.lane_picture import lane_picture
from chaoskit.report.svg.lanes import lanes, spans, stepless
from tests.history_writer import Writer, killed


def struck(run, rank):
    """A fault that kills a rank of the life just told, as the harness records it."""
    pid = 100 * run.lives + rank
    return run.fault(f"kill rank {rank}", evidence={"pids": [pid], "signal": int(signal.SIGKILL), "gone": [pid]})


def test_each_rank_has_a_lane_and_each_life_a_bar():
    case = (
        struck(Writer().launch().live(until=25), 1).died().launch().live(base=20, ends=True).exit(0).end().case()
    )
    first, second = lanes(case)
    assert (first.name, second.name) == ("rank 0", "rank 1")
    assert [(bar.first, bar.last, bar.row, bar.end) for bar in second.bars] == [
        (0, 25, 0, "struck"),
        (20, 60, 1, "ended"),
    ]
    assert second.bars[0].how == "killed by 'kill rank 1' (SIGKILL)"
    assert (
        first.bars[0].end == "gone"
        and first.bars[0].how == "ended without an exit event; its launch ended with exit code 1"
    )


def test_of_two_processes_with_the_same_pid_the_one_that_was_killed_is_struck():
    """Each container has pids of its own: the reference to a process ends with its start."""
    run = Writer().launch().live(until=25)
    evidence = {"pids": [7], "processes": ["abc/1001"], "signal": int(signal.SIGKILL), "gone": [7]}
    case = run.fault("kill rank 1", evidence=evidence).died().launch().live(base=20, ends=True).exit(0).end().case()
    for rank, life in case.history.incarnations[0].ranks.items():
        life.pid, life.ticks = 7, 1000 + rank
    first, second = lanes(case)
    assert (first.bars[0].end, second.bars[0].end) == ("gone", "struck")


def test_lives_that_follow_one_another_share_a_row():
    assert [bar.row for bar in lanes(killed(at=20, base=20).case())[0].bars] == [0, 0]


def test_an_exception_a_restart_and_a_record_that_stops():
    run = Writer().launch().live(until=10)
    run.say("process.end", run._source(0), clean=False)
    run.restarted().live(base=0, until=15)
    first, second = lanes(Case(run.history(), None))
    assert [bar.end for bar in first.bars] == ["raised", "open"]
    assert [bar.end for bar in second.bars] == ["gone", "open"]
    assert second.bars[0].how == "ended without an exit event before incarnation 1 began"


def test_a_rollback_in_the_processes_ends_no_life():
    run = Writer().launch().live(until=30).live(base=20, back=True, ends=True).exit(0).end()
    (lane, _) = lanes(run.case())
    assert [(bar.end, bar.taken) for bar in lane.bars] == [("back", 0), ("ended", 30)]
    assert "after a rollback without a restart" in str(lane.bars[1])


def test_a_freeze_shows_and_an_even_pace_does_not():
    (lane, _) = lanes(Writer().launch().live(pause=30, ends=True).exit(0).end().case())
    (stall,) = lane.bars[0].stalls
    assert stall.position == 30 and str(stall).startswith("stalled for 3.")
    (lane, _) = lanes(Writer().launch().live(ends=True).exit(0).end().case())
    assert not lane.bars[0].stalls


def test_a_long_save_is_no_stall():
    run = Writer(every=100).launch().live(until=30)
    run.say("save.begin", run._source(0), id=1, n=30, path="a", api="torch.save", full=True)
    run.t += 20
    run.say("save.end", run._source(0), id=1, n=30, ok=True)
    for step in (31, 32):
        for rank in (0, 1):
            run.say("step", run._source(rank), n=step, losses=["0x1p+0"], state={})
    first, second = lanes(run.exit(0).end().case())
    assert not first.bars[0].stalls and [stall.position for stall in second.bars[0].stalls] == [30]


def test_a_rank_that_is_ended_after_a_long_silence_stood_still():
    run = Writer().launch().live(until=25).fault()
    run.t += 60
    (lane, _) = lanes(run.exit(-9, cause="deadline").end("deadline").case())
    (stall,) = lane.bars[0].stalls
    assert stall.position == 25 and stall.seconds > 60 and lane.bars[0].how.endswith("at the deadline")


def test_many_ranks_that_did_alike_share_a_lane():
    run = Writer(ranks=20, steps=6, every=3, names=("model", "batch")).launch().live(until=4)
    case = struck(run, 3).died().launch().live(base=3, ends=True).exit(0).end().case()
    assert [lane.name for lane in lanes(case)] == ["ranks 0–2, 4–19", "rank 3"]
    assert [row.name for row in lane_picture(case).rows] == ["0–2, …", "rank 3"]


def test_up_to_sixteen_each_has_its_own():
    run = Writer(ranks=16, steps=3, every=3, names=("model",)).launch().live(ends=True).exit(0).end()
    assert len(lanes(run.case())) == 16


def test_ranks_in_words():
    assert spans([0, 2, 3, 4, 9]) == "0, 2–4, 9"


def test_lives_without_a_step_are_told_of_elsewhere():
    run = Writer().launch().live(until=25).fault().died()
    case = run.launch().live(base=20, until=20).exit(1).end("gave-up").case()
    assert stepless(case) == (1,) and len(lanes(case)[0].bars) == 1


def test_the_picture_says_it_in_words_too():
    one = lane_picture(killed(at=25).case())
    assert "rank 1: incarnation 0: steps 1 to 25; ended without an exit event" in one.description
    assert one.deaths and not one.stalls and one.hidden == 0
    one = lane_picture(Writer().launch().live(ends=True).exit(0).end().case())
    assert not one.deaths
