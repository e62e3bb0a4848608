"""`time_limit`: what it asks of an environment, when it counts as observed, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from chaoskit import checks, faults
from chaoskit.capabilities import CanLimitTime
from chaoskit.errors import UsageError
from chaoskit.faults.fault import action_traits
from chaoskit.faults.registry import from_json
from experiments.test_preemption import test_time_limit as experiment


@dataclass
class Scheduler:
    """One job."""

    minutes: int = 0
    reached: dict | None = None

    def limit_time(self, minutes):
        self.minutes = minutes
        return {"job": 7, "nodes": ["cn0"], "grace": 65.0}

    def time_limit_reached(self):
        return self.reached


def test_the_limit_is_lowered_and_seen_to_be_reached():
    env, action = Scheduler(), faults.time_limit(minutes=2).action
    assert isinstance(env, CanLimitTime) and action.needs == (CanLimitTime,)
    applied = action.apply(env, 2)
    assert env.minutes == 2 and (applied["cloud"], applied["then"], applied["grace"]) == ("slurm", "kill", 65.0)
    assert action.observed(env, applied) is None
    env.reached = {"since": 1.0, "nodes": {"cn0": {}}, "state": "TIMEOUT"}
    assert action.observed(env, applied) == {**applied, **env.reached}


def test_it_holds_no_rank_and_tells_the_job_to_stop():
    traits = action_traits(faults.time_limit().action)
    assert not traits.holds and traits.observe_within == float("inf")
    assert faults.time_limit().action.tells_to_stop and faults.preempt(cloud="slurm", node=0).action.tells_to_stop


def test_it_is_stored_and_read_again():
    fault = faults.time_limit(minutes=3).at_step(5)
    assert from_json(fault.to_json()) == fault and "3 min" in str(fault)


@dataclass
class Chaos:
    """Gives one run: of a job of 60 steps that took `highest` of them in so many `launches`."""

    signal: str = ""
    highest: int = 60
    launches: int = 2
    applied: tuple = ()

    def run(self, job, fault):
        assert str(fault.trigger) == "right after save 1" and fault.action == faults.time_limit().action
        limit = SimpleNamespace(evidence={"signal": self.signal})
        history = SimpleNamespace(faults=[limit], launches=[None] * self.launches)
        case = SimpleNamespace(timeline=SimpleNamespace(highest=lambda: self.highest))
        reference = SimpleNamespace(steps=60)
        return SimpleNamespace(history=history, case=case, reference=reference, verify=self.verify)

    def verify(self, *applied):
        self.applied = tuple(check.name for check in applied)


def test_the_experiment_claims_a_save_if_the_job_has_asked_for_a_signal():
    claims, chaos = [checks.completed()], Chaos()
    experiment(chaos, None, claims)
    assert chaos.applied == ("completed",)
    chaos = Chaos(signal="USR1")
    experiment(chaos, None, claims)
    assert chaos.applied == ("completed", "emergency_checkpoint", "stopped_cleanly")


def test_the_experiment_is_skipped_if_the_job_was_done_before_its_limit():
    with pytest.raises(pytest.skip.Exception, match="train longer"):
        experiment(Chaos(launches=1), None, [])
    # One that says that it is done, and is not, is judged.
    chaos = Chaos(signal="USR1", launches=1, highest=14)
    experiment(chaos, None, [])
    assert chaos.applied


@pytest.mark.parametrize("minutes", [0, -1, 1.5, True, "1"])
def test_what_is_no_number_of_minutes(minutes):
    with pytest.raises(UsageError, match="time_limit: minutes"):
        faults.time_limit(minutes=minutes)
