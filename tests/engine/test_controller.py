"""The controller between launches: what strikes there, what is healed there, and that nothing stays broken. And faults
that hold nobody: looked for while the job goes on, driven while they last, healed when the run ends at the latest."""

from __future__ import annotations

import json
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaoskit import Job, faults
from chaoskit.capabilities import StoredCheckpoint
from chaoskit.engine import observation
from chaoskit.engine.controller import Controller
from chaoskit.engine.hang_watch import HangWatch
from chaoskit.engine.progress import quiet
from chaoskit.environments.environment import Arrived, Ended, ExtraEvent, RunSpec
from chaoskit.environments.local.environment import LocalEnvironment
from chaoskit.protocol.events import EventWriter, read_events
from tests.fake_network import FakeNetwork
from tests.history_writer import Writer

RANK = [sys.executable, "-I", "-S", str(Path(__file__).parents[1] / "environments" / "stub_rank.py")]


class Scripted:
    """Launches that do to `out/checkpoints` what they are told, and end with a code, or by Ctrl-C."""

    name = "scripted"

    def __init__(self, root, *launches):
        self.root, self.script, self.stopped, self.asides = root, launches, 0, 0
        self.saw = []
        (root / "out" / "checkpoints").mkdir(parents=True)

    @property
    def checkpoints(self):
        place = self.out() / "checkpoints"
        return sorted(path.name for path in place.iterdir()) if place.is_dir() else []

    def launch(self, index, command):
        self.index = index
        self.saw.append(self.checkpoints)
        return "cold"

    def wait(self, timeout):
        time.sleep(0.02)  # the clock of a file system is coarse
        made, code = self.script[self.index]
        for name in made:
            (self.out() / "checkpoints").mkdir(exist_ok=True)
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

    def stored_checkpoints(self):
        if not self.checkpoints:
            raise LookupError("nothing saved")
        return (StoredCheckpoint((f"checkpoints/{self.checkpoints[-1]}",), {"launch": 0, "restart": 0, "n": 1}),)

    def checkpoint_paths(self):
        if not self.checkpoints:
            raise LookupError("none is left")
        return tuple(f"checkpoints/{name}" for name in self.checkpoints)


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
    status, kinds, events = run(env, faults.file_bitflip().before_relaunch())
    assert status == "finished" and env.saw == [[], ["1", "2"]]
    assert kinds == [
        "launch.start", "launch.end",
        "fault.requested", "fault.applied", "fault.observed",
        "launch.start", "launch.end", "run.end",
    ]  # fmt: skip
    assert (tmp_path / "out" / "checkpoints" / "2").read_bytes() == bytes(4) + b"\x10" + bytes(4)
    evidence = {key: value for event in events for key, value in event.get("evidence", {}).items()}
    assert {"files", "saves", "spared", "seen"} <= evidence.keys()
    assert {"file", "offset", "bit", "before", "after"} <= evidence["files"][0].keys()


def test_a_job_that_ends_well_is_not_struck_any_more(tmp_path):
    status, kinds, _ = run(Scripted(tmp_path, (["1"], 0)), faults.file_bitflip().before_relaunch())
    assert status == "finished" and not any(kind.startswith("fault") for kind in kinds)


def test_the_last_launch_is_followed_by_nothing(tmp_path):
    env = Scripted(tmp_path, (["1"], 1))
    status, kinds, _ = run(env, faults.file_bitflip().before_relaunch(), relaunches=0)
    assert status == "gave-up" and "fault.applied" not in kinds


def test_the_fault_before_it_comes_first(tmp_path):
    env = Scripted(tmp_path, (["1"], 1), ([], 1), ([], 1), ([], 0))
    _, kinds, _ = run(env, faults.noop().at_step(1), faults.file_bitflip().before_relaunch())
    assert "fault.requested" not in kinds


def test_where_there_is_nothing_to_strike_the_fault_is_missed_and_the_job_goes_on(tmp_path):
    env = Scripted(tmp_path, ([], 1), (["1"], 1), ([], 0))
    status, kinds, events = run(env, faults.file_bitflip().before_relaunch(), faults.file_bitflip().before_relaunch())
    assert status == "finished" and kinds.count("fault.missed") == 2 and "fault.applied" not in kinds
    assert {e["evidence"]["missed"] for e in events if e.kind == "fault.missed"} == {"nothing saved"}


