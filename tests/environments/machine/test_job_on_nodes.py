"""Launches of a job on the nodes of a run: who is made ready when, and who may join. Nobody here trains anything."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest

from chaoskit.environments.environment import Ended
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.machine.job_on_nodes import JobOnNodes
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.nodes import NodeLossPolicy, Nodes

pytestmark = pytest.mark.launches

WAITS = "import time; time.sleep(1000)"


class Maker:
    """Notes what it is asked for. `slow`: called for each node that is made ready during a launch."""

    def __init__(self, roster):
        self.roster, self.asked, self.job, self.slow = roster, [], None, lambda: None

    def bring_up(self, node=None):
        node = node or self.roster.next_name()
        self.roster.number(node)
        self.roster.admit(node)
        return node

    def make_ready(self, nodes):
        self.asked.append(("ready", *nodes))
        if self.job.running is not None:
            self.slow()

    def start_agent(self, node):
        self.asked.append(("start", node))
        return ColdLauncher(grace=0.2).start(self.job.run.order(self.job.command, node=node))


@pytest.fixture
def make(place):
    """A job that runs this code on two of at most three nodes."""
    runs = []

    def begin(code, **policy):
        nodes = Nodes(1, 3, node_loss=NodeLossPolicy(**policy))
        run = MachineRun(replace(place, nodes=nodes, gated=False))
        run.begin()
        run.own_processes()
        runs.append(run)
        maker = Maker(NodeRoster(5))
        maker.job = JobOnNodes(run, maker.roster, maker)
        maker.bring_up(), maker.bring_up()
        maker.job.launch(0, [sys.executable, "-I", "-S", "-c", code])
        return maker

    yield begin
    for run in runs:
        run.end()


def test_all_nodes_are_ready_before_the_first_agent_starts(make):
    maker = make(WAITS)
    assert maker.asked == [("ready", "node0", "node1"), ("start", "node0"), ("start", "node1")]
    assert maker.job.add_node() == "node2"
    assert maker.asked[3:] == [("ready", "node2"), ("start", "node2")]


def test_nobody_joins_a_launch_that_has_ended_meanwhile(make, tmp_path, until):
    code = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)"
    maker = make(code)

    def slow():
        (tmp_path / "go").touch()
        until(lambda: maker.job.run.launch.ended() is not None)

    maker.slow = slow
    with pytest.raises(LookupError, match="had ended when node2 was up"):
        maker.job.add_node()
    assert ("start", "node2") not in maker.asked
    # The job has come to its end: no agent that came too late has failed.
    assert Ended(0, 0) in maker.job.wait(5)


def test_a_node_that_returns_too_late_does_not_join(make, tmp_path, until):
    code = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)"
    maker = make(code, lost="returns", after=0.1)
    job = maker.job

    def slow():
        (tmp_path / "go").touch()
        until(lambda: job.run.launch.ended() is not None)

    maker.slow = slow
    job.running.end("node1", cause="lost")
    job.lose("node1", replaced=False)
    deadline = time.monotonic() + 20
    happened = []
    while not any(isinstance(each, Ended) for each in happened) and time.monotonic() < deadline:
        happened += job.wait(1)
    assert Ended(0, 0) in happened and maker.asked[-1] == ("ready", "node1")
    assert maker.roster.up == ["node0", "node1"]
