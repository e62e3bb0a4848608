"""Pods run short, because the stress of Chaos Mesh takes what they may use; through the environment."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from chaoskit.capabilities import CanLimitMemory, CanLimitProcessor, LimitTarget
from chaoskit.environments import offers
from chaoskit.environments.environment import Arrived, Ended
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.machine.processes import parent
from chaoskit.environments.machine.sweep import sweep as sweep_machine
from chaoskit.job import Job
from tests.environments.events import news
from tests.environments.kubernetes.conftest import left
from tests.environments.kubernetes.test_environment import killed_harness
from tests.kubernetes_server.chaos_in_groups import STRESSORS

pytestmark = pytest.mark.launches

MIB = 1 << 20
#: They hold some memory, so that there is room once they are dead.
SLEEPS = "import time\nheld = bytearray(b'1') * (48 << 20)\ntime.sleep(1000)"
GROWS = SLEEPS.replace("time.sleep(1000)", "while True: x = bytearray(b'1') * (8 << 20); time.sleep(0.02)")
NODE = LimitTarget(node=0)
#: A rank that takes one step, and then computes for ever.
BUSY = "import runpy, sys\nsys.argv = ['x', '0', '1']\nrunpy.run_path({stub!r})\nwhile True: pass"


def python(script):
    return ["python3", "-I", "-S", "-c", script]


def stressors():
    """The stressors that the Chaos Mesh of this process has started."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        ours = STRESSORS.encode() in words and words[-2] == str(os.getpid()).encode()
        if ours and parent(int(name)) != os.getpid():
            found.append(int(name))
    return found


def limited(spec, **limits):
    return replace(spec, cluster=replace(spec.cluster, resources={"limits": limits}))


def test_the_environment_offers_them():
    assert all(offers("kubernetes", can) for can in (CanLimitMemory, CanLimitProcessor))


@pytest.mark.parametrize(("can", "limit"), [(CanLimitMemory, "memory"), (CanLimitProcessor, "cpu")])
def test_without_a_limit_of_the_pods_nothing_can_run_short(can, limit, cluster_place, mesh_in_pods):
    def lacks(**limits):
        cluster = replace(cluster_place, resources={"limits": limits})
        return KubernetesEnvironment.lacks(can, Job.from_command(["x", "{out}"], image="t", cluster=cluster))

    assert lacks(**{limit: "1"}) is None
    assert f"needs pods with a limit of {limit}" in lacks(**{"nvidia.com/gpu": "1"})


@pytest.fixture
def pod(pods_place, mesh_in_pods):
    with KubernetesEnvironment(limited(pods_place, cpu="500m", memory="256Mi")) as env:
        yield env
    assert stressors() == []


def test_the_kernel_kills_the_job_in_a_pod_that_is_full(pod, until):
    pod.launch(0, python(GROWS))
    limit = pod.limit_memory(NODE, leave=0)
    assert news(pod, Ended) == Ended(0, -9)
    # Where root may not spare the stressor, a busy kernel may take that as well: it does not count once it is gone.
    until(lambda: pod.memory_limited(limit)["gone"] and pod.memory_limited(limit)["kills"] == 1)
    found = pod.memory_limited(limit)
    assert found["limit"] == 256 * MIB and found["stressors"] == 1, found
    (claim,) = pod.claims()
    assert claim["kind"] == "StressChaos" and claim["conditions"]["AllInjected"]
    pod.lift_memory(limit)
    until(lambda: stressors() == [])
    assert pod.memory_limited(limit)["kills"] == 1
    pod.launch(1, python("x = bytearray(b'1') * (160 << 20); print('enough')"))
    assert news(pod, Ended) == Ended(1, 0)
    pod.lift_memory(limit)
    pod.lift_memory(99)
    assert pod.claims() == []


def test_a_stressor_that_dies_itself_does_not_count(pod, mesh_in_pods, until):
    mesh_in_pods.backend.stressors_die = True
    pod.launch(0, python(SLEEPS))
    limit = pod.limit_memory(NODE, leave=0)
    assert pod.memory_limited(limit)["stressors"] == 1

    def kills():
        return pod.pods.ask("node0", "resources")["kills"]

    # On a busy machine the kernel may take a second one, because the first is slow to end.
    until(lambda: kills() > 0 and pod.memory_limited(limit)["kills"] == kills() - 1)
    assert stressors() == []


def test_a_chaos_mesh_that_only_says_so_takes_no_memory(pod, mesh_in_pods):
    mesh_in_pods.lies = True
    pod.launch(0, python(SLEEPS))
    limit = pod.limit_memory(NODE, leave=0)
    assert pod.claims()[0]["conditions"]["AllInjected"] and stressors() == []
    found = pod.memory_limited(limit)
    assert (found["kills"], found["gone"], found["stressors"]) == (0, [], 0) and found["used"] < 128 * MIB


def test_a_pod_that_is_killed_whole_tells_so_by_its_status(pod, until):
    """As cgroups v2 may have it (memory.oom.group): here the agent is killed first, and all ends with it."""
    pod.launch(0, python(SLEEPS))
    pods = here(pod)
    limit = pod.mesh.stress.take_memory("node0", here=lambda: here(pod), first=[1], leave=0)
    until(lambda: pod.memory_limited(limit)["gone"])
    found = pod.memory_limited(limit)
    assert found["gone"] == pods and found["kills"] == 1
    pod.launch(1, python("x = bytearray(b'1') * (160 << 20); print('enough')"))
    assert news(pod, Ended) == Ended(1, 0)
    assert pod.memory_limited(limit) == found and pod.claims() == []


def here(env):
    return env.pods.ask("node0", "processes", run_id=env.run.spec.run_id)


def test_a_busy_job_is_left_a_share_of_the_processors_of_its_pod(pod, machines, until):
    pod.launch(0, python(BUSY.format(stub=str(machines.volume / "store" / "stub_rank.py"))))
    news(pod, Arrived)
    limit = pod.limit_processor(LimitTarget(rank=0), cpu=0.1)
    assert len(stressors()) == pod.processor_limited(limit)["workers"] == 4
    assert not pod.processor_limited(limit)["felt"], "the rank waits at its gate"
    pod.release(0, keep_gating=False)
    until(lambda: pod.processor_limited(limit)["felt"], timeout=60)
    found = pod.processor_limited(limit)
    assert found["processors"] < 0.3 and found["others"] > found["processors"] and found["periods"] > 0, found
    pod.lift_processor(limit)
    # On a busy machine the share of the whole time may have risen again, so it need not say that it was felt.
    after = pod.processor_limited(limit)
    assert stressors() == [] and pod.claims() == [] and after["periods"] >= found["periods"] and after["workers"] == 4
    pod.lift_processor(99)


STRESS = """if True:
        from chaoskit.capabilities import LimitTarget
        while True:
            try:
                env.limit_processor(LimitTarget(node=0), cpu=0.1)
                break
            except LookupError:  # the rank has yet to come up
                time.sleep(0.1)
"""


def test_stress_ends_with_a_harness_that_was_killed(pods_place, mesh_in_pods, machines, connection, until):
    spec = limited(pods_place, cpu="500m")
    killed_harness(spec, STRESS)
    until(lambda: machines.kubelet.running() == [] and stressors() == [], timeout=60)
    sweep_machine(spec.store)
    assert KubernetesEnvironment.sweep(spec.store)
    assert left(connection, machines.cluster.namespace) == []
