"""Numbers of nodes, what a scheduler does with them, and lives that were led on several."""

import pytest

from chaoskit import Job, NodeLossPolicy
from chaoskit.analysis.record.history import History
from chaoskit.checks import completed
from chaoskit.errors import UsageError
from chaoskit.nodes import Nodes, count_nodes
from chaoskit.protocol.events import Event
from tests.history_writer import Writer


@pytest.mark.parametrize(("text", "found"), [(2, (2, 2)), ("3", (3, 3)), ("1:2", (1, 2)), ("2:2", (2, 2))])
def test_numbers_and_ranges_of_nodes(text, found):
    assert count_nodes(text) == found
    assert Nodes(*found).elastic == (found[0] != found[1])


@pytest.mark.parametrize("text", [0, -1, "0", "x", "1:", ":2", "2:1", "1:2:3", True, None, 1.5])
def test_what_is_no_number_of_nodes(text):
    with pytest.raises(UsageError, match="nnodes"):
        count_nodes(text)
    with pytest.raises(UsageError, match="nnodes"):
        Job("train.py", ["{out}"], nnodes=text)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"lost": "found"}, "lost"),
        ({"after": -1}, "after"),
        ({"after": True}, "after"),
        ({"restarts": "x"}, "restarts"),
    ],
)
def test_policies_are_validated(options, named):
    with pytest.raises(UsageError, match=named):
        NodeLossPolicy(**options)


@pytest.mark.parametrize(
    ("nodes", "restarts", "job"),
    [(2, "auto", True), ("1:2", "auto", False), (2, "node", False), ("1:2", "job", True)],
)
def test_what_is_started_again_when_a_node_is_lost(nodes, restarts, job):
    assert (
        Job("train.py", ["{out}"], nnodes=nodes, node_loss=NodeLossPolicy(restarts=restarts)).nodes.restarts_job
        is job
    )


def test_a_job_of_several_nodes_comes_back_from_json():
    job = Job("train.py", ["{out}"], nnodes="1:2", rdzv_conf="a=b", node_loss=NodeLossPolicy(lost="spare", after=2))
    again = Job.from_json(job.to_json())
    assert (again.nodes, again.node_loss) == (job.nodes, job.node_loss)
    older = job.to_json()
    older["supervisor"] = older.pop("node_loss")
    assert Job.from_json(older) == again
    del older["supervisor"]  # older still
    assert Job.from_json(older).node_loss == NodeLossPolicy()
    assert job.digest() != Job("train.py", ["{out}"], nnodes=2, rdzv_conf="a=b").digest()
    assert job.digest() == Job("train.py", ["{out}"], nnodes="1:2", rdzv_conf="a=b").digest()


def lived(rank, node, *, t, restart, world=2, launch=0):
    """The file of one rank that came up at `t` and took a step."""
    source = f"rank-{launch}-{restart}-{rank}-{int(t * 10)}"
    fields = {"role": "rank", "rank": rank, "world": world, "launch": launch, "restart": restart, "node": node}
    step = {"n": 1, "losses": ["0x1p+0"], "state": {"model": "a"}}
    yield Event("process.start", t, source, {**fields, "pid": int(t * 10), "start": int(t * 100)})
    yield Event("step", t + 0.5, source, step)


def rounds(*lives):
    """World size, and on which node each rank lived, of every incarnation."""
    history = History.of(event for life in lives for event in life)
    return [
        (inc.world_size, {life.rank: life.node for life in inc.ranks.values()}) for inc in history.incarnations
    ]


def test_agents_that_count_their_restarts_each_on_its_own():
    found = rounds(
        lived(0, "node0", t=1, restart=0), lived(1, "node1", t=1.1, restart=0),
        # One of them has burned a restart in between.
        lived(0, "node0", t=5, restart=2), lived(1, "node1", t=5.2, restart=1),
    )  # fmt: skip
    assert found == [(2, {0: "node0", 1: "node1"})] * 2


def test_a_job_that_shrinks_and_grows():
    found = rounds(
        lived(0, "node0", t=1, restart=0), lived(1, "node1", t=1.1, restart=0),
        lived(0, "node0", t=5, restart=1, world=1),
        lived(0, "node0", t=9, restart=1), lived(1, "node1", t=8.9, restart=0),
    )  # fmt: skip
    both = (2, {0: "node0", 1: "node1"})
    assert found == [both, (1, {0: "node0"}), both]


def test_a_rank_that_moves_to_another_node():
    found = rounds(
        lived(0, "node0", t=1, restart=0), lived(1, "node1", t=1.1, restart=0),
        lived(0, "node1", t=5, restart=1), lived(1, "node2", t=5.1, restart=0),
    )  # fmt: skip
    assert found == [(2, {0: "node0", 1: "node1"}), (2, {0: "node1", 1: "node2"})]


def test_where_too_few_nodes_are_left_the_job_has_not_come_back():
    run = Writer().launch().live(until=25).fault().died().launch()
    run.say("launch.end", launch=1, code=None, cause="too-few-nodes", survivors=[])
    verdict = completed()(run.end("gave-up").case())
    assert verdict.codes == ("crash-loop",)
    assert "fewer nodes are left than it needs" in verdict.sentence
