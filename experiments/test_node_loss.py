"""Whole nodes are lost, agent and ranks at once, without a word to anybody.

Expected: the other nodes notice by their timeouts, the job is launched again as soon as it has its nodes, and it
resumes from its last checkpoint; nobody helps. Needs an environment with nodes: `--env netns --nodes 2`.
"""

import random
from dataclasses import replace

import pytest

from chaoskit import NodeLossPolicy, checks, faults

pytestmark = pytest.mark.nodes

EPOCH = 2
#: The steps from one lost node to the next, drawn evenly from this range: a model of one loss every thirty minutes.
BETWEEN = (12, 25)
SEED = 1


@pytest.fixture
def step(chaos, job):
    return chaos.reference(job).middle_of_epoch(EPOCH)


def test_worker_node(chaos, job, claims, step):
    """The last node is lost, and comes back two seconds later, rebooted."""
    job = replace(job, node_loss=NodeLossPolicy(lost="returns", after=2))
    run = chaos.run(job, faults.kill_node(node=-1).at_step(step))
    run.verify(*claims)


def test_rendezvous_node(chaos, job, claims, step):
    """The node that hosts the rendezvous is lost."""
    job = replace(job, node_loss=NodeLossPolicy(lost="returns", after=2))
    run = chaos.run(job, faults.kill_node(node=0).at_step(step))
    run.verify(*claims)


def test_hot_spare(chaos, job, claims, step):
    """The node that hosts the rendezvous is lost, and a host of another name takes its place."""
    job = replace(job, node_loss=NodeLossPolicy(lost="spare", after=1))
    run = chaos.run(job, faults.kill_node(node=0).at_step(step))
    run.verify(*claims)


def test_replaced(chaos, job, claims, step):
    """A node is lost, and a fresh one takes its place at once."""
    run = chaos.run(job, faults.replace_node(node=-1).at_step(step))
    run.verify(*claims)


@pytest.mark.cluster
def test_evicted(chaos, job, claims, step):
    """A node is evicted: the job there may save within the grace of its pod, and a fresh node takes its place."""
    run = chaos.run(job, faults.evict_node(node=-1).at_step(step))
    run.verify(*claims, checks.saved_within_grace())


@pytest.mark.cluster
def test_drained(chaos, job, claims, step):
    """The machine of a node is drained: the node is evicted, and a fresh one takes its place on another machine."""
    run = chaos.run(job, faults.drain_node(node=-1).at_step(step))
    run.verify(*claims, checks.saved_within_grace())


def test_frozen_node(chaos, job, claims, step):
    """Every process of one node is frozen for a second."""
    run = chaos.run(job, faults.pause_node(node=-1, seconds=1).at_step(step))
    run.verify(*claims)


@pytest.mark.cluster
def test_suspended(chaos, job, claims, step):
    """A queue takes all nodes away: every pod ends after SIGTERM, and the job gets others."""
    run = chaos.run(job, faults.suspend().at_step(step))
    run.verify(*claims)


def test_every_so_often(chaos, job, claims):
    """Nodes drawn at random are lost at random times, for as long as the training lasts."""
    reference, draw = chaos.reference(job), random.Random(SEED)
    losses, step = [], draw.randint(*BETWEEN)
    while step < reference.steps:
        losses.append(faults.kill_node(node=draw.randrange(reference.nodes)).at_step(step))
        step += draw.randint(*BETWEEN)
    run = chaos.run(replace(job, relaunches=len(losses) + 1), *losses)
    run.verify(*claims)