def test_an_effect_that_is_not_seen_is_waited_for_and_then_given_up_on(tmp_path, monkeypatch):
    monkeypatch.setattr(observation, "OBSERVE_WITHIN", 0.05)
    monkeypatch.setattr(type(faults.file_bitflip().action), "observed", lambda *_: None)
    env = Scripted(tmp_path, (["1"], 1), ([], 0))
    begun = time.monotonic()
    status, kinds, _ = run(env, faults.file_bitflip().before_relaunch())
    assert status == "finished" and "fault.applied" in kinds and "fault.observed" not in kinds
    assert time.monotonic() - begun >= 0.05


@pytest.mark.parametrize("launches", [1, 2])
def test_what_was_hidden_is_back_once_so_many_launches_have_ended(tmp_path, launches):
    env = Scripted(tmp_path, (["1"], 1), (["mine"], 1), ([], 1), ([], 0))
    status, kinds, _ = run(env, faults.hide(launches=launches).before_relaunch())
    assert status == "finished" and kinds.count("fault.healed") == 1
    assert env.saw == [[], [], ["1"], ["1"]] if launches == 1 else [[], [], ["mine"], ["1"]]
    assert env.checkpoints == ["1"]
    assert (tmp_path / "aside-1" / "checkpoints" / "mine.made-while-hidden").exists()


def test_what_is_hidden_cannot_be_hidden_once_more(tmp_path):
    env = Scripted(tmp_path, (["1"], 1), (["mine"], 1), ([], 0))
    _, kinds, _ = run(env, faults.hide().before_relaunch(), faults.hide().before_relaunch())
    assert env.saw == [[], [], ["1"]] and "fault.missed" in kinds and kinds.count("fault.healed") == 1


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
    place = RunSpec(tmp_path, tmp_path / "out", tmp_path, f"test-{uuid.uuid4().hex[:8]}", gated=True)
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
        faults.file_bitflip().before_relaunch(),
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


class Played(FakeNetwork):
    """Two nodes and what happens there, act by act: `Ended`, a step that rank 0 is about to take (its number), seconds
    that pass, a function of this; None is the next launch. With nothing left to play, the launch ends with 0."""

    name = "played"

    def __init__(self, root, *acts):
        super().__init__()
        self.root, self.acts = root, list(acts)
        self.released, self.states, self.held = [], [], None
        (root / "out").mkdir()

    def out(self):
        return self.root / "out"

    def launch(self, index, command):
        self.index = index
        return "cold"

    def wait(self, timeout):
        if self.held is not None:
            # Rank 0 is at its gate: nothing goes on.
            time.sleep(min(timeout, 0.05))
            return []
        act = self.acts.pop(0) if self.acts else Ended(self.index, 0)
        match act:
            case Ended():
                return [act]
            case float():
                # No longer than asked for: the rest follows.
                time.sleep(min(act, timeout))
                if act > timeout:
                    self.acts.insert(0, act - timeout)
                return []
            case int():
                self.held = act
                return [Arrived(0, self.index, 0, 100 + self.index, "step", act - 1)]
        act(self)
        return []

    def release(self, rank, *, keep_gating, until=0, names=0):
        self.released.append((self.held, keep_gating))
        self.held = None

    def stop(self):
        return ()

    def stacks(self):
        return {}


def chatter(env):
    """The job sends something both ways."""
    env.send("node0", "node1", 2)
    env.send("node1", "node0", 1)


def times(events, kind):
    return [event.t for event in events if event.kind == f"fault.{kind}"]


