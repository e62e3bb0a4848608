"""The controller between launches: what strikes there, what is healed there, and that nothing stays broken."""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path

import pytest

from chaoskit import Job, faults
from chaoskit import controller as controlling
from chaoskit.capabilities import StoredCheckpoint
from chaoskit.controller import Controller
from chaoskit.environments.environment import Ended, Place
from chaoskit.environments.local import LocalEnvironment
from chaoskit.events import EventWriter, read_events
from chaoskit.progress import quiet
from tests.history_writer import Writer

RANK = [sys.executable, "-I", "-S", str(Path(__file__).parent / "environments" / "stub_rank.py")]


class Scripted:
    """Launches that do to `out/checkpoints` what they are told, and end with a code, or by Ctrl-C."""

    name = "scripted"

    def __init__(self, root, *launches):
        self.root, self.script, self.stopped, self.asides = root, launches, 0, 0
        self.saw = []
        (root / "out" / "checkpoints").mkdir(parents=True)

    @property
    def checkpoints(self):
        return sorted(path.name for path in (self.out() / "checkpoints").iterdir())

    def launch(self, index, command):
        self.index = index
        self.saw.append(self.checkpoints)
        return "cold"

    def wait(self, timeout):
        made, code = self.script[self.index]
        for name in made:
            (self.out() / "checkpoints" / name).write_bytes(bytes(9))
        if code is KeyboardInterrupt:
            raise KeyboardInterrupt
        return [Ended(self.index, code)]

    def stop(self):
        self.stopped += 1
        return ()

    def out(self):
        return self.root / "out"

    def aside(self):
        self.asides += 1
        made = self.root / f"aside-{self.asides}"
        made.mkdir()
        return made

    def checkpoint_files(self):
        if not self.checkpoints:
            raise LookupError("nothing saved")
        return StoredCheckpoint((f"checkpoints/{self.checkpoints[-1]}",), {"launch": 0, "restart": 0, "n": 1})

    def checkpoint_directories(self):
        return ("checkpoints",)


def carry(env, out, *schedule, run_dir, relaunches=3, command=("true",)):
    """Carry a job through the faults; the status, and the record without its times."""
    (run_dir / "events").mkdir(exist_ok=True)
    record = run_dir / "events" / "harness.jsonl"
    writer = EventWriter(record)
    try:
        status = Controller(
            env=env,
            job=Job.from_command(command, relaunches=relaunches),
            out=out,
            faults=schedule,
            reference=Writer(ranks=1).case().reference,
            writer=writer,
            deadline=60,
            progress=quiet,
        ).run()
    except KeyboardInterrupt:
        status = "raised"
    return status, list(read_events(record))


def run(env, *schedule, **options):
    status, events = carry(env, env.out(), *schedule, run_dir=env.root, **options)
    return (
        status,
        [event.kind for event in events if event.kind not in ("fault.planned", "files", "launch.how")],
        events,
    )


def test_what_strikes_before_a_relaunch(tmp_path):
    env = Scripted(tmp_path, (["1", "2"], 1), ([], 0))
    status, kinds, events = run(env, faults.flip().before_relaunch())
    assert status == "finished" and env.saw == [[], ["1", "2"]]
    assert kinds == [
        "launch.start", "launch.end",
        "fault.requested", "fault.applied", "fault.observed",
        "launch.start", "launch.end", "run.end",
    ]  # fmt: skip
    assert (tmp_path / "out" / "checkpoints" / "2").read_bytes() == bytes(4) + b"\x10" + bytes(4)
    evidence = {key: value for event in events for key, value in event.get("evidence", {}).items()}
    assert {"file", "offset", "bit", "before", "after", "save"} <= evidence.keys()


def test_a_job_that_ends_well_is_not_struck_any_more(tmp_path):
    status, kinds, _ = run(Scripted(tmp_path, (["1"], 0)), faults.flip().before_relaunch())
    assert status == "finished" and not any(kind.startswith("fault") for kind in kinds)


def test_the_last_launch_is_followed_by_nothing(tmp_path):
    env = Scripted(tmp_path, (["1"], 1))
    status, kinds, _ = run(env, faults.flip().before_relaunch(), relaunches=0)
    assert status == "gave-up" and "fault.applied" not in kinds


def test_the_fault_before_it_comes_first(tmp_path):
    env = Scripted(tmp_path, (["1"], 1), ([], 1), ([], 1), ([], 0))
    _, kinds, _ = run(env, faults.noop().at_step(1), faults.flip().before_relaunch())
    assert "fault.requested" not in kinds


