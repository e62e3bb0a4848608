"""Chronicles: each experiment has its track, each job its versions, each night its machine."""

from chaoskit.engine.result import Result
from chaoskit.studies.nights.suite_history import SuiteHistory
from tests.studies.nights.nights import JOB, MACHINE, night, result, verdicts


def history(*suites):
    return SuiteHistory.of(suites)


def test_a_track_is_an_experiment_of_a_job():
    other = "torchrun other.py"
    one = history(
        night(0, result()), night(1, result("f", job=other)), night(2, result(), result(name="test_new"))
    )
    assert one.jobs == (JOB, other)
    told = {(t.job, t.name): [r.verdict if r else None for r in t.results] for t in one.tracks}
    assert told == {
        (JOB, "test_kill"): ["pass", None, "pass"],
        (JOB, "test_new"): [None, None, "pass"],
        (other, "test_kill"): [None, "fail", None],
    }


def test_experiments_of_one_name_are_told_apart_by_where_they_are_written():
    one = history(night(0, result(nodeid="a.py::test_kill"), result("f", nodeid="b.py::test_kill")))
    assert [(track.name, track.last.verdict) for track in one.tracks] == [
        ("a.py::test_kill", "pass"),
        ("b.py::test_kill", "fail"),
    ]


def test_what_never_came_to_a_run_belongs_to_the_job_that_it_had():
    skipped = Result("test_kill", "skipped")
    one = history(night(0, skipped), night(1, result()), night(2, Result("test_kill", "inconclusive")))
    (track,) = one.tracks
    assert track.job == JOB and [r.verdict for r in track.results] == ["skipped", "pass", "inconclusive"]
    assert [at for at, _ in track.decided] == [1, 2]
    assert history(night(0, skipped)).jobs == ("",)


def test_the_order_is_that_of_the_last_suite():
    one = history(
        night(0, result(name="test_b"), result(name="test_a")),
        night(1, result(name="test_a"), result(name="test_b")),
    )
    assert [track.name for track in one.tracks] == ["test_a", "test_b"]


def test_what_was_changed_is_told_once():
    one = history(
        *(night(at, result(), settings={"torch": "2.13.0" if at < 2 else "2.14.1"}) for at in range(4)),
        night(4, result(), settings={"torch": "2.14.1", "NCCL_ALGO": "Ring"}, chaoskit="0.2.0"),
    )
    assert [(c.at, str(c)) for c in one.changes(JOB)] == [
        (2, "torch 2.13.0 -> 2.14.1"),
        (4, "NCCL_ALGO absent -> Ring"),
        (4, "chaoskit 0.1.0 -> 0.2.0"),
    ]
    assert [c.at for c in one.changed(JOB, after=1, until=2)] == [2]


def test_nights_that_kept_no_uninterrupted_run_change_nothing():
    told = {"torch": "2.13.0", "threads": "1"}
    one = history(night(0, result(), settings=told), night(1, result()), night(2, result(), settings=told))
    assert one.changes(JOB) == ()


def test_two_machines_taking_turns_change_nothing():
    boxes = [{**MACHINE, "host": f"box{at % 2}", "python": f"3.1{at % 2}"} for at in range(4)]
    one = history(*(night(at, result(), machine=box) for at, box in enumerate(boxes)))
    assert one.changes(JOB) == ()
    assert len({each.machine for each in one.nights}) == 2


def test_the_name_of_a_container_says_nothing():
    one = history(*(night(at, result(), machine={**MACHINE, "host": f"pod-{at}"}) for at in range(3)))
    assert {each.machine for each in one.nights} == {"x86_64 processor, 8 cores"}


def test_a_launch_that_is_cold_now_is_a_change():
    one = history(night(0, result(launched=("warm",))), night(1, result(launched=("cold: it was asked for",))))
    assert [str(change) for change in one.changes(JOB)] == ["launch warm -> cold"]


def test_only_some_experiments():
    one = history(night(0, result(name="test_a"), result(name="test_b")))
    assert [track.name for track in one.only(["test_b"]).tracks] == ["test_b"]


def test_nothing_at_all():
    one = history()
    assert one.nights == one.tracks == one.jobs == ()
    assert history(night(0)).tracks == ()


def test_when_a_night_was():
    assert history(*verdicts("p")).nights[0].when == "2026-01-01 02:30"
    assert history(night(0, created="", id="x")).nights[0].when == "x"