def test_nobody_is_held_for_what_only_shows_while_the_ranks_go_on(tmp_path):
    env = Played(tmp_path, 4, 5, 0.05, 6, chatter, 0.02, 7, 0.4, 8)
    status, kinds, events = run(env, faults.partition(seconds=0.4).at_step(5))
    assert status == "finished"
    assert kinds == [
        "launch.start", "fault.requested", "fault.applied", "fault.observed", "fault.healed", "launch.end", "run.end",
    ]  # fmt: skip
    # Once it is applied, no rank has to stop at its gate any more.
    assert env.released == [(4, True), (5, False), (6, False), (7, False), (8, False)]
    (applied,), (observed,), (healed,) = (times(events, kind) for kind in ("applied", "observed", "healed"))
    assert observed - applied > 0.04 and healed - applied >= 0.4
    evidence = next(event["evidence"] for event in events if event.kind == "fault.observed")
    assert evidence["lost"] == {"node0>node1": 2, "node1>node0": 1}
    assert applied < evidence["since"] < observed


def test_one_that_holds_is_observed_before_its_rank_goes_on(tmp_path):
    env = Played(tmp_path, 4, 5, 6)
    _, kinds, _ = run(env, faults.pause_node(node=1, seconds=0.1).at_step(5))
    assert env.released == [(4, True), (5, False), (6, False)]
    assert kinds[2:4] == ["fault.applied", "fault.observed"]


def test_it_is_looked_for_until_it_is_healed_and_once_more_then(tmp_path, monkeypatch):
    monkeypatch.setattr(observation, "OBSERVE_WITHIN", 0.01)
    monkeypatch.setattr(observation, "LOOK_AT_LEAST_EVERY", 60.0)
    monkeypatch.setattr(observation, "LOOK_EVERY", 60.0)
    env = Played(tmp_path, 5, 0.2, chatter, 0.3)
    _, kinds, _ = run(env, faults.partition(seconds=0.4).at_step(5))
    assert kinds[2:5] == ["fault.applied", "fault.observed", "fault.healed"]


def test_what_was_not_seen_by_then_was_not(tmp_path):
    env = Played(tmp_path, 5, 0.3, chatter, 0.1)
    _, kinds, events = run(env, faults.partition(seconds=0.1).at_step(5))
    assert "fault.observed" not in kinds
    healed = next(event["evidence"] for event in events if event.kind == "fault.healed")
    assert healed == {
        "lost": {"node0>node1": 0, "node1>node0": 0},
        "reaches_again": {"node0>node1": True, "node1>node0": True},
    }


def test_a_relaunch_does_not_wait_for_it(tmp_path):
    begun = time.monotonic()
    env = Played(tmp_path, 5, Ended(0, 1), 0.05, chatter, 0.05)
    status, kinds, events = run(env, faults.partition(seconds=30).at_step(5))
    assert status == "finished" and time.monotonic() - begun < 10
    # It was pending over the relaunch and is healed when the run ends.
    assert kinds == [
        "launch.start", "fault.requested", "fault.applied", "launch.end",
        "launch.start", "fault.observed", "launch.end", "fault.healed", "run.end",
    ]  # fmt: skip
    healed = next(event["evidence"] for event in events if event.kind == "fault.healed")
    assert healed["lost"] == {"node0>node1": 2, "node1>node0": 1} and not env.cuts


def test_the_next_fault_waits_until_it_was_seen(tmp_path):
    env = Played(tmp_path, 5, 6, chatter, 0.1, 6, 7, 8)
    _, kinds, _ = run(env, faults.partition(seconds=30).at_step(5), faults.noop().at_step(6))
    assert kinds[1:7] == [
        "fault.requested", "fault.applied", "fault.observed",
        "fault.requested", "fault.applied", "fault.observed",
    ]  # fmt: skip
    # A fault is to come: the ranks go on stopping at their gates.
    assert env.released == [(5, True), (6, True), (6, False), (7, False), (8, False)]


def test_what_strikes_before_a_relaunch_waits_for_it_too(tmp_path):
    env = Played(tmp_path, 5, Ended(0, 1), chatter, 0.05, Ended(1, 1))
    _, kinds, _ = run(env, faults.partition(seconds=30).at_step(5), faults.noop().before_relaunch())
    assert kinds == [
        "launch.start", "fault.requested", "fault.applied", "launch.end",
        "launch.start", "fault.observed", "launch.end", "fault.requested", "fault.applied", "fault.observed",
        "launch.start", "launch.end", "fault.healed", "run.end",
    ]  # fmt: skip


