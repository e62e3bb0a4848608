"""Why a pod does not run, as its status says it."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes.kept_off import kept_off
from chaoskit.environments.kubernetes.pod_trouble import ended, hopeless, is_over, waits_for


def status(*, state=None, phase="Pending", conditions=(), **more):
    containers = [{"name": "trainer", "state": state}] if state is not None else []
    return {"status": {"phase": phase, "conditions": list(conditions), "containerStatuses": containers, **more}}


UNSCHEDULABLE = {
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
    "message": "0/3 nodes are available:  3 Insufficient cpu.",
}  # fmt: skip


def waiting(reason, message=""):
    return status(state={"waiting": {"reason": reason, "message": message}})


@pytest.mark.parametrize(
    "reason",
    ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "RunContainerError"],
)
def test_no_waiting_mends_it(reason):
    assert hopeless(waiting(reason, "it says\n  why")).startswith(f"{reason} (it says why): ")


def test_it_may_still_run():
    for pod in (waiting("ContainerCreating"), status(conditions=[UNSCHEDULABLE]), status(), {}):
        assert hopeless(pod) is None and ended(pod) is None
    assert waits_for(waiting("ContainerCreating")) == "its container waits: ContainerCreating"
    assert waits_for(status(conditions=[UNSCHEDULABLE])) == (
        "no node of the cluster takes the pod: 0/3 nodes are available: 3 Insufficient cpu. (give the pods smaller "
        "resources in [tool.chaoskit.kubernetes], or free some)"
    )
    lost = {"type": "PodScheduled", "status": "False", "message": '0/3: persistentvolumeclaim "runs" not found.'}
    assert hopeless(status(conditions=[lost])).startswith("there is no volume claim 'runs' in its namespace: make it")
    assert waits_for({}) == ""


def test_no_other_machine_takes_the_pod_of_a_drained_one():
    said = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."
    pod = status(conditions=[{**UNSCHEDULABLE, "message": said}])
    assert "check node-selector and tolerations" in waits_for(pod)
    assert waits_for(kept_off({"spec": {}, **pod}, "m0")) == (
        f"no node of the cluster takes the pod: {said} (its node was drained, and the pod must not run on m0 again: "
        "let the cluster have another machine with room for it, or leave out drain_node)"
    )


def test_how_it_has_ended():
    killed = status(state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, phase="Failed")
    assert ended(killed) == "exit code 137 (OOMKilled)"
    assert ended(status(state={"terminated": {"exitCode": 0}}, phase="Succeeded")) == "exit code 0"
    assert ended(status(phase="Failed", reason="Evicted", message="low on disk")) == "phase Failed (low on disk)"
    assert ended(status(state={"running": {}}, phase="Running")) is None


def test_a_container_has_ended_whatever_the_others_do():
    def pod(phase="Running", **states):
        return {"status": {"phase": phase, "containerStatuses": [{"name": n, "state": s} for n, s in states.items()]}}

    over, runs = {"terminated": {"exitCode": 0}}, {"running": {}}
    assert is_over(pod(trainer=over, logs=runs), "trainer") and is_over({"status": {"phase": "Failed"}}, "trainer")
    assert not is_over(pod(trainer=runs, logs=over), "trainer") and not is_over({}, "trainer")
