"""Faults that make numbers wrong: in the step that was meant, once or again, seen or not."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit import Job, checks, faults, targets
from chaoskit.capabilities import CanCorruptNumbers
from chaoskit.engine.controller import Controller
from chaoskit.engine.progress import quiet
from chaoskit.engine.runner import Runner
from chaoskit.environments.environment import Arrived, Ended
from chaoskit.errors import UsageError
from chaoskit.protocol.events import EventWriter, read_events
from chaoskit.validation import LARGEST
from tests.history_writer import Writer

STEPS = 60


class Rank:
    """Trains from `base` on to the last step (or dies with step `dies`), stops where it is told to, and makes a number
    wrong in the step that its order is for: `struck` has the true steps. Where it comes to the first of `back`, it goes
    back to the second, once."""

    def __init__(self, env, rank, base, dies):
        self.env, self.rank, self.base, self.dies = env, rank, base, dies
        self.n = 0
        self.at = "start"
        self.gate, self.until, self.orders = True, 0, []
        self.back = env.back
        self.loaded = False

    @property
    def done(self):
        return self.base + self.n >= (self.dies or STEPS)

    def next(self):
        """Go on to the next gate; the arrival there, or None where it need not stop, or has come to its end."""
        if self.at == "step":
            self._strike(held=True)
            self.n, self.loaded = self.n + 1, False
        if self.back is not None and self.base + self.n == self.back[0]:
            self.base -= self.back[0] - self.back[1]
            self.back, self.loaded = None, True
        if self.done:
            self.env.gone(self)
            return None
        self._strike(held=False)
        self.at = "step"
        return self.arrived() if self.gate and (self.loaded or self.n >= self.until) else None

    def arrived(self):
        self.env.stopped.append((self.rank, self.at, self.base + self.n))
        step = self.env.reference.step(self.rank, self.base + self.n + 1)
        record = {"n": self.n + 1, "state": step.components, "loaded": self.loaded} if self.at == "step" else None
        pid = 100 * (1 + self.env.index) + self.rank
        return Arrived(self.rank, self.env.index, 0, pid, self.at, self.n, 1, record)

    def let_go(self, keep_gating, until, names):
        self.gate, self.until = keep_gating, until
        if names:
            self.env.named.append((self.rank, self.base + self.n + 1 + (self.at == "step"), names))
        self.orders += self.env.undelivered.pop(self.rank, [])

    def _strike(self, held):
        """As the step is computed, and as its update is taken; what is to come again is kept first."""
        for order in list(self.orders):
            if (order["into"]["kind"] in targets.HELD) is held:
                if order["how"]["kind"] == "stale" and "kept" not in order:
                    order["kept"] = True
                else:
                    self.orders.remove(order)
                    self.env.tell(self, order)


class Ranks:
    """Launches of two ranks, which take turns; each launch is (base, the step with which it dies)."""

    name = "ranks"

    def __init__(self, *launches, refuse=None, back=None):
        self.reference = Writer().case().reference
        self.script, self.refuse, self.back = list(launches), refuse, back
        self.numbers, self.said, self.undelivered = count(1), {}, {}
        self.stopped, self.named, self.struck, self.waiting, self.held = [], [], [], [], {}

    def launch(self, index, command):
        self.index = index
        base, dies = self.script[index]
        self.ranks = [Rank(self, rank, base, dies) for rank in range(2)]
        self.turn = [rank.arrived() for rank in self.ranks]
        self.living = {rank.rank: rank for rank in self.ranks}
        return "cold"

    def wait(self, timeout):
        if self.turn:
            return [self.turn.pop(0)]
        if not self.living:
            return [Ended(self.index, 1 if self.script[self.index][1] else 0)]
        free = [rank for rank in self.living.values() if rank.rank not in self.held]
        assert free, "everybody is held"
        rank = min(free, key=lambda each: each.base + each.n)
        found = rank.next()
        if found is not None:
            self.held[rank.rank] = found
        return [found] if found is not None else []

    def release(self, rank, *, keep_gating, until=0, names=0):
        self.held.pop(rank, None)
        self.living[rank].let_go(keep_gating, until, names)

    def gone(self, rank):
        del self.living[rank.rank]
        for order in [*rank.orders, *self.undelivered.pop(rank.rank, [])]:
            self.said[rank.rank, order["id"]] = {"refused": "the rank was gone before it came to that"}

    def corrupt(self, rank, order):
        number = next(self.numbers)
        if rank not in self.living:
            raise LookupError(f"rank {rank} is not connected")
        self.undelivered.setdefault(rank, []).append({**order, "id": number})
        return number

    def tell(self, rank, order):
        if self.refuse:
            self.said[rank.rank, order["id"]] = {"refused": self.refuse}
            return
        step = rank.base + rank.n + 1
        self.struck.append((rank.rank, step))
        self.said[rank.rank, order["id"]] = {
            "rank": rank.rank,
            "launch": self.index,
            "restart": 0,
            "n": rank.n + 1,
        }

    def corrupted(self, rank, number):
        return self.said.get((rank, number))

    def stop(self):
        return ()

    def stacks(self):
        return {}


def carry(tmp_path, env, *schedule):
    """What became of the faults: the events' kinds, and those events."""
    (tmp_path / "out").mkdir(exist_ok=True)
    writer = EventWriter(tmp_path / "harness.jsonl")
    Controller(
        env=env,
        job=Job.from_command(["true"], relaunches=3),
        out=tmp_path / "out",
        faults=schedule,
        reference=env.reference,
        writer=writer,
        deadline=60,
        progress=quiet,
    ).run()
    writer.close()
    events = [event for event in read_events(tmp_path / "harness.jsonl") if event.kind.startswith("fault.")]
    return [event.kind for event in events if event.kind != "fault.planned"], events


