"""Which experiments do not apply to which kind of job: rules on records written by hand. A skip has its reason; what is
merely unknown is no skip."""

import pytest

from chaoskit.analysis.reference.reference import Reference
from tests.history_writer import Writer


def reference(*, ranks=2, grouped=True, declared=False, shards=False, stages=False, same=True):
    """The reference of a job of that kind; `same` models, `declared` replicas, `stages` of a pipeline."""
    patch = (
        {}
        if same
        else {(rank, step, "model"): f"own.{rank}.{step}" for rank in range(ranks) for step in range(61)}
    )
    run = Writer(ranks=ranks).launch().live(ends=True, patch=patch)
    for rank in range(ranks):
        source = f"rank-{rank}-1"
        if grouped:
            run.say("group", source, backend="gloo", timeout=None)
        if declared:
            run.say("replicas", source, ranks=list(range(ranks)))
        if shards:
            run.say("shards", source, parameters=4)
        tensors = {f"layer.{rank}.weight" if stages else "layer.weight": f"{rank}"}
        run.say("tensors", source, n=1, tensors={"model": tensors})
    return of(run)


def of(run):
    history = run.exit(0).end().history()
    return Reference.of([history, history])


#: By kind of job: how its ranks are recorded, and whether a first collective and replicas are there to be tested.
KINDS = {
    "one process without a group": ({"ranks": 1, "grouped": False}, False, False),
    "one process with a group": ({"ranks": 1}, False, False),
    "DDP": ({"declared": True}, True, True),
    "replicas by hand": ({}, True, True),
    "FSDP2": ({"shards": True, "same": False}, True, False),
    "tensor parallel": ({"shards": True, "same": False}, True, False),
    "tensor and data parallel": ({"shards": True}, True, True),
    "pipeline": ({"stages": True, "same": False}, True, False),
    "ranks without a group": ({"grouped": False}, False, True),
    # Ranks that hold the same tensors with other values may be replicas that differ from the beginning.
    "replicas that have diverged": ({"same": False}, True, True),
    "declared replicas that have diverged": ({"declared": True, "same": False}, True, True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_applies_to_a_kind_of_job(kind):
    told, collective, replicas = KINDS[kind]
    made = reference(**told)
    assert (made.no_collective == "", made.no_replicas == "") == (collective, replicas)


def test_the_reason_says_what_the_job_is():
    assert "only one rank" in reference(ranks=1).no_collective
    assert "process group" in reference(grouped=False).no_collective
    assert "only one rank" in reference(ranks=1).no_replicas
    assert "shards its model" in reference(shards=True, same=False).no_replicas
    assert "a part of the model" in reference(stages=True, same=False).no_replicas


def test_a_rank_that_says_nothing_of_shards_may_be_a_replica():
    run = Writer().launch().live(ends=True, patch={(1, 1, "model"): "another"})
    run.say("shards", "rank-0-1", parameters=4)
    assert of(run).no_replicas == ""
