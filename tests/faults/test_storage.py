"""Faults of the storage: what they ask of an environment, when they count as observed, what they refuse, what becomes
of a save that they met; and the experiments, each of which a trainer fails that is broken in what it is about."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.capabilities import CanFailStorage, InjectedIOError
from chaoskit.checks import ridden_out
from chaoskit.engine import ranks_ahead
from chaoskit.engine.controller import Controller
from chaoskit.engine.progress import quiet
from chaoskit.environments.environment import Arrived, Ended
from chaoskit.environments.fusefs.storage import trial
from chaoskit.errors import UsageError
from chaoskit.faults.fault import action_traits
from chaoskit.protocol.events import Event, EventWriter, read_events
from chaoskit.verdict import Outcome
from tests.fake_storage import FakeStorage
from tests.history_writer import Writer

ROOT = Path(__file__).resolve().parents[2]
MODIFYING = ("create", "mkdir", "symlink", "link", "write", "truncate", "rename", "unlink", "rmdir", "chmod")
TAKING_SPACE = ("create", "mkdir", "symlink", "write")

#: By name: a fault with every argument that it has, what it asks for, and how it is told.
MADE = {
    "disk_full": (
        faults.disk_full(after_bytes=9, files="checkpoints/*", until_step=7, launches=0),
        InjectedIOError(operations=TAKING_SPACE, files="checkpoints/*", error="ENOSPC", after_bytes=9),
        "fill the disk after 9 more bytes (checkpoints/*) until step 7 or until the end of the launch",
    ),
    "quota": (
        faults.quota(files="latest", seconds=2, launches=1),
        InjectedIOError(operations=TAKING_SPACE, files="latest", error="EDQUOT"),
        "exhaust the quota (latest) until the end of the launch 1 launch later or for 2 s",
    ),
    "io_error": (
        faults.io_error(times=2, operations=("write", "fsync"), files="a*", error="ESTALE", seconds=9),
        InjectedIOError(operations=("write", "fsync"), files="a*", error="ESTALE", times=2),
        "fail 2 write or fsync with ESTALE (a*) for 9 s",
    ),
    "slow_storage": (
        faults.slow_storage(delay=0.5, times=3, operations=("fsync",), files="b", seconds=4),
        InjectedIOError(operations=("fsync",), files="b", seconds=0.5, times=3),
        "hold back 3 fsync by 0.5 s (b) for 4 s",
    ),
    "read_only": (
        faults.read_only(files="c", launches=2),
        InjectedIOError(operations=MODIFYING, files="c", error="EROFS"),
        "make the storage read-only (c) until the end of the launch 2 launches later",
    ),
    "late_names": (
        faults.late_names(delay=1, until_step=3),
        InjectedIOError(seconds=1.0, late=True),
        "show new names 1 s late to others until step 3",
    ),
    "storage_gone": (
        faults.storage_gone(error="ESTALE", files="d", until_step=3),
        InjectedIOError(files="d", error="ESTALE"),
        "take the storage away (ESTALE) (d) until step 3",
    ),
}  # fmt: skip


def strike(fault, storage):
    """Apply it; what it tells comes back from JSON, as from the record."""
    return json.loads(json.dumps(fault.action.apply(storage, 4)))


def test_the_fake_can_what_these_faults_need():
    assert isinstance(FakeStorage(), CanFailStorage)


@pytest.mark.parametrize("kind", MADE)
def test_what_a_fault_asks_for_and_how_it_is_told(kind):
    fault, trouble, text = MADE[kind]
    storage = FakeStorage()
    assert strike(fault, storage) == {"trouble": 1, "error": trouble.error}
    assert storage.troubles[1] == trouble
    assert str(fault) == text
    assert fault.action.needs == (CanFailStorage,) and list(fault.action.victims(3)) == [0, 1, 2]
    assert not action_traits(fault.action).holds, "it shows only while the ranks go on"


@pytest.mark.parametrize("kind", MADE)
def test_a_fault_comes_back_from_json(kind):
    fault = MADE[kind][0].during_save(2)
    told = json.loads(json.dumps(fault.to_json()))
    assert told["action"]["kind"] == kind and faults.from_json(told) == fault
    assert hash(fault) == hash(faults.from_json(told))


def test_what_holds_where_nothing_is_said():
    bare = faults.disk_full(seconds=3)
    assert bare.action.to_json() == {"kind": "disk_full", "seconds": 3.0}
    assert str(bare.during_save(2)) == "fill the disk for 3 s in the middle of save 2"
    assert faults.io_error().action.trouble == InjectedIOError(operations=("write",), error="EIO", times=1)
    assert faults.slow_storage(delay=1, seconds=2).action.trouble.operations == ("write", "fsync", "fsyncdir")
    assert faults.storage_gone(seconds=2).action.trouble == InjectedIOError()
    assert str(faults.slow_storage(delay=1, seconds=2)) == "hold back every write/fsync/fsyncdir by 1 s for 2 s"


def test_it_is_observed_once_a_request_of_the_job_has_met_it_and_healed_with_the_count():
    storage, fault = FakeStorage(), faults.disk_full(after_bytes=100, seconds=3)
    told = strike(fault, storage)
    assert storage.ask("write", "a", size=100) is None and storage.ask("unlink", "a") is None
    assert fault.action.observed(storage, told) is None, "nothing was refused yet"
    assert storage.ask("write", "a", size=1) == "ENOSPC" and storage.ask("mkdir", "b") == "ENOSPC"
    seen = fault.action.observed(storage, told)
    assert seen["met"] == {"count": 2, "operations": {"write": 1, "mkdir": 1}, "files": ["a", "b"]}
    assert seen["since"] > 0 and "used_up" not in seen
    storage.ask("write", "a", size=1)
    assert fault.action.heal(storage, told)["met"]["count"] == 3
    assert storage.ask("write", "a", size=1) is None


def test_an_error_that_was_for_a_few_requests_is_over_with_the_last():
    storage, fault = FakeStorage(), faults.io_error(times=2)
    told = strike(fault, storage)
    assert storage.ask("fsync", "a") is None and storage.ask("write", "a") == "EIO"
    assert fault.action.observed(storage, told) is None
    assert storage.ask("write", "b") == "EIO" and storage.ask("write", "b") is None
    seen = fault.action.observed(storage, told)
    assert seen["used_up"] == seen["since"] and seen["met"]["count"] == 2


def test_a_quota_is_hit_by_its_files_alone():
    storage, fault = FakeStorage(), faults.quota(files="latest*", launches=0)
    strike(fault, storage)
    assert storage.ask("write", "step-4/shard") is None
    assert storage.ask("create", "checkpoints/latest.tmp") == "EDQUOT"


def test_a_storage_that_is_read_only_can_be_read():
    storage, fault = FakeStorage(), faults.read_only(seconds=1)
    strike(fault, storage)
    assert {
        kind: storage.ask(kind, "a") for kind in ("read", "lookup", "list", "space", "fsync")
    } == dict.fromkeys(("read", "lookup", "list", "space", "fsync"))
    assert {storage.ask(kind, "a") for kind in MODIFYING} == {"EROFS"}


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: faults.disk_full(), "disk_full: give seconds=..., until_step=... or launches=..."),
        (lambda: faults.disk_full(after_bytes=-1, seconds=1), "after_bytes must be a whole number from 0, not -1"),
        (lambda: faults.disk_full(after_bytes=0.5, seconds=1), "disk_full: after_bytes"),
        (lambda: faults.disk_full(seconds=0), "disk_full: seconds must be a positive number"),
        (lambda: faults.disk_full(until_step=0), "disk_full: until_step must be a whole number from 1"),
        (lambda: faults.disk_full(launches=True), "disk_full: launches must be a whole number from 0"),
        (lambda: faults.disk_full(files="", seconds=1), "disk_full: files must be a shell pattern"),
        (lambda: faults.quota(files=None, seconds=1), "quota: files"),
        (lambda: faults.quota(files="a"), "quota: give"),
        (lambda: faults.io_error(times=0), "io_error: times must be a whole number from 1"),
        (lambda: faults.io_error(operations=()), "io_error: operations must be some of create"),
        (lambda: faults.io_error(operations=("write", "sync")), "not 'sync'"),
        (lambda: faults.io_error(operations="write"), "io_error: operations"),
        (lambda: faults.io_error(error="EVIL"), "io_error: error must be the name of a system error"),
        (lambda: faults.io_error(seconds=None), "io_error: give|io_error: seconds"),
        (lambda: faults.slow_storage(delay=0, seconds=1), "slow_storage: delay must be a positive number"),
        (lambda: faults.slow_storage(delay=1), "slow_storage: give"),
        (lambda: faults.slow_storage(delay=1, times=0, seconds=1), "slow_storage: times"),
        (lambda: faults.slow_storage(delay=1, operations=("x",), seconds=1), "slow_storage: operations"),
        (lambda: faults.read_only(), "read_only: give"),
        (lambda: faults.read_only(files=3, seconds=1), "read_only: files"),
        (lambda: faults.late_names(delay=-1, seconds=1), "late_names: delay"),
        (lambda: faults.late_names(delay=1), "late_names: give"),
        (lambda: faults.storage_gone(launches=0), "storage_gone: give seconds=..., or error=..."),
        (lambda: faults.storage_gone(error="EIO"), "storage_gone: give"),
        (lambda: faults.storage_gone(error=5, seconds=1), "storage_gone: error"),
    ],
)
def test_arguments_are_validated(make, named):
    with pytest.raises(UsageError, match=named):
        make()


# When they are healed.


class Played(FakeStorage):
    """A job whose rank 0 takes step after step, each of which writes a line; `ends` are the steps at which a launch
    ends with an error. It stops at its gate while it is told to."""

    name = "played"

    def __init__(self, *ends, steps=12):
        super().__init__()
        self.ends, self.steps, self.step, self.gated, self.refused = list(ends), steps, 0, [], []

    def launch(self, index, command):
        self.index, self.gating = index, True
        return "cold"

    def wait(self, timeout):
        self.step += 1
        if self.step > self.steps:
            return [Ended(self.index, 0)]
        if self.step in self.ends:
            self.ends.remove(self.step)
            return [Ended(self.index, 1)]
        if self.gating:
            return [Arrived(0, self.index, 0, 100, "step", self.step - 1)]
        self.write()
        return []

    def release(self, rank, *, keep_gating, until=0, names=0):
        self.gating = keep_gating
        self.gated.append(self.step)
        self.write()

    def write(self):
        if self.ask("write", "log") is not None:
            self.refused.append(self.step)

    def stop(self):
        return ()


def play(env, tmp_path, *schedule):
    (tmp_path / "out").mkdir()
    record = tmp_path / "harness.jsonl"
    status = Controller(
        env=env,
        job=Job.from_command(["true"], relaunches=3),
        out=tmp_path / "out",
        faults=schedule,
        reference=Writer(ranks=1).case().reference,
        writer=EventWriter(record),
        deadline=60,
        progress=quiet,
    ).run()
    kinds = [event.kind for event in read_events(record)]
    return status, [kind for kind in kinds if kind.startswith(("fault.", "launch.end"))][len(schedule) :]


def test_it_is_healed_before_that_step_and_until_then_ranks_stop_at_their_gates(tmp_path):
    env = Played()
    status, kinds = play(env, tmp_path, faults.read_only(until_step=8, launches=0).at_step(5))
    assert status == "finished" and env.refused == [5, 6, 7] and env.gated == list(range(1, 9))
    assert kinds[:4] == ["fault.requested", "fault.applied", "fault.observed", "fault.healed"]


def test_the_next_fault_strikes_at_the_very_step_that_heals_it(tmp_path):
    env = Played()
    status, kinds = play(
        env, tmp_path, faults.read_only(until_step=8).at_step(5), faults.io_error(files="log").at_step(8)
    )
    assert status == "finished" and env.refused == [5, 6, 7, 8]
    assert kinds.count("fault.observed") == 2 and kinds[3] == "fault.healed"


def test_or_it_is_healed_when_the_launch_has_ended(tmp_path):
    env = Played(7)
    _, kinds = play(env, tmp_path, faults.read_only(until_step=10, launches=0).at_step(5))
    assert env.refused == [5, 6]
    assert kinds[2:5] == ["fault.observed", "launch.end", "fault.healed"] and kinds.count("fault.healed") == 1


def test_or_when_the_run_ends_at_the_latest(tmp_path):
    env = Played(steps=7)
    _, kinds = play(env, tmp_path, faults.read_only(until_step=10).at_step(5))
    assert env.refused == [5, 6, 7] and kinds[-1] == "fault.healed" and env.mended == {1}


def test_what_nobody_has_met_was_not_observed(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks_ahead, "OBSERVE_WITHIN", 0)
    env = Played()
    status, kinds = play(env, tmp_path, faults.read_only(files="checkpoints/*", until_step=8).at_step(5))
    assert status == "finished" and env.refused == []
    assert kinds[:3] == ["fault.requested", "fault.applied", "fault.healed"] and "fault.observed" not in kinds


# What becomes of a save that met it.


def during(run, step, *, error, used_up=None):
    """The storage failed from right before the save after `step` (true and local) until two steps later."""
    t = max(event.t for event in run.events if event.kind == "step" and event["n"] == step)
    evidence = {"trouble": 1, "error": error, **({} if used_up is None else {"used_up": t + used_up})}
    for kind, at, more in (
        ("planned", -0.5, {"what": {"text": "the storage fails"}}),
        ("applied", -0.5, {"evidence": evidence}),
        ("observed", 0.5, {}),
        ("healed", 2.5, {}),
    ):
        run.events.append(Event(f"fault.{kind}", t + at, "harness", {"fault": run.faults, **more}))
    run.faults += 1
    return run


def resumed(run, base):
    """Killed now; the next launch goes on from `base` to the end."""
    return run.fault().died().launch().live(base=base, ends=True).exit(0).end().case()


@pytest.mark.parametrize(
    ("error", "back_to", "codes"),
    [
        ("EIO", 40, ()),
        ("EIO", 20, ()),
        ("EIO", 0, ("restarted-from-scratch",)),
        (None, 40, ()),
        (None, 20, ("stale-checkpoint",)),
    ],
)
def test_a_save_that_met_errors_may_have_become_a_checkpoint_or_not(error, back_to, codes):
    run = during(Writer().launch().live(until=45), 40, error=error)
    case = resumed(run, back_to)
    assert checks.resumed_from_last_valid()(case).codes == codes
    hindered = [one.hindered for one in case.checkpoints if one.incarnation == 0]
    assert hindered == [False, error is not None]


def test_errors_that_were_used_up_before_hinder_nothing():
    run = during(Writer().launch().live(until=45), 40, error="EIO", used_up=-0.2)
    assert checks.resumed_from_last_valid()(resumed(run, 20)).codes == ("stale-checkpoint",)


@pytest.mark.parametrize("hindered", [True, False])
def test_a_save_that_failed_and_was_made_again_elsewhere(hindered):
    run = Writer().launch().live(until=40, saves=False, extra={20: "step-{}.pt"})
    run = run.save(ok=False, path="try-1-of-{}").save(path="try-2-of-{}")
    run = during(run, 40, error="EIO") if hindered else run
    verdict = checks.resumed_from_last_valid()(resumed(run, 40))
    assert verdict.outcome is (Outcome.PASS if hindered else Outcome.INCONCLUSIVE), verdict


@pytest.mark.parametrize("hindered", [True, False])
def test_no_save_can_be_asked_of_a_job_whose_storage_fails(hindered):
    run = Writer().launch().live(until=45, saves=False, extra={20: "step-{}.pt"})
    run = during(run, 40, error="ENOSPC") if hindered else run
    verdict = checks.resumed_from_last_valid()(resumed(run, 20))
    assert verdict.codes == (() if hindered else ("stale-checkpoint",)), verdict


def test_ridden_out_of_some_faults_alone():
    run = Writer().launch().live(until=45, pause=5)
    case = resumed(run, 40)
    assert ridden_out(faults=(0,))(case).outcome is Outcome.PASS
    assert ridden_out(faults=[1])(case).codes == ridden_out()(case).codes == ("needless-restart",)
    assert ridden_out(faults=(2,))(case).codes == ("fault-not-observed",)
    for made in (ridden_out(), ridden_out(faults=(0, 2))):
        assert checks.from_json(json.loads(json.dumps(made.to_json()))) == made
    for wrong in ((), 0, ("a",), (-1,), (True,)):
        with pytest.raises(UsageError, match="ridden_out: faults"):
            ridden_out(faults=wrong)


# The experiments, on the real thing.


@pytest.mark.launches
@pytest.mark.parametrize(
    ("broken", "experiment", "codes"),
    [
        pytest.param("sound", "test_disk_full", set(), marks=pytest.mark.slow),
        pytest.param("sound", "test_quota_on_pointer", set(), marks=pytest.mark.slow),
        ("sound", "test_transient_error", set()),
        pytest.param("sound", "test_late_names", set(), marks=pytest.mark.slow),
        pytest.param("counted", "test_disk_full", {"torn-checkpoint", "crash-loop"}, marks=pytest.mark.slow),
        pytest.param("pointer", "test_quota_on_pointer", {"crash-loop"}, marks=pytest.mark.slow),
        ("fatal", "test_transient_error", {"needless-restart"}),
        pytest.param("watchdog", "test_slow_storage", {"needless-restart"}, marks=pytest.mark.slow),
        pytest.param("watchdog", "test_storage_gone", {"needless-restart"}, marks=pytest.mark.slow),
        pytest.param("gives-up", "test_read_only", {"stale-checkpoint"}, marks=pytest.mark.slow),
        pytest.param("gives-up", "test_stale_handles", {"stale-checkpoint"}, marks=pytest.mark.slow),
        pytest.param("visible", "test_late_names", {"needless-restart"}, marks=pytest.mark.slow),
    ],
)
def test_who_is_broken_in_one_place_fails_for_that(shared_store, tmp_path, broken, experiment, codes):
    if (why := trial()) is not None:
        pytest.skip(why)
    answer = tmp_path / "answer.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "chaoskit", "run", "--dir", str(shared_store.root), "--json", str(answer)),
            *("--launch", "warm", "--no-proof", "-k", experiment, "--"),
            *(str(Path(sys.executable).parent / "torchrun"), "--nproc-per-node", "2"),
            *(str(ROOT / "tests" / "trainers" / "storing.py"), "--out", "{out}", broken),
        ],
        cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=240, check=False,
    )  # fmt: skip
    assert answer.exists(), done.stdout + done.stderr
    (one,) = json.loads(answer.read_text())["experiments"]
    assert one["verdict"] == ("fail" if codes else "pass"), one
    assert set(one["codes"]) == codes, one


class OnNodes(FakeStorage):
    """A storage of two nodes."""

    def nodes(self):
        return ("node0", "node1")


def test_a_fault_for_some_nodes_names_them_to_the_environment():
    for node, names in ((1, ("node1",)), (-2, ("node0",)), ((1, 0), ("node1", "node0")), ("all", ("node0", "node1"))):
        fault = faults.disk_full(node=node, launches=0)
        env = OnNodes()
        applied = fault.action.apply(env, 2)
        assert env.troubles[applied["trouble"]].nodes == names == tuple(applied["nodes"])
        assert faults.from_json(fault.at_step(3).to_json()) == fault.at_step(3)
    assert action_traits(faults.disk_full(node="all", launches=0).action).some_nodes
    assert not action_traits(faults.disk_full(launches=0).action).some_nodes
    assert action_traits(faults.read_only(node=(0, 1), launches=0).action).nodes_meant == (0, 1)
    assert "for node 1" in str(faults.io_error(node=1))


@pytest.mark.parametrize("node", [True, "node1", (), (1, 1), 1.0])
def test_what_is_no_node_is_refused(node):
    with pytest.raises(UsageError, match="node"):
        faults.slow_storage(delay=1, node=node, launches=0)


def test_a_node_that_is_not_up_cannot_be_struck():
    with pytest.raises(LookupError, match="node 2 is not up"):
        faults.disk_full(node=2, launches=0).action.apply(OnNodes(), 2)