def interrupt(env):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("acts", "relaunches", "status"),
    [((), 3, "finished"), ((Ended(0, 1),), 0, "gave-up"), ((interrupt,), 3, "raised")],
)
def test_however_the_run_ends_everything_is_healed(tmp_path, acts, relaunches, status):
    env = Played(tmp_path, 5, chatter, 0.05, *acts)
    cut, slow = faults.partition(seconds=30).at_step(5), faults.delay(node=1, ms=5, seconds=30).after(0)
    ended, kinds, _ = run(env, cut, slow, relaunches=relaunches)
    assert ended == status and not env.cuts and not env.slow
    assert kinds[-3:] == ["fault.healed", "fault.healed", "run.end"] and "launch.end" in kinds[:-3]


def test_a_pause_that_outlives_the_job_is_healed_too(tmp_path):
    env = Played(tmp_path, 5)
    _, kinds, _ = run(env, faults.pause_node(node=1, seconds=30).at_step(5))
    assert kinds[-3:] == ["launch.end", "fault.healed", "run.end"] and not env.frozen


@dataclass(frozen=True)
class Clockwork:
    """A fault that counts how often it is driven."""

    heal_after: float
    name, needs, heal_launches = "clockwork", (), None
    tick_every = 0.05

    def victims(self, world_size):
        return range(world_size)

    def apply(self, env, world_size):
        return {"ticks": 0}

    def tick(self, env, applied):
        env.states.append(applied["ticks"])
        return {"ticks": applied["ticks"] + 1}

    def observed(self, env, applied):
        return applied if applied["ticks"] else None

    def heal(self, env, applied):
        return {"in_all": applied["ticks"]}

    def to_json(self):
        return {"kind": self.name}


def test_a_fault_is_driven_while_it_lasts(tmp_path):
    env = Played(tmp_path, 5, 0.8, 6, 0.2)
    _, kinds, events = run(env, faults.Fault(Clockwork(0.6)).at_step(5))
    assert kinds[2:5] == ["fault.applied", "fault.observed", "fault.healed"]
    assert 2 <= len(env.states) <= 12 and env.states == list(range(len(env.states)))
    applied, observed, healed = (event["evidence"] for event in events if event.kind in kinds[2:5])
    assert (applied, observed, healed) == ({"ticks": 0}, {"ticks": 1}, {"in_all": len(env.states)})


def test_a_link_flaps_while_the_job_goes_on(tmp_path):
    acts = [act for _ in range(8) for act in (0.05, chatter, lambda env: env.states.append(bool(env.cuts)))]
    env = Played(tmp_path, 5, *acts)
    _, kinds, events = run(env, faults.flap(node=1, times=50, down=0.1, up=0.1).at_step(5))
    healed = next(event["evidence"] for event in events if event.kind == "fault.healed")
    assert healed["downs"] > 1 and set(env.states) == {True, False} and not env.cuts
    assert kinds.count("fault.observed") == kinds.count("fault.healed") == 1


def test_to_look_costs_less_and_less(tmp_path, monkeypatch):
    looks = []
    monkeypatch.setattr(FakeNetwork, "lost", lambda *_: looks.append(time.monotonic()) or {})
    env = Played(tmp_path, 5, *[0.001] * 400, 0.3)
    run(env, faults.partition(seconds=30).at_step(5))
    assert 5 < len(looks) < 200
    assert looks[5] - looks[0] >= 5 * observation.LOOK_EVERY


@pytest.mark.parametrize(("kind", "signs"), [("metadata", 1), ("node.started", 4)])
def test_a_daemon_that_asks_for_notices_is_no_sign_that_the_job_goes_on(tmp_path, monkeypatch, kind, signs):
    """Else a job that hangs beside it is left to its deadline."""
    told = [[ExtraEvent(kind, {})] for _ in range(3)]

    class Asked(Scripted):
        def wait(self, timeout):
            return told.pop() if told else super().wait(timeout)

    alive = []
    monkeypatch.setattr(HangWatch, "alive", lambda self, now: alive.append(now))
    status, kinds, _ = run(Asked(tmp_path, ([], 0)))
    assert (status, len(alive), kinds.count(kind)) == ("finished", signs, 3)
