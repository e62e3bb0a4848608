"""Crash states, visited for real: who forces everything to the disk passes, and who does not is told what it was."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaoskit import Job
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.record.steps import Step
from chaoskit.cli.main import main
from chaoskit.engine.runner import Runner
from chaoskit.environments.machine.sweep import sweep
from chaoskit.errors import Undecided, UsageError
from chaoskit.protocol.io_journal import Operation
from chaoskit.studies.crash_states import resume_trial
from chaoskit.studies.crash_states.explore import due, explore, judge, record, window
from chaoskit.studies.crash_states.resume_trial import Answer
from tests.studies.crash_states.test_scheduler import resumed

TRAINERS = Path(__file__).parents[2] / "trainers"
ALL = ("kill", "ext4", "posix")


def publisher(*words):
    return [sys.executable, str(TRAINERS / "publisher.py"), "--out", "{out}", *words]


def exploration(store, *words, profiles=ALL, **options):
    runner, job = Runner(store, launch="warm"), Job.from_command(publisher(*words))
    return explore(runner, job, profiles=profiles, workers=2, **options)


def counts(found, profile):
    return {
        name: n for name in ("exact", "lost-work", "crashed", "wrong", "hung") if (n := found.count(name, profile))
    }


class At:
    """A save, as far as `due` asks."""

    def __init__(self, position, begun, settled_at):
        self.position, self.begun, self.settled_at, self.ok = position, begun, settled_at, True


class Done:
    """An operation, likewise."""

    def __init__(self, t):
        self.t = t


def test_what_is_due_is_what_was_settled_just_before_the_next_operation():
    saves, operations = [At(10, 1.0, 2.0), At(20, 3.0, 5.0)], [Done(2.5), Done(3.5), Done(4.5), Done(6.0)]
    assert [sorted(due(done, operations, saves)) for done in range(5)] == [[10], [10, 20], [10, 20], [20], [20]]
    assert due(0, operations, []) == {0}


@pytest.mark.slow
@pytest.mark.launches
def test_a_trainer_that_forces_everything_passes(shared_store):
    found = exploration(shared_store)
    assert found.outcome == "pass" and not found.stories()
    assert len(found.judged) == found.found.distinct > 50
    assert 0 < found.visited < len(found.judged) and found.tried and not found.unlike
    assert {answer.base for answer in (one.answer for one in found.judged)} == {3, 6}
    assert not (found.run.dir / "slots").exists()


@pytest.mark.launches
@pytest.mark.parametrize(
    "forget, doubt, becomes, codes",
    [
        pytest.param(
            *("data", "crash", "crashed", {"checkpoint-not-durable", "torn-checkpoint"}), marks=pytest.mark.slow
        ),
        pytest.param(
            *("data", "trust", "wrong", {"checkpoint-not-durable", "corrupt-accepted"}), marks=pytest.mark.slow
        ),
        ("names", "older", "lost-work", {"checkpoint-not-durable", "stale-checkpoint"}),
    ],
)
def test_what_is_not_forced_is_lost_by_a_power_cut_and_only_there(shared_store, forget, doubt, becomes, codes):
    found = exploration(shared_store, "--forget", forget, "--on-doubt", doubt)
    assert found.outcome == "fail"
    assert set(counts(found, "kill")) == {"exact"}
    assert found.count(becomes, "posix") > 0
    # With its journal of names, ext4 keeps them in order; the data it may lose all the same.
    assert (found.count(becomes, "ext4") > 0) == (forget == "data" and doubt != "trust")
    told = [story for story in found.stories() if story.becomes == becomes]
    assert set(told[0].codes) == codes
    lacking = "was never fsynced" if forget == "data" else "the directory `.` was never fsynced"
    assert any("after `rename(new, step-6)`" in story.text and lacking in story.text for story in told)
    if doubt == "trust":
        assert "equals no step of an uninterrupted run" in told[0].did or "accepts wrong" in told[0].did


@pytest.mark.slow
def test_a_resume_that_hangs(shared_store, monkeypatch):
    monkeypatch.setattr(resume_trial, "PATIENCE", 4.0)
    monkeypatch.setattr(resume_trial, "TIMES", 0.0)
    found = exploration(shared_store, "--forget", "data", "--on-doubt", "hang", profiles=("ext4",), most=8)
    hung = [story for story in found.stories() if story.becomes == "hung"]
    assert hung and set(hung[0].codes) == {"checkpoint-not-durable", "torn-checkpoint", "hang"}
    assert "hangs before its first step" in hung[0].did


@pytest.mark.launches
def test_the_command(shared_store, tmp_path, capsys):
    target = tmp_path / "states.json"
    words = ["crash-states", "--dir", str(shared_store.root), "--json", str(target), "--visits", "40"]
    assert main([*words, "--", *publisher("--forget", "data", "--on-doubt", "crash")]) == 1
    shown, told = capsys.readouterr().out, json.loads(target.read_text())
    assert told["verdict"] == "fail" and "checkpoint-not-durable" in told["codes"]
    assert told["states"] == sum(told["outcomes"].values()) and told["judged_per_minute"] > 0
    assert told["outcomes"]["crashed"] > 0 and told["profiles"]["kill"]["crashed"] == 0
    assert told["stories"][0]["text"].splitlines()[0] in shown
    assert "crashed until manual cleanup" in shown and "processes killed" in shown
    assert main([*words, "--save", "99", "--", *publisher()]) == 2
    assert "--save 99: the job has only" in capsys.readouterr().err


class Knows:
    """A runner that has the reference."""

    def __init__(self, **said):
        self.said = SimpleNamespace(**said)

    def reference(self, job):
        return self.said


def test_a_job_that_is_not_deterministic_is_not_judged():
    with pytest.raises(Undecided, match="not-deterministic: two uninterrupted runs differ"):
        record(Knows(deterministic=False), Job.from_command(publisher()), None)


@pytest.mark.parametrize("save", [None, 99])
def test_a_job_without_such_a_save(save):
    with pytest.raises(UsageError, match="followed by at least three steps"):
        record(Knows(deterministic=True, saves=(12,), steps=12), Job.from_command(publisher()), save)


@pytest.mark.parametrize(
    ("told", "save", "refused"),
    [
        (("--resume",), 1, True),
        (("--resume",), 2, False),
        (("--resume", "{newest:step-*}"), 1, False),
        ((), 1, False),
    ],
)
def test_a_job_that_is_told_to_resume_needs_an_older_checkpoint(told, save, refused):
    runner = Knows(deterministic=True, saves=(4, 8), steps=20)
    run = SimpleNamespace(
        job=Job.from_command(publisher(), resume_args=told),
        case=SimpleNamespace(timeline=SimpleNamespace(departure=None)),
    )
    runner.run = lambda *_, **__: run
    if refused:
        with pytest.raises(UsageError, match="leaves nothing to resume from, and '--resume' makes the job resume"):
            record(runner, run.job, save)
    else:
        assert record(runner, run.job, save) == (run, 4 * save)


def test_a_job_that_writes_elsewhere_is_not_passed():
    run = SimpleNamespace(
        history=SimpleNamespace(incarnations=[SimpleNamespace(ranks={0: RankLifetime(0, 1, 0.0)})])
    )
    run.history.incarnations[0].ranks[0].steps.append(Step(1, 1.0, (), {}))
    with pytest.raises(Undecided, match="probe-blind: the job wrote nothing below"):
        window([Operation(n=0, t=1.5, kind="mkdir", path="x", file=1)], run, 1, [At(1, 1.0, 2.0)])
    with pytest.raises(Undecided, match="before the save after step 1 had settled"):
        window([], run, 1, [At(1, 1.0, None)])


@pytest.mark.slow
def test_a_harness_that_is_killed_leaves_nothing(tmp_path):
    root = tmp_path / "runs"
    words = [sys.executable, "-m", "chaoskit", "crash-states", "--dir", str(root), "--", *publisher()]
    harness = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(root.glob("runs/*/slots/*/events/rank-*")):
        assert harness.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    # Its own name tells the mounts from those of others.
    (run,) = root.glob("runs/*")
    harness.kill()
    harness.wait()
    while _uses(run) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _uses(run)
    sweep(root)
    assert not (run / "slots").exists() and not list(Path("/tmp").glob(f"chaoskit-*-{run.name}*"))


def _uses(run):
    """Processes of that run, and mounts of it, in whatever namespace."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "environ").read_bytes() + (process / "mountinfo").read_bytes()
        except OSError:
            continue
        if str(run).encode() in told:
            found.append(process.name)
    return found


