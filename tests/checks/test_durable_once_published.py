"""A checkpoint that the job counts on had been forced to the disk, file by file and name by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaoskit.checks import Case, durable_once_published
from chaoskit.protocol.io_journal import Journal
from tests.analysis.crash_model.script import Script
from tests.history_writer import Writer


def publish(script, step, *, forget=()):
    """Two ranks write a file each to a directory, which is then published by a rename."""
    script.mkdir("new")
    for rank in (0, 1):
        script.create(f"new/{rank}")
        script.write(f"new/{rank}", b"weights")
        if f"data {rank}" not in forget:
            script.fsync(f"new/{rank}")
    if "names" not in forget:
        script.fsync("new")
    script.rename("new", f"step-{step}")
    if "rename" not in forget:
        script.fsync("")


def judged(tmp_path, write, *, path="new", ran_in=None, **launch):
    """The verdict on a run of 60 steps with saves at 20, 40 and 60, each of which did what `write` says. It ran in
    `ran_in` (default: where it lies now)."""
    run = Writer()
    run.launch(**launch).live(path=f"{ran_in or f'{tmp_path}/out'}/{path}").exit(0).end("finished")
    case = run.case()
    script, operations = Script(tmp_path), []
    for one in case.checkpoints:
        write(script, one.position)
        new = script.operations[len(operations) :]
        operations += [replace(each, t=one.begun + 1e-9 * at) for at, each in enumerate(new)]
    directory = tmp_path / "journal"
    directory.mkdir(exist_ok=True)
    return durable_once_published()(Case(case.history, case.reference, Journal(directory, tuple(operations))))


def test_everything_was_forced(tmp_path):
    verdict = judged(tmp_path, publish)
    assert verdict.outcome == "pass" and verdict.evidence["checkpoints"] == [20, 40]


@pytest.mark.parametrize(
    "forgotten, said",
    [
        ("data 1", "the data of step-40/1 lacks an fsync of the file"),
        ("names", "the name of step-40/0 lacks an fsync of the directory step-40"),
        ("rename", "the name of step-40 lacks an fsync of the directory"),
    ],
)
def test_what_was_not_is_named(tmp_path, forgotten, said):
    verdict = judged(
        tmp_path, lambda script, step: publish(script, step, forget=[forgotten] if step == 40 else ())
    )
    assert verdict.codes == ("checkpoint-not-durable",)
    assert "the checkpoint of step 40" in verdict.sentence and said in verdict.sentence, verdict.sentence


def test_a_file_that_is_overwritten_in_place(tmp_path):
    def write(script, step):
        for rank in (0, 1):
            if step == 20:
                if rank == 0:
                    script.mkdir("new")
                script.create(f"new/{rank}")
            script.write(f"new/{rank}", b"%d" % step)
            if step != 40:
                script.fsync(f"new/{rank}")
        script.fsync("new")
        script.fsync("")

    verdict = judged(tmp_path, write)
    assert verdict.codes == ("checkpoint-not-durable",) and "step 40" in verdict.sentence


def test_a_log_beside_it_is_no_checkpoint(tmp_path):
    def write(script, step):
        publish(script, step)
        script.create(f"log-{step}")
        script.write(f"log-{step}", b"loss")

    assert judged(tmp_path, write).outcome == "pass"


def test_what_was_not_watched_is_not_passed(tmp_path):
    run = Writer()
    run.launch().live().exit(0).end("finished")
    assert durable_once_published()(run.case()).codes == ("probe-blind",)
    verdict = judged(tmp_path, publish, path="../elsewhere")
    assert verdict.codes == ("probe-blind",) and "the journal shows no write below {out}" in verdict.sentence


RAN_IN = "/data/nobody/.chaoskit/runs/20260101-000000-00000000/out"


@pytest.mark.parametrize(
    "launch",
    [
        {"out": RAN_IN},
        # Old records name it only in the command.
        {"command": ["python", "train.py", "--out", RAN_IN]},
        {"command": ["python", "train.py", f"--checkpoints={RAN_IN}/checkpoints"]},
    ],
)
def test_a_run_that_was_moved_is_judged_by_where_it_ran(tmp_path, launch):
    verdict = judged(tmp_path, publish, ran_in=RAN_IN, **launch)
    assert verdict.outcome == "pass" and verdict.evidence["checkpoints"] == [20, 40]


def test_a_save_outside_of_where_it_ran_shows_nothing(tmp_path):
    verdict = judged(tmp_path, publish, ran_in="/elsewhere", command=["python", "train.py", RAN_IN])
    assert verdict.codes == ("probe-blind",)
