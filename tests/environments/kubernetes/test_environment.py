"""Pods as nodes: launches, gates, signals, nodes that are lost, and whatever keeps a pod from running."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.capabilities import (
    CanCorruptNumbers,
    CanLoseNodes,
    CanOrder,
    CanPartition,
    CanShowActivity,
    CanSignal,
    CanTouchFiles,
)
from chaoskit.environments import environment, must_store, offers
from chaoskit.environments.agents import agent
from chaoskit.environments.agents.agent_line import AgentDoor, AgentGone
from chaoskit.environments.environment import Arrived, Ended
from chaoskit.environments.gate.doors import TcpDoor
from chaoskit.environments.kubernetes import image_look, pods
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.kubernetes.pod_manifest import TOKEN
from chaoskit.environments.kubernetes.run_owner import id_in_cluster
from chaoskit.environments.machine.sweep import sweep as sweep_machine
from chaoskit.errors import ChaoskitError, MissingCapability, UsageError
from chaoskit.job import Job
from chaoskit.nodes import Nodes
from chaoskit.protocol.json_lines import encode
from tests.docker_images import images
from tests.environments.events import news
from tests.environments.kubernetes.conftest import left
from tests.kubernetes_server.faults import seeded


def test_the_registry():
    assert environment("kubernetes") is KubernetesEnvironment
    for can in (CanSignal, CanShowActivity, CanOrder, CanCorruptNumbers, CanTouchFiles, CanLoseNodes, CanPartition):
        assert offers("kubernetes", can)
    with pytest.raises(MissingCapability, match=r"environment 'kubernetes' has no watched storage: use --env docker"):
        must_store("kubernetes", "watched")


@pytest.mark.launches
def test_a_run_from_gate_to_gate_with_faults(pods_place, stub, until):
    with KubernetesEnvironment(pods_place) as env:
        token = pods_place.run_dir / TOKEN
        assert token.stat().st_mode & 0o777 == 0o600
        assert env.launch(0, stub(1, 2)) == "cold"
        for n in range(2):
            arrived = news(env, Arrived)
            process = env.rank_process(1)
            assert arrived == Arrived(1, 0, 0, process.pid, "step", n, 1, {"n": n + 1})
            assert list(env.launcher_processes()) == [process]
            # The reference names the pod and the start time.
            pod, start = process.key.split("/")
            assert env.pods.now["node0"].uid == pod and int(start) > 0
            env.release(1, keep_gating=True)
        assert news(env, Ended) == Ended(0, 0)
        assert (pods_place.run_dir / "logs" / "launch-0.log").read_text() == "done\n"

        before = env.pods.now["node0"].uid
        env.launch(1, stub(0, 3))
        news(env, Arrived)
        process = env.rank_process(0)
        assert env.signal(process, signal.SIGSTOP)
        until(lambda: env.state(process) == "stopped")
        assert env.signal(process, signal.SIGCONT)
        env.order(0, {"do": "exit", "code": 7})
        env.release(0, keep_gating=True)
        assert news(env, Ended) == Ended(1, 7)

        env.launch(2, stub(0, 3))
        news(env, Arrived)
        process = env.rank_process(0)
        assert env.signal(process, signal.SIGKILL)
        assert news(env, Ended) == Ended(2, -9)
        assert env.state(process) == "gone" and not env.signal(process, signal.SIGKILL)
        # Relaunches go into the running pod.
        assert env.pods.now["node0"].uid == before
    assert not token.exists()


@pytest.mark.launches
def test_a_node_is_lost_with_its_pod_and_another_pod_takes_its_place(pods_place, stub, machines, until):
    place = replace(pods_place, nodes=Nodes(2, 2))
    with KubernetesEnvironment(place) as env:
        env.launch(0, stub(0, 9))
        news(env, Arrived)
        assert not env.is_lost("node1")
        before = env.pods.now["node1"].uid
        inside = machines.kubelet.pids(before)
        evidence = env.lose_node("node1")
        assert evidence["uid"] == before and evidence["ended"]
        assert env.is_lost("node1") and "node1" not in env.nodes()
        until(lambda: not [pid for pid in inside if Path(f"/proc/{pid}").exists()])
        with pytest.raises(LookupError, match="node1 is not up"):
            env.lose_node("node1")
        env.launch(1, stub(0, 1))
        assert env.nodes() == ("node0", "node1") and env.pods.now["node1"].uid != before


@pytest.mark.launches
def test_a_frozen_node(pods_place, stub, until):
    with KubernetesEnvironment(replace(pods_place, nodes=Nodes(2, 2))) as env:
        env.launch(0, stub(0, 9))
        news(env, Arrived)
        assert not env.is_frozen("node0")
        pids = env.freeze_node("node0")["pids"]
        assert pids and not env.is_frozen("node1")
        until(lambda: env.is_frozen("node0"))
        env.thaw_node("node0")
        until(lambda: not env.is_frozen("node0"))


@pytest.mark.launches
def test_a_pod_that_somebody_else_ends_counts_as_killed(pods_place, stub, machines):
    with KubernetesEnvironment(pods_place) as env:
        env.launch(0, stub(0, 9))
        news(env, Arrived)
        before = env.pods.now["node0"].uid
        machines.kubelet.kill_container(before)
        assert news(env, Ended).code == -9
        env.launch(1, stub(0, 0))
        assert news(env, Ended) == Ended(1, 0)
        assert env.pods.now["node0"].uid != before


def test_an_image_that_is_not_there(cluster_place, machines, connection):
    with pytest.raises(UsageError, match=r"image 'absent:1' cannot run in namespace .*ErrImagePull.*pull-secret"):
        image_look.examine(cluster_place, "absent:1", program="python3")
    assert left(connection, machines.cluster.namespace) == []


@pytest.mark.parametrize(
    ("kind", "said"),
    [("no-python", "has no Python that starts"), ("no-torch", "has no torch"), ("old-python", "has no Python")],
)
def test_an_image_in_which_no_job_can_run(cluster_place, machines, connection, kind, said):
    with pytest.raises(UsageError, match=said):
        image_look.examine(cluster_place, images.image(kind), program="python3")
    assert left(connection, machines.cluster.namespace) == []


@pytest.mark.launches
def test_a_cluster_that_is_full_says_so(pods_place, machines, monkeypatch):
    image_look.examine(pods_place.cluster, pods_place.image, program=pods_place.program)
    machines.kubelet.scheduler.unschedulable = lambda pod: "Insufficient cpu"
    monkeypatch.setattr("chaoskit.environments.kubernetes.pods.PodNodes.__init__.__kwdefaults__", {"limit": 3.0})
    with pytest.raises(AgentGone, match=r"within 3 s: no node of the cluster takes the pod: 0/2 nodes are available"):
        KubernetesEnvironment(pods_place).__enter__()


@pytest.mark.launches
@pytest.mark.parametrize("late", [4, 10**6])
def test_the_address_of_a_pod_is_waited_for(pods_place, stub, monkeypatch, late):
    """A kubelet tells it after the container has started, so that an agent can be there before."""
    asked = iter(range(late))
    answer = ClusterConnection.get

    def without_address(connection, target):
        found = answer(connection, target)
        if "podIP" in (found.get("status") or {}) and next(asked, None) is not None:
            del found["status"]["podIP"]
        return found

    monkeypatch.setattr(ClusterConnection, "get", without_address)
    monkeypatch.setattr(pods, "_ADDRESS", 30.0 if late == 4 else 0.5)
    if late == 4:
        with KubernetesEnvironment(pods_place) as env:
            assert env.pods.now["node0"].address and next(asked, None) is None
    else:
        with pytest.raises(ChaoskitError, match=r"does not tell the address of the pod chaoskit-.* of node0"):
            KubernetesEnvironment(pods_place).__enter__()


@pytest.mark.launches
def test_a_claim_that_is_another_volume(pods_place, machines, tmp_path):
    (tmp_path / "other" / "store" / "runs" / "one").mkdir(parents=True)
    image_look.examine(pods_place.cluster, pods_place.image, program=pods_place.program)
    machines.kubelet.volumes[(pods_place.cluster.namespace, "runs")] = tmp_path / "other"
    with pytest.raises(ChaoskitError, match=r"the pod .* of node0 has ended at once, exit code [12]"):
        KubernetesEnvironment(pods_place).__enter__()


def test_what_is_missing_is_said_before_anything_is_made(cluster_place, tmp_path):
    command = ["torchrun", "train.py", "--out", "{out}"]
    with pytest.raises(UsageError, match="needs --namespace NAME and --volume"):
        KubernetesEnvironment.rests_on(Job.from_command(command, image="trainer:1"))
    with pytest.raises(UsageError, match="needs the image of the job"):
        KubernetesEnvironment.rests_on(Job.from_command(command, cluster=cluster_place))
    with pytest.raises(UsageError, match=r"--mount \.:/x: pods do not see files of this machine"):
        KubernetesEnvironment.rests_on(Job.from_command(command, cluster=cluster_place, image="t:1", mounts=[".:/x"]))


def test_an_agent_without_the_token_is_turned_away():
    door = AgentDoor(TcpDoor())
    port = int(door.address.rpartition(":")[2])

    def hello(**words):
        line = socket.create_connection(("127.0.0.1", port))
        line.sendall(encode({"agent": "p", **words}))
        return line

    try:
        for words in ({}, {"token": ""}, {"token": "x" * 43}, {"token": door.token[:-1]}):
            with hello(**words) as line, pytest.raises(AgentGone, match=r"within 0\.5 s"):
                door.take({"agent": "p"}, limit=0.5, alive=lambda: None)
            assert not door._waiting, line
        with hello(token=door.token):
            door.take({"agent": "p"}, limit=5, alive=lambda: None).close()
    finally:
        door.close()


def test_an_agent_that_does_not_reach_chaoskit_says_at_which_address():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
    for door, why in ((address, "Connection refused"), ("volume:/absent/channel", "No such file or directory")):
        done = subprocess.run([sys.executable, "-I", "-S", agent.__file__, door, "p"], capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.startswith(f"this node does not reach chaoskit at {door}: ")
        assert why in done.stderr


@pytest.mark.parametrize("run_id", ["r1", "20261124-232738-311666cd1f"])
def test_an_id_that_a_cluster_can_have_stays(run_id):
    assert id_in_cluster(run_id) == run_id


def test_other_ids_stay_apart_in_a_cluster():
    ids = ["Run_1", "run-1_", "run 1", "x" * 60, "x" * 61, "ä", "--"]
    made = [id_in_cluster(each) for each in ids]
    assert len(set(made)) == len(ids)
    for each in made:
        assert len(each) <= 40 and each.strip("-") == each and each.isascii() and each == each.lower()


@pytest.mark.launches
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(4), marks=pytest.mark.slow),
        pytest.param(range(4, 12), marks=pytest.mark.exhaustive),
        *(pytest.param(range(n, n + 61), marks=pytest.mark.exhaustive) for n in range(12, 500, 61)),
    ],
    ids=str,
)
def test_whatever_goes_wrong_at_the_api_the_run_tells_the_truth(
    pods_place, stub, api_server, connection, monkeypatch, seeds
):
    """The life of a run on two nodes, a rank killed and a node lost, with errors at every third call of ours."""
    monkeypatch.setattr("chaoskit.environments.kubernetes.retries._FIRST_WAIT", 0.01)
    image_look.examine(pods_place.cluster, pods_place.image, program=pods_place.program)
    happened = set()
    for seed in seeds:
        chance = seeded(seed, rate=0.3)
        with api_server.faulty(chance):
            with KubernetesEnvironment(replace(pods_place, nodes=Nodes(2, 2))) as env:
                env.launch(0, stub(0, 3))
                news(env, Arrived)
                process = env.rank_process(0)
                assert env.signal(process, signal.SIGKILL)
                assert news(env, Ended) == Ended(0, -9)
                before = env.pods.now["node1"].uid
                env.launch(1, stub(0, 9))
                news(env, Arrived)
                assert env.lose_node("node1")["uid"] == before and env.is_lost("node1")
                env.launch(2, stub(0, 0))
                assert news(env, Ended) == Ended(2, 0)
                assert env.pods.now["node1"].uid != before
            happened |= {fault.kind for _, fault in api_server.injected}
        assert left(connection, pods_place.cluster.namespace) == [], f"seed {seed}"
    assert {"conflict", "too_many", "timeout", "reset"} <= happened


HARNESS = """
import sys, time
from dataclasses import replace
from pathlib import Path
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.nodes import ClusterPlace
import json
run_dir, run_id, image, store, place, stub = sys.argv[1:]
spec = RunSpec(run_dir=Path(run_dir), out=Path(run_dir, "out"), cwd=Path(run_dir), run_id=run_id, gated=True,
               image=image, program="python3", store=Path(store), cluster=ClusterPlace.from_json(json.loads(place)))
