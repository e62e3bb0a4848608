"""What the job prints about a slow rank gets into the record, with the time at which it was read."""

import pytest

from chaoskit import faults
from chaoskit.engine import notice_watch
from chaoskit.engine.notice_watch import NoticeWatch
from chaoskit.protocol.events import EventWriter, read_events

LASTS = faults.throttle(rank=0, cpu=0.5, seconds=1).at_step(1)


@pytest.fixture
def run_dir(tmp_path):
    for name in ("logs", "events"):
        (tmp_path / name).mkdir()
    return tmp_path


def watch(run_dir, *given):
    writer = EventWriter(run_dir / "events" / "harness.jsonl")
    return NoticeWatch(run_dir, writer, list(given))


def said(run_dir):
    return [(one["launch"], one["text"]) for one in read_events(run_dir / "events" / "harness.jsonl")]


@pytest.mark.parametrize(
    "line",
    [
        "Straggler detected: GPU 847",
        "rank 3 is slow",
        "WARNING slow worker 2",
        "node n7 is 30 % slower than others",
        "the slowest rank is 1",
    ],
)
def test_lines_that_speak_of_a_slow_rank(run_dir, line):
    (run_dir / "logs" / "launch-2.log").write_text(f"step 1\n[rank0]: {line}\nstep 2\n")
    watch(run_dir, LASTS).look(1.0)
    assert said(run_dir) == [(2, f"[rank0]: {line}")]


@pytest.mark.parametrize("line", ["step 3 loss 0.5", "using a slow tokenizer", "rank 1 begins after step 4"])
def test_lines_that_do_not(run_dir, line):
    (run_dir / "logs" / "launch-0.log").write_text(f"{line}\n")
    watch(run_dir, LASTS).look(1.0)
    assert said(run_dir) == []


def test_each_line_is_read_once_and_whole(run_dir):
    log, looks = run_dir / "logs" / "launch-0.log", watch(run_dir, LASTS)
    looks.look(1.0)
    log.write_text("straggler: ra")
    looks.look(2.0)
    assert said(run_dir) == []
    log.write_text("straggler: rank 1\n")
    looks.look(2.1)
    assert said(run_dir) == [], "it looked before its time"
    looks.look(2.2, last=True)
    looks.look(9.0)
    assert said(run_dir) == [(0, "straggler: rank 1")]
    assert looks.timers() == [9.0 + notice_watch.LOOK_EVERY]


def test_a_job_that_says_it_all_the_time(run_dir):
    (run_dir / "logs" / "launch-0.log").write_text("straggler\n" * 1000)
    looks = watch(run_dir, LASTS)
    looks.look(1.0)
    assert len(said(run_dir)) == notice_watch.LINES and looks.timers() == []


def test_without_a_fault_that_lasts_nobody_looks(run_dir):
    (run_dir / "logs" / "launch-0.log").write_text("straggler\n")
    looks = watch(run_dir, faults.kill(rank=0).at_step(1))
    looks.look(1.0, last=True)
    assert said(run_dir) == [] and looks.timers() == []