ONCE = ["fault.requested", "fault.applied", "fault.observed"]


def test_the_fake_can_what_these_faults_need():
    assert isinstance(Ranks(), CanCorruptNumbers)


@pytest.mark.parametrize("step", [1, 2, 3, 25, STEPS])
@pytest.mark.parametrize("into", ["loss", "gradient", "collective:all_reduce", "parameter", "optimizer", "lr"])
@pytest.mark.parametrize("make", [faults.nan, faults.stale])
def test_it_strikes_in_the_step_that_was_meant(tmp_path, make, into, step):
    if make is faults.stale and step == 1:
        with pytest.raises(UsageError, match="at_step must be 2 or later: step 1 has none before it"):
            make(rank=1, into=into).at_step(step)
        return
    env = Ranks((0, None))
    kinds, events = carry(tmp_path, env, make(rank=1, into=into).at_step(step))
    assert env.struck == [(1, step)] and kinds == ONCE
    assert events[-1]["evidence"] == {"rank": 1, "launch": 0, "restart": 0, "n": step}


def test_until_it_comes_nobody_stops_and_then_every_rank_records_its_tensors(tmp_path):
    env = Ranks((0, None))
    carry(tmp_path, env, faults.nan(rank=1).at_step(25))
    starts = [(0, "start", 0), (1, "start", 0)]
    # At 22 both are told to record their tensors from step 24 on; at 23 rank 1 is told what to do in step 25.
    assert env.stopped == [*starts, (0, "step", 22), (1, "step", 22), (1, "step", 23)]
    assert env.named[:2] == [(0, 24, 20), (1, 24, 20)]


def test_early_tensors_are_asked_for_at_the_start(tmp_path):
    for make in (faults.nan, faults.stale):
        env = Ranks((0, None))
        carry(tmp_path, env, make(rank=0).at_step(2))
        assert {(0, 1, 20), (1, 1, 20)} <= set(env.named)
        (tmp_path / "harness.jsonl").unlink()


def test_of_all_ranks_each_is_struck_at_its_own_moment_and_it_is_one_fault(tmp_path):
    for step in (1, 2, 30):
        env = Ranks((0, None))
        kinds, events = carry(
            tmp_path, env, faults.lr_spike(100).at_step(step), faults.nan(rank="all").at_step(40)
        )
        assert env.struck == [(0, step), (1, step), (0, 40), (1, 40)] and kinds == ONCE * 2
        assert [each["rank"] for each in events[-1]["evidence"]["others"]] == [1]
        (tmp_path / "harness.jsonl").unlink()