def test_where_there_is_nothing_to_strike_the_fault_is_missed_and_the_job_goes_on(tmp_path):
    env = Scripted(tmp_path, ([], 1), (["1"], 1), ([], 0))
    status, kinds, events = run(env, faults.flip().before_relaunch(), faults.flip().before_relaunch())
    assert status == "finished" and kinds.count("fault.missed") == 2 and "fault.applied" not in kinds
    assert {e["evidence"]["missed"] for e in events if e.kind == "fault.missed"} == {"nothing saved"}


def test_an_effect_that_is_not_seen_is_waited_for_and_then_given_up_on(tmp_path, monkeypatch):
    monkeypatch.setattr(controlling, "OBSERVE_WITHIN", 0.05)
    monkeypatch.setattr(type(faults.flip().action), "observed", lambda *_: None)
    env = Scripted(tmp_path, (["1"], 1), ([], 0))
    begun = time.monotonic()
    status, kinds, _ = run(env, faults.flip().before_relaunch())
    assert status == "finished" and "fault.applied" in kinds and "fault.observed" not in kinds
    assert time.monotonic() - begun >= 0.05


@pytest.mark.parametrize("launches", [1, 2])
def test_what_was_hidden_is_back_once_so_many_launches_have_ended(tmp_path, launches):
    env = Scripted(tmp_path, (["1"], 1), (["mine"], 1), ([], 1), ([], 0))
    status, kinds, _ = run(env, faults.hide(launches=launches).before_relaunch())
    assert status == "finished" and kinds.count("fault.healed") == 1
    assert env.saw == [[], [], ["1"], ["1"]] if launches == 1 else [[], [], ["mine"], ["1"]]
    assert env.checkpoints == ["1"]
    assert (tmp_path / "aside-1" / "checkpoints.made-while-hidden" / "mine").exists()


def test_two_that_have_moved_the_same_things_move_them_back_in_turn(tmp_path):
    env = Scripted(tmp_path, (["1"], 1), (["mine"], 1), ([], 0))
    _, kinds, _ = run(env, faults.hide().before_relaunch(), faults.hide().before_relaunch())
    assert env.saw == [[], [], ["1"]] and kinds.count("fault.healed") == 2


@pytest.mark.parametrize(
    ("ending", "relaunches", "status"),
    [((["mine"], 0), 3, "finished"), (([], 1), 1, "gave-up"), (([], KeyboardInterrupt), 3, "raised")],
)
def test_however_the_run_ends_nothing_stays_hidden(tmp_path, ending, relaunches, status):
    env = Scripted(tmp_path, (["1"], 1), ending)
    schedule = [faults.hide(launches=2).before_relaunch()]
    ended, kinds, _ = run(env, *schedule, relaunches=relaunches)
    assert ended == status and kinds[-3:] == ["launch.end", "fault.healed", "run.end"]
    assert env.checkpoints == ["1"] and env.stopped == (status == "raised")


def test_processes_find_what_is_there_at_their_time(tmp_path):
    """A rank is killed, its checkpoint damaged and hidden; the next launch fails, and the third finds it again."""
    place = Place(tmp_path, tmp_path / "out", tmp_path, f"test-{uuid.uuid4().hex[:8]}", gated=True)
    (tmp_path / "events").mkdir()
    stored = place.out / "checkpoints" / "1.pt"
    stored.parent.mkdir(parents=True)
    stored.write_bytes(bytes(100))
    now = time.monotonic()
    start = {"role": "rank", "rank": 1, "pid": 1, "world": 2, "launch": 0, "restart": 0}
    told = [
        {"t": now, "e": "process.start", **start},
        {"t": now, "e": "save.begin", "id": 1, "n": 1, "path": str(stored.with_suffix(".tmp"))},
        {"t": now, "e": "save.end", "id": 1, "n": 1, "ok": True},
    ]
    lines = [json.dumps({"i": i, **event}) + "\n" for i, event in enumerate(told)]
    (tmp_path / "events" / "rank-by-hand.jsonl").write_text("".join(lines))
    script = 'ls out/checkpoints > saw-$CHAOSKIT_LAUNCH; case $CHAOSKIT_LAUNCH in 0) exec "$@";; 1) exit 3;; esac'
    schedule = [
        faults.kill(rank=0).at_step(2),
        faults.flip().before_relaunch(),
        faults.hide().before_relaunch(),
    ]
    with LocalEnvironment(place) as env:
        command = ["sh", "-c", script, "sh", *RANK, "0", "5"]
        status, record = carry(env, place.out, *schedule, run_dir=tmp_path, command=command)
    kinds = [event.kind for event in record]
    assert status == "finished" and kinds.count("fault.observed") == 3 and kinds.count("fault.healed") == 1
    assert [(tmp_path / f"saw-{launch}").read_text() for launch in range(3)] == ["1.pt\n", "", "1.pt\n"]
    assert stored.read_bytes() == bytes(50) + b"\x10" + bytes(49)
    assert not list(tmp_path.glob("aside-*"))
