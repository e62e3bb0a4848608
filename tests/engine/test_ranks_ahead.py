"""Ranks that reach the end of a storage fault before the thread that writes has met it."""

import time

from chaoskit import Job, faults
from chaoskit.engine import ranks_ahead
from chaoskit.engine.controller import Controller
from chaoskit.engine.progress import quiet
from chaoskit.environments.environment import Arrived, Ended
from chaoskit.protocol.events import EventWriter, read_events
from tests.fake_storage import FakeStorage
from tests.history_writer import Writer


class WritesLate(FakeStorage):
    """One rank, whose save of step 5 is written `late` seconds after its step 6 began; steps take no time. `released`
    are the steps that it was let go for."""

    name = "late"

    def __init__(self, late, *, restarts_at=0):
        super().__init__()
        self.late, self.restarts_at = late, restarts_at
        self.step, self.due, self.held = 0, None, False
        self.released, self.written = [], None

    def launch(self, index, command):
        self.index = index
        return "cold"

    def wait(self, timeout):
        if self.due is not None and time.monotonic() >= self.due:
            self.due, self.written = None, self.ask("write", "checkpoints/5") or "whole"
        if self.held:
            time.sleep(min(timeout, 0.01))
            return []
        self.step += 1
        if self.step == 6:
            self.due = time.monotonic() + self.late
        if self.step > 20:
            return [Ended(self.index, 0)]
        self.held = True
        return [Arrived(0, self.index, 0, 100, "step", self.step - 1)]

    def release(self, rank, *, keep_gating, until=0, names=0):
        self.released.append(self.step)
        self.held = False

    def stop(self):
        return ()


def play(tmp_path, env, *schedule):
    (tmp_path / "out").mkdir()
    record = tmp_path / "harness.jsonl"
    Controller(
        env=env,
        job=Job.from_command(["true"]),
        out=tmp_path / "out",
        faults=schedule,
        reference=Writer(ranks=1).case().reference,
        writer=EventWriter(record),
        deadline=60,
        progress=quiet,
    ).run()
    return [(event.kind, event["fault"]) for event in read_events(record) if event.kind.startswith("fault.")][
        len(schedule) :
    ]


def test_a_rank_waits_at_the_step_that_ends_the_fault(tmp_path):
    env = WritesLate(0.3)
    told = play(tmp_path, env, faults.disk_full(until_step=8).at_step(5))
    assert env.written == "ENOSPC" and env.released == list(range(1, 21))
    assert [kind for kind, _ in told] == ["fault.requested", "fault.applied", "fault.observed", "fault.healed"]


def test_and_at_the_step_of_the_next_fault(tmp_path):
    env = WritesLate(0.3)
    again = faults.io_error(files="checkpoints/*", times=1)
    told = play(tmp_path, env, again.at_step(5), faults.noop().at_step(8))
    assert env.written == "EIO"
    assert told.index(("fault.observed", 0)) < told.index(("fault.requested", 1))
    assert ("fault.observed", 1) in told


def test_its_patience_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks_ahead, "OBSERVE_WITHIN", 0.1)
    env = WritesLate(30)
    told = play(tmp_path, env, faults.disk_full(until_step=8).at_step(5))
    assert env.written is None and env.released == list(range(1, 21))
    assert ("fault.observed", 0) not in told and ("fault.healed", 0) in told


def test_what_was_observed_delays_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks_ahead.RanksAhead, "timers", lambda self: [] if not self._waiting else 1 / 0)
    env = WritesLate(0.0)
    told = play(tmp_path, env, faults.disk_full(until_step=12).at_step(5))
    assert env.written == "ENOSPC" and ("fault.observed", 0) in told


def test_no_collective_gives_up_meanwhile():
    reference = Writer(ranks=1).case().reference
    assert ranks_ahead.patience(reference) == ranks_ahead.patience(None) == ranks_ahead.OBSERVE_WITHIN
    for control in reference.controls:
        control.incarnations[0].ranks[0].group_timeout = 6.0
    assert ranks_ahead.patience(reference) == 2.0