def test_a_step_that_comes_again_is_not_struck_again(tmp_path):
    env = Ranks((0, 30), (20, None))
    kinds, _ = carry(tmp_path, env, faults.nan(rank=1).at_step(25))
    assert env.struck == [(1, 25)] and kinds == ONCE


def test_unless_it_is_asked_for(tmp_path):
    env = Ranks((0, 30), (20, 40), (20, None))
    kinds, events = carry(tmp_path, env, faults.nan(rank="all", again=True).at_step(25), faults.noop().at_step(50))
    assert env.struck == [(rank, 25) for _ in range(3) for rank in (0, 1)]
    assert kinds == [*ONCE, *["fault.again"] * 4, *ONCE], "others come at their own time"
    again = [event["evidence"]["again"] for event in events if event.kind == "fault.again"]
    assert [len(each) for each in again] == [1, 2, 3, 4]
    assert [(each["rank"], each["launch"], each["n"]) for each in again[-1]] == [
        (0, 1, 5), (1, 1, 5), (0, 2, 5), (1, 2, 5)
    ]  # fmt: skip


@pytest.mark.parametrize("again", [True, False])
def test_a_rollback_inside_the_process_counts_too(tmp_path, again):
    env = Ranks((0, None), back=(30, 20))
    kinds, _ = carry(tmp_path, env, faults.nan(rank=1, again=again).at_step(25), faults.inf(rank=0).at_step(28))
    assert env.struck == [(1, 25), (0, 28), *([(1, 25)] if again else [])]
    assert kinds == [*ONCE * 2, *(["fault.again"] if again else [])]


def test_a_step_before_the_one_that_was_struck_comes_after_a_rollback(tmp_path):
    env = Ranks((0, None), back=(30, 20))
    carry(tmp_path, env, faults.nan(rank=1).at_step(25), faults.inf(rank=0).at_step(23))
    assert env.struck == [(1, 25), (0, 23)]


def test_a_life_that_begins_too_late_to_be_told_is_not_struck_and_that_is_said(tmp_path):
    env = Ranks((0, 30), (20, None))
    kinds, events = carry(tmp_path, env, faults.nan(rank=1, again=True).at_step(21))
    assert env.struck == [(1, 21)] and kinds == [*ONCE, "fault.again"]
    assert "began too late" in events[-1]["evidence"]["again"][0]["missed"]
    (tmp_path / "harness.jsonl").unlink()
    env = Ranks((0, 30), (20, None))
    carry(tmp_path, env, faults.nan(rank=1, again=True, into=targets.parameter()).at_step(21))
    assert env.struck == [(1, 21), (1, 21)], "what lies between steps can be struck then, too"


def test_what_the_rank_refuses_was_missed_and_the_next_fault_comes(tmp_path):
    env = Ranks((0, None), refuse="the loss is an integer")
    kinds, events = carry(tmp_path, env, faults.nan(rank=1).at_step(25), faults.noop().at_step(40))
    assert kinds == ["fault.requested", "fault.applied", "fault.missed", *ONCE]
    (missed,) = (event["evidence"] for event in events if event.kind == "fault.missed")
    assert missed == {"missed": "the loss is an integer"}


def test_one_rank_that_refuses_does_not_undo_the_others():
    env, action = Ranks(), faults.nan(rank="all").action
    env.said = {(0, 1): {"refused": "no such name"}, (1, 2): {"rank": 1, "n": 25}}
    seen = action.observed(env, {"orders": [[0, 1], [1, 2]]})
    assert seen == {"rank": 1, "n": 25, "refused": [{"rank": 0, "why": "no such name"}]}
    del env.said[0, 1]
    assert action.observed(env, {"orders": [[0, 1], [1, 2]]}) is None


