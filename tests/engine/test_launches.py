"""Launches are counted, and how each began and ended is in the record, with the files that it left."""

from __future__ import annotations

import pytest

from chaoskit import Job
from chaoskit.engine import launches as engine_launches
from chaoskit.engine.launches import Launches, files_below
from chaoskit.environments.environment import Ended
from chaoskit.errors import SupervisorGaveUp, TooFewNodes
from tests.engine.fake_faults import Record


class Launching:
    """Launches nothing; from `fewest` on there is a reason not to."""

    def __init__(self, fewest=99, why=None):
        self.commands, self.fewest = [], fewest
        self.why = why or TooFewNodes("one is left")

    def launch(self, index, command):
        if index >= self.fewest:
            raise self.why
        self.commands.append(command)
        return "cold"

    def stop(self):
        return ({"pid": 7},)


@pytest.fixture
def record():
    return Record()


def begun(record, out, env=None, resume_words=("--resume",)):
    job = Job.from_command(["train", "{out}"], resume_args=["--resume"], relaunches=1)
    return Launches(
        env=env or Launching(),
        job=job,
        out=out,
        writer=record,
        progress=record,
        resume_words=lambda: resume_words,
    )


def test_a_relaunch_gets_its_own_arguments_and_there_are_so_many(record, tmp_path):
    env = Launching()
    launches = begun(record, tmp_path, env)
    assert launches.start() and launches.index == 0 and not launches.spent
    launches.ended(Ended(0, 3))
    assert launches.start() and launches.spent
    assert env.commands == [["train", str(tmp_path)], ["train", str(tmp_path), "--resume"]]
    assert record.phases == ["launch", "relaunch 1 of 1"]
    assert record.kinds == ["launch.start", "launch.how", "launch.end", "files", "launch.start", "launch.how"]


def test_a_relaunch_without_them_is_announced(record, tmp_path):
    env = Launching()
    launches = begun(record, tmp_path, env, resume_words=())
    launches.start()
    launches.start()
    assert env.commands == [["train", str(tmp_path)]] * 2
    assert "without --resume-args" in record.phases[-1]
    assert not any("added" in data for _, data in record.events)


def test_the_words_that_were_added_are_in_the_record(record, tmp_path):
    launches = begun(record, tmp_path, resume_words=["--from", "x"])
    launches.start()
    launches.start()
    starts = [data for kind, data in record.events if kind == "launch.start"]
    assert [start.get("added") for start in starts] == [None, ["--from", "x"]]


def test_the_cause_of_an_end(record, tmp_path):
    launches = begun(record, tmp_path, Launching(fewest=1))
    launches.start()
    launches.fault_hit_launcher = True
    launches.ended(Ended(0, -9))
    assert not launches.start() and not launches.fault_hit_launcher
    launches.stop("deadline")
    ends = [data for kind, data in record.events if kind == "launch.end"]
    assert [(end["cause"], end["code"]) for end in ends] == [
        ("fault", -9), ("too-few-nodes", None), ("deadline", None),
    ]  # fmt: skip
    assert ends[-1]["survivors"] == [{"pid": 7}]


def test_a_controller_that_starts_nothing_again_is_in_the_record(record, tmp_path):
    why = SupervisorGaveUp("no restart left", reason="BackoffLimitExceeded", code="restart-budget-spent")
    launches = begun(record, tmp_path, Launching(fewest=1, why=why))
    launches.start()
    launches.ended(Ended(0, 1))
    assert not launches.start()
    (said,) = [data for kind, data in record.events if kind == "supervisor.end"]
    told = {"reason": "BackoffLimitExceeded", "code": "restart-budget-spent", "text": "no restart left"}
    assert said == {"launch": 1, **told}
    assert [data["cause"] for kind, data in record.events if kind == "launch.end"] == ["itself", "supervisor"]


def test_files_are_listed_with_their_sizes_and_not_without_end(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    for name, size in (("b", 2), ("a", 1), ("sub/c", 3)):
        (tmp_path / name).write_bytes(bytes(size))
    assert files_below(tmp_path) == [("a", 1), ("b", 2), ("sub/c", 3)]
    monkeypatch.setattr(engine_launches, "FILES_LISTED", 2)
    assert len(files_below(tmp_path)) == 2 and files_below(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("stops_with", "told", "code", "done"),
    [("nonzero", True, 0, True), (0, True, 0, False), (0, False, 0, True), ("0", True, 0, False), (85, True, 0, True),
     (0, True, 1, False), (85, True, 85, False)],
)  # fmt: skip
def test_a_job_that_was_told_to_leave_may_do_so_with_0(record, tmp_path, stops_with, told, code, done):
    job = Job.from_command(["train", "{out}"], stops_with=stops_with)
    launches = Launches(
        env=Launching(), job=job, out=tmp_path, writer=record, progress=record, resume_words=lambda: ()
    )
    launches.start()
    launches.told_to_stop = told
    assert launches.is_done(Ended(0, code)) is done
    assert record.events[0][1].get("stops_with") == (None if stops_with == "nonzero" else int(stops_with))
    launches.start()
    assert not launches.told_to_stop


def test_what_a_scheduler_says_of_the_end_is_in_the_record(record, tmp_path):
    launches = begun(record, tmp_path)
    launches.start()
    launches.ended(Ended(0, -15, why="it is back in the queue", requeued=True))
    launches.start()
    launches.ended(Ended(1, 0))
    first, second = (data for kind, data in record.events if kind == "launch.end")
    assert (first["why"], first["requeued"]) == ("it is back in the queue", True)
    assert "why" not in second and "requeued" not in second
