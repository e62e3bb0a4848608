"""Faults: what they ask of an environment, when they count as observed, and that they come back from JSON."""

import json
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit import faults
from chaoskit.capabilities import CanOrder, CanSignal, Process
from chaoskit.errors import UsageError


class Fake:
    """An environment of four ranks that does what it is told, and remembers."""

    def __init__(self, state="running", takes=False, alive=True):
        self.sent, self.orders, self.told_raise = [], [], False
        self._state, self.takes, self.alive = state, takes, alive

    def rank_process(self, rank):
        return Process(100 + rank, 7)

    def launcher_process(self):
        return Process(99, 7)

    def signal(self, process, signum):
        self.sent.append((process.pid, signum))
        return self.alive

    def state(self, process):
        return self._state

    def delivered(self, process, signum):
        return self.takes

    def order(self, rank, order):
        self.orders.append((rank, dict(order)))

    def raised(self, rank):
        return self.told_raise


def test_the_fake_can_what_faults_need():
    assert isinstance(Fake(), CanSignal)
    assert isinstance(Fake(), CanOrder)


def test_kill_is_seen_when_every_victim_is_gone():
    env, action = Fake(), faults.kill(rank=(-1, 0)).action
    told = action.apply(env, 4)
    assert env.sent == [(100, signal.SIGKILL), (103, signal.SIGKILL)]
    assert action.observed(env, told) is None
    env._state = "gone"
    assert action.observed(env, told) == {"gone": [100, 103]}


def test_a_signal_that_is_caught_is_seen_when_it_was_taken():
    env, action = Fake(takes=True), faults.kill(rank=0, signal=signal.SIGTERM).action
    assert action.observed(env, action.apply(env, 4)) == {"delivered": [100]}
    assert faults.kill(rank=0).action.observed(env, action.apply(env, 4) | {"signal": signal.SIGKILL}) is None


def test_a_lost_node_takes_its_ranks_along():
    env, action = Fake(), faults.kill(launcher=True).action
    assert action.apply(env, 4)["pids"] == [99, 100, 101, 102, 103]
    assert list(action.victims(4)) == [0, 1, 2, 3]


def test_a_launcher_that_is_asked_to_end_is_asked_alone():
    env, action = Fake(), faults.kill(launcher=True, signal=signal.SIGTERM).action
    assert action.apply(env, 4)["pids"] == [99]


def test_who_was_gone_before_was_not_struck():
    for fault in (faults.kill(rank=0), faults.pause(rank=0, seconds=1)):
        with pytest.raises(LookupError):
            fault.action.apply(Fake(alive=False), 4)


def test_a_pause_is_seen_when_all_stopped_and_is_healed():
    env, action = Fake(), faults.pause(rank="all", seconds=2).action
    told = action.apply(env, 2)
    assert (action.observed(env, told), action.heal_after) == (None, 2.0)
    env._state = "stopped"
    assert action.observed(env, told) == {"stopped": [100, 101]}
    assert action.heal(env, told) == {"continued": [100, 101]}
    assert env.sent[-1] == (101, signal.SIGCONT)


def test_exit_is_seen_when_the_process_is_gone():
    env, action = Fake(), faults.exit(rank=1, code=3).action
    told = action.apply(env, 4)
    assert env.orders == [(1, {"do": "exit", "code": 3})]
    assert action.observed(env, told) is None
    env._state = "gone"
    assert action.observed(env, told) == {"gone": [101]}


def test_raise_is_seen_when_the_rank_says_so():
    env, action = Fake(), faults.raise_(rank=-1, type="OutOfMemoryError").action
    told = action.apply(env, 4)
    assert env.orders == [
        (3, {"do": "raise", "type": "OutOfMemoryError", "message": "injected by chaoskit"}),
    ]  # fmt: skip
    assert action.observed(env, told) is None
    env.told_raise = True
    assert action.observed(env, told) == {"raised": "OutOfMemoryError"}


def test_noop_does_nothing_and_is_seen():
    env, action = Fake(), faults.noop().action
    assert action.observed(env, action.apply(env, 4)) == {"nothing": True}
    assert (env.sent, env.orders) == ([], [])


ranks = st.integers(-4, 3)
made = st.one_of(
    st.builds(lambda rank: faults.kill(rank=rank), st.one_of(ranks, st.just("all"))),
    st.builds(lambda several: faults.kill(rank=tuple(several)), st.lists(ranks, min_size=1, max_size=4)),
    st.just(faults.kill(launcher=True)),
    st.builds(lambda rank: faults.kill(rank=rank, signal=signal.SIGTERM), ranks),
    st.builds(lambda rank, seconds: faults.pause(rank=rank, seconds=seconds), ranks, st.floats(0.1, 100)),
    st.builds(lambda rank, code: faults.exit(rank=rank, code=code), ranks, st.integers(0, 255)),
    st.builds(lambda rank: faults.raise_(rank=rank, message="x"), ranks),
    st.just(faults.noop()),
)
timed = st.one_of(
    st.builds(lambda fault, n: fault.at_step(n), made, st.integers(1, 99)),
    st.builds(lambda fault, n: fault.during_save(n), made, st.integers(1, 9)),
    st.builds(lambda fault, n: fault.after_save(n), made, st.integers(1, 9)),
    st.builds(lambda fault, seconds: fault.after(seconds), made, st.floats(0, 9)),
    st.builds(lambda fault, seed: fault.at_random(seed), made, st.integers()),
    st.builds(lambda fault: fault.at_start(), made),
)


@given(timed)
def test_a_fault_comes_back_from_json(fault):
    told = json.loads(json.dumps(fault.to_json()))
    assert faults.from_json(told) == fault
    assert told["text"] == str(fault)
    assert set(fault.action.victims(4)) <= {0, 1, 2, 3}


def test_a_fault_without_a_trigger_cannot_be_stored():
    with pytest.raises(UsageError, match=r"kill rank 1: no trigger"):
        faults.kill(rank=1).to_json()


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: faults.kill(), "kill"),
        (lambda: faults.kill(rank=0, launcher=True), "kill"),
        (lambda: faults.kill(rank=1.5), "kill"),
        (lambda: faults.kill(rank=()), "kill"),
        (lambda: faults.kill(rank=0, signal=99), "signal"),
        (lambda: faults.kill(rank=0, signal=signal.SIGSTOP), "pause"),
        (lambda: faults.pause(rank=0, seconds=0), "seconds"),
        (lambda: faults.exit(rank="all"), "exit"),
        (lambda: faults.exit(rank=0, code=256), "code"),
        (lambda: faults.raise_(rank=0, type="Sneeze"), "type"),
        (lambda: faults.kill(rank=9).action.victims(4), "no rank 9"),
        (lambda: faults.from_json({"action": {"kind": "flood"}, "trigger": {}}), "flood"),
    ],
)
def test_arguments_are_validated(make, named):
    with pytest.raises(UsageError, match=named):
        make()