def test_by_the_clock_all_are_struck_at_once_and_it_is_one_fault():
    """Where it is nobody's own step, the action is applied to every victim in one go."""
    env, action = Ranks((0, None)), faults.nan(rank="all", into="batch").action
    env.launch(0, [])
    applied = action.apply(env, 2)
    assert (applied["rank"], applied["orders"]) == (0, [[0, 1], [1, 2]])
    orders = {rank: order for rank, (order,) in env.undelivered.items()}
    assert orders.keys() == {0, 1} and [orders[rank]["id"] for rank in (0, 1)] == [1, 2]
    assert {(order["do"], order["how"]["kind"], order["into"]["kind"]) for order in orders.values()} == {
        ("corrupt", "nan", "batch")
    }
    assert action.observed(env, applied) is None
    env.said = {(0, 1): {"rank": 0, "n": 1}, (1, 2): {"rank": 1, "n": 1}}
    assert action.observed(env, applied) == {"rank": 0, "n": 1, "others": [{"rank": 1, "n": 1}]}


def test_a_rank_that_was_gone_before_has_not_been_struck(tmp_path):
    env = Ranks((0, 24), (20, None))
    kinds, events = carry(tmp_path, env, faults.nan(rank=1).at_step(25))
    assert kinds == ["fault.requested", "fault.applied", "fault.missed"] and not env.struck
    assert "gone before" in events[-1]["evidence"]["missed"]


def test_several_in_order_also_where_a_later_one_strikes_an_earlier_step(tmp_path):
    env = Ranks((0, 30), (20, None))
    schedule = faults.nan(rank=0).at_step(25), faults.inf(rank=1).at_step(23), faults.scale(2, rank=0).at_step(40)
    kinds, _ = carry(tmp_path, env, *schedule)
    assert env.struck == [(0, 25), (1, 23), (0, 40)] and kinds == ONCE * 3


ranks = st.one_of(st.integers(-2, 1), st.just("all"), st.just((0, 1)))
where = st.sampled_from(
    [
        None, "batch", "gradient:blocks.0.*:reduced", "collective:all_gather:2:sent", targets.scaler(),
        targets.activation("head"), targets.optimizer("*.exp_avg"), targets.learning_rate(),
    ]
)  # fmt: skip
common = {
    "rank": ranks,
    "elements": st.one_of(st.integers(1, 9), st.just("all")),
    "steps": st.one_of(st.integers(1, 9), st.none()),
    "again": st.booleans(),
    "seed": st.integers(-LARGEST, LARGEST),
}
numbers = st.one_of(
    *(st.builds(make, into=where, **common) for make in (faults.nan, faults.inf, faults.zero, faults.stale)),
    st.builds(faults.scale, st.floats(2, 1e9), into=where, **common),
    st.builds(faults.stuck, st.floats(-9, 9), into=where, **common),
    st.builds(faults.noise, st.floats(0.1, 9), into=where, **common),
    st.builds(faults.bitflip, bits=st.integers(1, 64), bit=st.one_of(st.none(), st.integers(0, 63)), **common),
    st.builds(faults.bad_batch, **common),
    st.builds(faults.lr_spike, st.floats(2, 1e9), **common),
)


@given(numbers, st.integers(2, 99))
def test_a_fault_comes_back_from_json(made, step):
    fault = made.at_step(step)
    told = json.loads(json.dumps(fault.to_json()))
    assert faults.from_json(told) == fault and told["text"] == str(fault)
    assert set(told["action"]) >= {"kind", "rank", "into", "elements", "steps", "again", "seed"}


def test_how_they_are_told():
    def text(made):
        return str(made.at_step(25))

    assert text(faults.nan(rank=-1)) == "NaN in the loss on the last rank at step 25"
    flip = faults.bitflip(rank=1, which="exponent", into=targets.parameter("head.weight"))
    assert text(flip) == "flip 1 exponent bit in an element of the parameter head.weight on rank 1 at step 25"
    assert text(faults.lr_spike(100)) == "100 times the learning rate on all ranks at step 25"
    bad = faults.bad_batch(rank=0, steps=None, again=True)
    assert text(bad) == "nonsense for the batch on rank 0 (from then on, every time) at step 25"