with KubernetesEnvironment(spec) as env:
    env.launch(0, ["python3", "-I", "-S", stub, "0", "9"])
    {more}
    print("up", flush=True)
    time.sleep(1000)
"""


def killed_harness(spec, more="pass"):
    """Run a harness, with a line of its own, and kill it once it is up; leaves the record of its run."""
    words = [
        sys.executable, "-c", HARNESS.replace("{more}", more), str(spec.run_dir), spec.run_id, spec.image,
        str(spec.store), json.dumps(spec.cluster.to_json()), str(spec.store / "stub_rank.py"),
    ]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout.readline() == "up\n"
        owner = {"pid": harness.pid, "start": 1}
        harness.kill()
    job = Job.from_command(["x", "{out}"], image="t", cluster=spec.cluster)
    record = {"id": spec.run_id, "status": "running", "owner": owner, "job": job.to_json()}
    (spec.run_dir / "run.json").write_text(json.dumps(record))


@pytest.mark.launches
def test_of_a_killed_harness_nothing_is_left_after_a_clean(pods_place, machines, connection, until, tmp_path):
    namespace = machines.cluster.namespace
    killed_harness(pods_place)
    until(lambda: machines.kubelet.running() == [], timeout=60)
    assert len(left(connection, namespace)) == 3
    sweep_machine(pods_place.store)
    removed = KubernetesEnvironment.sweep(pods_place.store)
    assert len(removed) == 3 and all(namespace in each for each in removed)
    assert left(connection, namespace) == []
    assert KubernetesEnvironment.sweep(pods_place.store) == ()
