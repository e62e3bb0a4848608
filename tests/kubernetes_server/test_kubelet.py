"""Pods run as a real kubelet runs them: phases, containers, restarts, images that are not there, room on the nodes."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.launches


def test_a_pod_runs_and_ends_with_its_code(pods):
    pods.make("good", "echo said; test $(pwd) = /tmp", container={"workingDir": "/tmp"})
    pods.make("bad", "exit 3")
    good, bad = pods.phase("good", "Succeeded"), pods.phase("bad", "Failed")
    assert good.spec.node_name and good.status.start_time and good.status.pod_ip and good.status.host_ip
    (status,) = good.status.container_statuses
    assert (status.state.terminated.exit_code, status.state.terminated.reason) == (0, "Completed")
    assert status.state.terminated.started_at <= status.state.terminated.finished_at
    assert status.container_id and status.image_id and not status.ready
    ended = bad.status.container_statuses[0].state.terminated
    assert (ended.exit_code, ended.reason) == (3, "Error")
    assert pods.log("good") == "said\n"
    assert {"Scheduled", "Created", "Started"} <= set(pods.events("good"))


def test_a_pod_that_runs_is_ready(pods):
    pods.make("one", "exec sleep 1000")
    pod = pods.phase("one", "Running")
    conditions = {one.type: one.status for one in pod.status.conditions}
    wanted = ("Initialized", "Ready", "ContainersReady", "PodScheduled", "PodReadyToStartContainers")
    assert conditions == dict.fromkeys(wanted, "True")
    assert pod.status.container_statuses[0].ready and pod.status.container_statuses[0].state.running.started_at


def test_arguments_know_variables_and_the_user_is_the_one_asked_for(pods):
    words = {"command": ["sh", "-c"], "args": ["id -u; echo '$(NAME) $$(NAME) $(NOBODY)'"],
             "env": [{"name": "FIRST", "value": "a"}, {"name": "NAME", "value": "$(FIRST)b"}],
             "securityContext": {"runAsUser": 1234}}  # fmt: skip
    pods.make("one", "", container=words)
    pods.phase("one", "Succeeded")
    assert pods.log("one") == "1234\nab $(NAME) $(NOBODY)\n"


def test_an_image_that_is_not_there_is_waited_for(pods):
    pods.make("one", "true", container={"image": "example.invalid/absent:1"})
    pods.waits("one", "ErrImagePull")
    pods.waits("one", "ImagePullBackOff")
    assert pods.read("one").status.phase == "Pending"
    events = pods.events("one")
    assert events["BackOff"].startswith('Back-off pulling image "example.invalid/absent:1"')
    assert "example.invalid/absent:1" in events["Failed"] or events["Failed"] == "Error: ErrImagePull"


def test_a_command_that_is_not_there_never_starts(pods):
    pods.make("one", "", container={"command": ["/not-there"]})
    pods.phase("one", "Failed")
    ended = pods.state("one").terminated
    assert ended.exit_code == 128 and ended.reason == "StartError" and "/not-there" in ended.message


def test_who_wants_privileges_waits_in_vain(pods, real_cluster):
    assert real_cluster.kubelet  # a real cluster may give them
    pods.make("one", "true", container={"securityContext": {"privileged": True}})
    pods.waits("one", "CreateContainerConfigError")


def test_more_memory_than_the_limit_is_the_end(pods):
    limits = {"resources": {"limits": {"memory": "32Mi"}}}
    script = "exec python3 -c 'x = bytearray(200_000_000)'"
    pods.make("one", script, container=limits)
    pods.phase("one", "Failed")
    assert (pods.state("one").terminated.exit_code, pods.state("one").terminated.reason) == (137, "OOMKilled")


def test_the_first_containers_come_one_after_the_other(pods):
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    first = [{"name": name, "image": pods.image, "command": ["sh", "-c", f"echo {name} >> /shared/seen"], **mount}
             for name in ("one", "two")]  # fmt: skip
    spec = {"initContainers": first, "volumes": [{"name": "shared", "emptyDir": {}}]}
    main = {"name": "main", "image": pods.image, "command": ["cat", "/shared/seen"], **mount}
    pods.make("all", "", spec=spec | {"containers": [main]})
    pod = pods.phase("all", "Succeeded")
    assert pods.log("all", container="main") == "one\ntwo\n"
    assert [one.state.terminated.exit_code for one in pod.status.init_container_statuses] == [0, 0]


def test_a_first_container_that_fails_ends_the_pod(pods):
    first = [{"name": "first", "image": pods.image, "command": ["sh", "-c", "echo why; exit 4"]}]
    pods.make("one", "echo never", spec={"initContainers": first})
    pod = pods.phase("one", "Failed")
    assert pod.status.init_container_statuses[0].state.terminated.exit_code == 4
    assert pod.status.container_statuses[0].state.waiting.reason == "PodInitializing"
    assert pods.log("one", container="first") == "why\n"


def test_a_container_that_fails_starts_again_with_its_volumes_and_its_address(pods, real_cluster):
    real_cluster.kubelet.back_off = 0.1
    script = "n=$(cat /d/n 2>/dev/null || echo 0); echo $((n + 1)) > /d/n; echo $n; tail -1 /etc/hosts; exit $((n < 2))"
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    spec = {"restartPolicy": "OnFailure", "volumes": [{"name": "d", "emptyDir": {}}]}
    pods.make("one", script, container=mount, spec=spec)
    pod = pods.phase("one", "Succeeded")
    (status,) = pod.status.container_statuses
    assert (status.restart_count, status.last_state.terminated.exit_code) == (2, 1)
    last, before = pods.log("one"), pods.log("one", previous=True)
    assert (last[0], before[0]) == ("2", "1") and last[1:] == before[1:] and pod.status.pod_ip in last


def test_a_container_that_fails_again_and_again_backs_off(pods):
    pods.make("one", "exit 1", spec={"restartPolicy": "Always"})
    pods.waits("one", "CrashLoopBackOff")
    pod = pods.read("one")
    assert pod.status.phase == "Running" and pod.status.container_statuses[0].restart_count == 1


def test_a_pod_may_be_active_only_so_long(pods):
    pods.make("one", "exec sleep 1000", spec={"activeDeadlineSeconds": 2, "terminationGracePeriodSeconds": 1})
    pod = pods.phase("one", "Failed")
    assert pod.status.reason == "DeadlineExceeded"
    assert pod.status.container_statuses[0].state.terminated.exit_code == 137


def test_no_node_takes_a_pod_until_there_is_room(pods, real_cluster):
    scheduler = real_cluster.kubelet.scheduler
    room, scheduler.unschedulable = scheduler.unschedulable, lambda pod: "Insufficient memory"
    pods.make("one", "true")
    pod = pods.wait("one", lambda pod: pod.status.conditions)
    (condition,) = pod.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert condition.message.startswith("0/2 nodes are available: 2 Insufficient memory. preemption: ")
    pods.until(lambda: pods.events("one").get("FailedScheduling") == condition.message)
    scheduler.unschedulable = room
    pods.phase("one", "Succeeded")


def test_what_no_node_has_keeps_a_pod_waiting(pods):
    pods.make("gpu", "true", container={"resources": {"limits": {"example.invalid/gpu": "8"}}})
    pods.make("elsewhere", "true", spec={"nodeSelector": {"example.invalid/zone": "none"}})
    pods.make("lost", "true", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}]})
    said = {name: pods.wait(name, lambda pod: pod.status.conditions).status.conditions[0].message
            for name in ("gpu", "elsewhere", "lost")}  # fmt: skip
    assert "Insufficient example.invalid/gpu" in said["gpu"]
    assert "didn't match Pod's node affinity/selector" in said["elsewhere"]
    assert 'persistentvolumeclaim "absent" not found' in said["lost"]


def test_pods_spread_over_the_nodes(pods, real_cluster):
    assert real_cluster.kubelet  # a real cluster may have one node
    for name in ("one", "two"):
        pods.make(name, "exec sleep 1000")
    assert len({pods.phase(name, "Running").spec.node_name for name in ("one", "two")}) == 2