def test_an_old_schedule_can_still_be_read():
    told = {"action": {"kind": "nan", "rank": 1}, "trigger": {"kind": "at_step", "step": 3}}
    assert faults.from_json(told) == faults.nan(rank=1).at_step(3)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: faults.nan(rank=None), "nan: rank"),
        (lambda: faults.nan(rank=1.5), "nan: rank"),
        (lambda: faults.inf(rank=0, into="weights"), "'weights'"),
        (lambda: faults.inf(rank=0, into=3), "into"),
        (lambda: faults.inf(rank=0, into="gradient:a:b"), "into"),
        (lambda: faults.bitflip(rank=0, bits=0), "bitflip: bits .* from 1 to 64"),
        (lambda: faults.bitflip(rank=0, bits=65), "bits"),
        (lambda: faults.bitflip(rank=0, which="low"), "which must be one of"),
        (lambda: faults.bitflip(rank=0, which="sign", bits=2), "bits must be 1"),
        (lambda: faults.bitflip(rank=0, bit=64), "bit must be"),
        (lambda: faults.scale(1, rank=0), "factor must not be 1"),
        (lambda: faults.scale(float("nan"), rank=0), "scale: factor"),
        (lambda: faults.scale("2", rank=0), "factor"),
        (lambda: faults.lr_spike(float("inf")), "lr_spike: factor"),
        (lambda: faults.lr_spike(2, into="loss"), "into can only be lr"),
        (lambda: faults.bad_batch(rank=0, into="loss"), "into can only be batch"),
        (lambda: faults.stuck(float("nan"), rank=0), "value"),
        (lambda: faults.noise(0, rank=0), "sigma"),
        (lambda: faults.nan(rank=0, elements=0), "elements must be .*or 'all'"),
        (lambda: faults.nan(rank=0, elements="some"), "elements"),
        (lambda: faults.nan(rank=0, steps=0), "steps"),
        (lambda: faults.nan(rank=0, again=1), "again"),
        (lambda: faults.nan(rank=0, seed=0.5), "seed"),
    ],
)
def test_arguments_are_validated(make, named):
    with pytest.raises(UsageError, match=named):
        make()


PAIR = Job(str(Path(__file__).parents[1] / "trainers" / "simple.py"), ["--out", "{out}"])


@pytest.fixture
def runner(shared_store):
    return Runner(shared_store, launch="warm")


@pytest.mark.launches
def test_real_ranks_do_it_in_the_step_that_was_meant_and_say_what_they_did(runner):
    flip = faults.bitflip(rank=1, which="exponent", into="parameter:layers.1.bias")
    run = runner.run(PAIR, faults.lr_spike(100).at_step(1), faults.nan(rank=0).at_step(15), flip.at_step(20))
    spike, nan, flipped = (fault.evidence for fault in run.history.faults)
    assert (spike["n"], nan["n"], flipped["n"]) == (1, 15, 20)
    assert (spike["rank"], *[other["rank"] for other in spike["others"]]) in ((0, 1), (1, 0))
    assert (nan["rank"], nan["component"], nan["after"]) == (0, "loss", ["nan"])
    assert flipped["where"].startswith("layers.1.bias[") and flipped["before"] != flipped["after"]
    tensors = {rank: {*life.tensors} for rank, life in run.history.incarnations[0].ranks.items()}
    assert all({*range(14, 31)} <= named for named in tensors.values())
    assert run.judge(checks.faults_took_effect())[0].outcome.name == "PASS"


@pytest.mark.launches
def test_what_a_real_rank_does_not_find_was_missed_and_proves_nothing(runner):
    run = runner.run(PAIR, faults.nan(rank=1, into="collective:all_gather:3").at_step(15))
    (verdict,) = run.judge(checks.faults_took_effect())
    assert verdict.outcome.name == "INCONCLUSIVE" and "found no target" in verdict.sentence
    assert "no all_gather 3" in verdict.sentence


@pytest.mark.launches
def test_a_name_that_nothing_has_is_refused_before_the_launch(runner):
    runner.reference(PAIR)
    with pytest.raises(UsageError, match=r"near: .*layers.1.bias"):
        runner.run(PAIR, faults.nan(rank=1, into="gradient:layer.1.bias").at_step(15))
    assert not runner.runs
