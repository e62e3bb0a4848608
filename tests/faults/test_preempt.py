"""`preempt`: what it asks of an environment for each cloud, when it counts as observed, and what it refuses."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaoskit import faults
from chaoskit.capabilities import CanOwnAddress, CanPreempt, CanServeMetadata, CanTouchFiles
from chaoskit.errors import UsageError
from chaoskit.faults.fault import action_traits
from chaoskit.faults.registry import from_json

OVER = {"received": [], "asked": 0, "refused": 0, "times": 1, "shutdown": None, "ended": None, "killed": 6.0}


@dataclass
class Cloud:
    """Three nodes, one rank on each."""

    given: dict = field(default_factory=dict)
    over: dict = field(default_factory=dict)

    def preemptible(self):
        return ("node0", "node1", "node2")

    def node_of(self, rank):
        return f"node{rank}"

    def preempt(self, node, notice):
        self.given[node] = notice

    def preempted(self, node):
        return self.over.get(node)

    def out(self):
        return Path("/some/out")


def notice_of(**given):
    """What the node is told."""
    env = Cloud()
    fault = faults.preempt(**{"node": 1, **given})
    fault.action.apply(env, 3)
    (notice,) = env.given.values()
    return notice


def test_it_is_a_cloud():
    assert isinstance(Cloud(), CanPreempt)


def test_all_times_are_scaled():
    notice = notice_of(cloud="gcp", notice=120, scale=0.05)
    assert (notice.seconds, notice.shutdown, notice.cloud, notice.kills) == (6.0, 1.5, "gcp", True)
    notice = notice_of(cloud="aws", notice=120, scale=0.05, then="nothing", withdrawn=60)
    assert (notice.withdrawn, notice.kills, notice.shutdown) == (3.0, False, None)
    assert notice_of(cloud="gcp", then="nothing").shutdown is None


def test_who_gets_a_signal():
    kubernetes = notice_of(cloud="kubernetes")
    assert (kubernetes.signal, kubernetes.to_agent, kubernetes.cloud) == (signal.SIGTERM, True, "")
    slurm = notice_of(cloud="slurm")
    assert (slurm.signal, slurm.to_agent, slurm.to_children, slurm.rank) == (signal.SIGUSR1, False, True, None)
    any_signal = notice_of(cloud="signal", signal=signal.SIGUSR2, node=None, rank=-1)
    assert (any_signal.signal, any_signal.rank) == (signal.SIGUSR2, 2)
    assert notice_of(cloud="signal").signal == signal.SIGTERM


def test_a_file_lies_below_out_unless_it_is_named():
    assert notice_of(cloud="file").file == "/some/out/emergency_checkpoint"
    assert notice_of(cloud="file", file="/elsewhere/now").file == "/elsewhere/now"
    assert CanTouchFiles in faults.preempt(cloud="file", node=0).action.needs
    assert CanTouchFiles not in faults.preempt(cloud="file", node=0, file="/elsewhere/now").action.needs


def test_azure_needs_the_address_and_no_variable_helps():
    assert faults.preempt(cloud="azure", node=0).action.needs == (CanPreempt, CanServeMetadata, CanOwnAddress)
    assert faults.preempt(cloud="aws", node=0).action.needs == (CanPreempt, CanServeMetadata)
    assert faults.preempt(cloud="slurm", node=0).action.needs == (CanPreempt,)
    found = {cloud: action_traits(faults.preempt(cloud=cloud, node=0).action).metadata for cloud in ("aws", "slurm")}
    assert found == {"aws": "aws", "slurm": ""}


@pytest.mark.parametrize(
    ("given", "nodes"),
    [
        ({"node": -1}, ["node2"]),
        ({"node": (0, 2)}, ["node0", "node2"]),
        ({"node": "all"}, ["node0", "node1", "node2"]),
        ({"rank": 1}, ["node1"]),
    ],
)
def test_one_node_several_or_all(given, nodes):
    env = Cloud()
    told = faults.preempt(cloud="aws", **given).action.apply(env, 3)
    assert [*env.given] == told["nodes"] == nodes


def test_it_is_observed_when_it_is_over_on_every_node():
    env, action = Cloud(), faults.preempt(cloud="aws", node=(0, 1)).action
    told = json.loads(json.dumps(action.apply(env, 3)))
    assert action.observed(env, told) is None
    env.over["node0"] = OVER
    assert action.observed(env, told) is None
    env.over["node1"] = OVER
    seen = action.observed(env, told)
    assert seen["nodes"] == {"node0": OVER, "node1": OVER}
    assert (seen["since"], seen["grace"], seen["cloud"]) == (told["since"], 120.0, "aws")


def test_a_false_notice_that_nobody_received_was_missed():
    env, action = Cloud(), faults.preempt(cloud="aws", node=0, then="nothing").action
    told = action.apply(env, 3)
    env.over["node0"] = {**OVER, "asked": 7, "refused": 7}
    with pytest.raises(LookupError, match="7 requests, 7 of them refused"):
        action.observed(env, told)
    env.over["node0"] = {**OVER, "received": [{"pid": 1}]}
    assert action.observed(env, told) is not None


@pytest.mark.parametrize(
    "given",
    [
        {"cloud": "gcp", "node": 0},
        {"cloud": "signal", "rank": 0, "signal": 12},
        {"cloud": "slurm", "node": "all", "notice": 60, "scale": 0.1},
        {"cloud": "aws", "node": (0, 1), "then": "nothing", "withdrawn": 30, "imdsv1": True},
        {"cloud": "file", "node": -1, "file": "/tmp/emergency_checkpoint", "times": 3},
    ],
)
def test_it_comes_back_from_json(given):
    fault = faults.preempt(**given).at_step(5)
    assert from_json(json.loads(json.dumps(fault.to_json()))) == fault


def test_how_it_calls_itself():
    assert str(faults.preempt(cloud="aws", node=-1, scale=0.05)) == "preempt the last node (aws, 6 s)"
    assert str(faults.preempt(cloud="gcp", rank=0, then="nothing")) == "preempt rank 0 (gcp, nothing follows)"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cloud": "moon", "node": 0}, "cloud must be one of aws, gcp, azure, .*'moon'"),
        ({"cloud": "aws"}, "give node or rank"),
        ({"cloud": "aws", "node": 0, "rank": 0}, "give node or rank"),
        ({"cloud": "aws", "node": "some"}, "node must be a whole number"),
        ({"cloud": "aws", "node": ()}, "node must be a whole number"),
        ({"cloud": "aws", "rank": 1.5}, "rank must be a whole number"),
        ({"cloud": "aws", "node": 0, "notice": 0}, "notice must be a positive number"),
        ({"cloud": "aws", "node": 0, "scale": -1}, "scale must be a positive number"),
        ({"cloud": "aws", "node": 0, "then": "reboot"}, "then must be one of kill, nothing"),
        ({"cloud": "aws", "node": 0, "times": 0}, "times must be a whole number"),
        ({"cloud": "aws", "node": 0, "file": "x"}, "file is for cloud='file'"),
        ({"cloud": "slurm", "node": 0, "signal": 12}, "signal is for cloud='signal'"),
        ({"cloud": "gcp", "node": 0, "imdsv1": True}, "imdsv1 is for cloud='aws'"),
        ({"cloud": "aws", "node": 0, "withdrawn": 5}, "add then='nothing'"),
        ({"cloud": "slurm", "node": 0, "then": "nothing", "withdrawn": 5}, "a signal cannot be withdrawn"),
        ({"cloud": "aws", "node": 0, "then": "nothing", "withdrawn": 120}, "withdrawn must be less than notice"),
    ],
)
def test_what_it_refuses(given, said):
    with pytest.raises(UsageError, match=said):
        faults.preempt(**given)
