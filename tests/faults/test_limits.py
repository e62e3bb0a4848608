"""Faults that limit resources: what they ask of an environment, when they count as observed, and what they refuse."""

import json
from dataclasses import replace

import pytest

from chaoskit import faults
from chaoskit.capabilities import (
    CanLimitDisk,
    CanLimitMemory,
    CanLimitProcessor,
    CanSignal,
    LimitTarget,
    ProcessRef,
)
from chaoskit.errors import UsageError
from chaoskit.faults.fault import action_traits, check_nodes

#: By name: a fault with every argument that it has, and how it is told.
MADE = {
    "out_of_memory": (
        faults.out_of_memory(rank=-1, leave=4096, seconds=5),
        "let the last rank run out of memory, 4096 bytes left",
    ),
    "throttle": (
        faults.throttle(node=1, cpu=0.25, seconds=5, until_step=9),
        "throttle node 1 to 0.25 processors until step 9 or for 5 s",
    ),
    "slow_disk": (
        faults.slow_disk(rank=2, bytes_per_second=1 << 20, until_step=9),
        "limit the disk of rank 2 to 1048576 bytes/s until step 9",
    ),
}
EACH = pytest.mark.parametrize("name", MADE)


class Fake:
    """An environment of four ranks whose limits have the effect that a test says."""

    def __init__(self, **effect):
        self.effect, self.made, self.lifted, self.lowered = effect, [], [], 0

    def rank_process(self, rank):
        return ProcessRef(100 + rank, "7")

    def limit_memory(self, target, *, leave):
        self.made.append((target, leave))
        return 7

    def lower_memory(self, limit):
        self.lowered += 1

    def limit_processor(self, target, *, cpu):
        self.made.append((target, cpu))
        return 7

    def limit_disk(self, target, *, rate):
        self.made.append((target, rate))
        return 7

    def memory_limited(self, limit):
        return {"used": 10, "limit": 20, **self.effect}

    processor_limited = disk_limited = memory_limited

    def lift_memory(self, limit):
        self.lifted.append(limit)

    lift_processor = lift_disk = lift_memory


@EACH
def test_they_come_back_from_json(name):
    fault, text = MADE[name]
    fault = fault.at_step(3)
    assert str(fault) == f"{text} at step 3"
    assert faults.from_json(json.loads(json.dumps(fault.to_json()))) == fault


@EACH
def test_no_rank_waits_for_the_effect_and_all_of_it_ends(name):
    action = MADE[name][0].action
    assert not action_traits(action).holds
    assert action.heal_after is not None or action_traits(action).heal_step is not None
    env = Fake(kills=0, gone=[], felt=False, seconds=0.0)
    applied = action.apply(env, 4)
    assert action.observed(env, applied) is None and env.lifted == []
    action.heal(env, applied)
    assert env.lifted == [7]


def test_what_is_asked_of_the_environment():
    env = Fake()
    faults.out_of_memory(rank=-1, leave=5).action.apply(env, 4)
    faults.throttle(node=-1, cpu=0.5, seconds=1).action.apply(env, 4)
    faults.slow_disk(rank=0, bytes_per_second=4096, seconds=1).action.apply(env, 4)
    assert env.made == [(LimitTarget(rank=3), 5), (LimitTarget(node=-1), 0.5), (LimitTarget(rank=0), 4096)]
    needs = [MADE[name][0].action.needs for name in MADE]
    assert needs == [(CanLimitMemory, CanSignal), (CanLimitProcessor,), (CanLimitDisk,)]


def test_only_a_kill_by_the_kernel_is_out_of_memory():
    action = faults.out_of_memory(rank=1).action
    applied = action.apply(Fake(), 4)
    assert applied["pid"] == 101
    # It counted, and the rank has not ended yet; or a child of the rank was killed.
    assert action.observed(Fake(kills=1, gone=[]), applied) is None
    assert action.observed(Fake(kills=1, gone=[55]), applied) is None
    env = Fake(kills=1, gone=[101, 55])
    assert action.observed(env, applied) == {"killed_by_kernel": 1, "gone": [101], "bytes": 20}
    assert env.lifted == [7], "the limit stays for what takes the place of the rank"
    with pytest.raises(LookupError, match="rank 1 ended, but the kernel had not killed it"):
        action.observed(Fake(kills=0, gone=[101]), applied)


def test_of_a_node_anybody_may_be_killed():
    action = faults.out_of_memory(node=0).action
    applied = action.apply(Fake(), 4)
    assert action.observed(Fake(kills=0, gone=[55]), applied) is None
    assert action.observed(Fake(kills=1, gone=[55]), applied)["gone"] == [55]
    env = Fake()
    assert action.tick(env, applied) == applied and env.lowered == 1


def test_waiting_is_the_effect():
    throttle, slow = MADE["throttle"][0].action, MADE["slow_disk"][0].action
    applied = {"limit": 7}
    assert throttle.observed(Fake(throttled=2, felt=True), applied)["throttled"] == 2
    assert throttle.observed(Fake(throttled=2, felt=False), applied) is None
    assert slow.observed(Fake(seconds=0.5, written=9), applied)["written"] == 9
    assert slow.observed(Fake(seconds=0.0, written=9), applied) is None


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: faults.out_of_memory(), "give rank=... or node=..."),
        (lambda: faults.out_of_memory(rank=0, node=0), "give rank=... or node=..."),
        (lambda: faults.out_of_memory(rank="1"), "rank must be a whole number"),
        (lambda: faults.out_of_memory(rank=0, leave=-1), "leave must be"),
        (lambda: faults.out_of_memory(rank=0, seconds=0), "seconds must be"),
        (lambda: faults.throttle(node=0.5, cpu=1, seconds=1), "node must be a whole number"),
        (lambda: faults.throttle(rank=0, cpu=0, seconds=1), "cpu must be"),
        (lambda: faults.throttle(rank=0, cpu=0.5), "give seconds=..., until_step=..."),
        (lambda: faults.slow_disk(rank=0, bytes_per_second=10, seconds=1), "bytes_per_second must be"),
        (lambda: faults.slow_disk(rank=0, bytes_per_second=4096), "give seconds=..., until_step=..."),
    ],
)
def test_bad_arguments_are_named(make, named):
    with pytest.raises(UsageError, match=named.replace("...", r"\.\.\.")):
        make()


def test_nodes_and_ranks_must_be_there():
    with pytest.raises(UsageError, match="no node 1 in a job of 1 node"):
        check_nodes(faults.throttle(node=1, cpu=0.5, seconds=1).at_step(1), 1)
    check_nodes(faults.throttle(node=0, cpu=0.5, seconds=1).at_step(1), 1)
    with pytest.raises(UsageError, match="no rank 4"):
        faults.throttle(rank=4, cpu=0.5, seconds=1).action.apply(Fake(), 4)
    with pytest.raises(UsageError, match="no rank 4"):
        replace(faults.out_of_memory(rank=4).action).victims(4)