def test_answers_compare_by_what_the_job_did():
    class Any_:
        tree = type("T", (), {"find": lambda self, path: None})()

    one = resumed(Any_)
    assert one.signature == resumed(Any_).signature and one.exact


@pytest.mark.launches
def test_a_bug_of_the_resume_is_no_corruption(shared_store):
    """The random numbers are lost after every resume, from an intact checkpoint as well: no crash is to blame."""
    found = exploration(shared_store, "--lose", "rng", profiles=("kill",), most=4)
    assert found.outcome == "fail" and found.codes == ("rng-not-restored",)
    assert found.judged and not found.stories()
    assert "intact checkpoint of step 6" in found.resume_bug[1] and "rng.torch" in found.resume_bug[1]
    assert found.to_json()["intact"]["codes"] == ["rng-not-restored"]


@pytest.mark.launches
def test_a_job_that_never_resumes_is_asked_once(shared_store):
    found = exploration(shared_store, "--lose", "everything", profiles=("kill",))
    assert found.outcome == "fail" and found.codes == ("restarted-from-scratch",)
    assert not found.judged


@pytest.mark.parametrize(
    "answer, becomes",
    [
        (Answer("resumed", 6, {0: ("rng.torch", "loss")}), "exact"),
        (Answer("resumed", 3, {0: ("rng.torch",)}), "lost-work"),
        (Answer("resumed", 6, {0: ("rng.torch", "optimizer")}), "wrong"),
        (Answer("resumed", None, {0: ("model",)}), "wrong"),
        (Answer("crashed", codes=(1,)), "crashed"),
    ],
)
def test_a_state_is_compared_with_the_intact_one(answer, becomes):
    @dataclass(frozen=True)
    class Left:
        profile: str = "kill"
        crashes: tuple = (SimpleNamespace(done=1),)

    assert judge(Left(), answer, lambda done: {6}, usual=frozenset({"rng.torch"})).becomes == becomes
    if becomes == "exact":  # a loss that is off alone is no consequence of anything known
        assert judge(Left(), answer, lambda done: {6}).becomes == "wrong"
        off = Answer("resumed", 6, {0: ("loss",)})
        assert judge(Left(), off, lambda done: {6}).becomes == "wrong"
