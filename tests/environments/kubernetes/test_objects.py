"""All objects of a run are labelled, owned and journalled; those of others are never touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from chaoskit.environments.kubernetes import objects, run_owner
from chaoskit.environments.kubernetes.api_kinds import CONFIG_MAPS, JOBS, PODS, SERVICES
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget
from chaoskit.environments.kubernetes.guards import preview
from chaoskit.environments.kubernetes.intents import left
from chaoskit.environments.kubernetes.listing import ForeignObject, listed
from chaoskit.environments.kubernetes.objects import ForeignTarget, RunObjects, sweep
from chaoskit.environments.kubernetes.selectors import OWNER, ROLE, RUN, USER, RunIdentity, RunSelector
from chaoskit.environments.machine import owner
from chaoskit.errors import UsageError
from tests.environments.kubernetes import cluster_objects as some
from tests.environments.kubernetes.scripted_server import Scripted, scripted, status


@pytest.fixture
def run(connection, cluster, tmp_path):
    return RunObjects(connection, namespace=cluster.namespace, run_id="r1", run_dir=tmp_path)


@pytest.fixture
def foreign(connection, cluster, run):
    """Pods of others: without labels, with those of another run, with one of the two of this run."""
    kinds = [
        {},
        {"app": "trainer"},
        {RUN: "r1"},
        {OWNER: run.identity.uid},
        {RUN: "r1", OWNER: "another"},
        {RUN: "r2", OWNER: run.identity.uid},
        {RUN: "r1", OWNER: run.identity.uid[:-1]},
    ]
    for number in range(100):
        connection.create(cluster.namespace, PODS, some.pod(f"foreign-{number}", **kinds[number % len(kinds)]))
    connection.create(cluster.namespace, CONFIG_MAPS, some.named(CONFIG_MAPS, "chaoskit-r0"))
    return {f"Pod foreign-{number}" for number in range(100)} | {"ConfigMap chaoskit-r0"}


def test_what_is_made_is_labelled_owned_and_journalled(run, connection, cluster, tmp_path):
    made = run.create(JOBS, some.job("trainer"), role="trainer", node=0)
    uid = run.identity.uid
    labels = {RUN: "r1", OWNER: uid, ROLE: "trainer", "chaoskit.dev/node": "0"}
    assert made["metadata"]["labels"] == labels
    assert made["metadata"]["ownerReferences"][0]["uid"] == uid
    template = made["spec"]["template"]["metadata"]["labels"]
    assert labels.items() <= template.items() and template["app"] == "trainer"
    assert [one.name for one in left(tmp_path / objects.NAME)] == ["chaoskit-r1", "trainer"]
    (found,) = run.listed(JOBS, role="trainer", node=0).manifests
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert run.listed(JOBS, role="helper").manifests == () == run.listed(JOBS, node=1).manifests


def test_the_journal_has_an_object_before_the_server_does(run, connection, tmp_path, monkeypatch):
    seen = []
    create = connection.create

    def spied(namespace, kind, manifest, **options):
        seen.append([one.name for one in left(tmp_path / objects.NAME)])
        return create(namespace, kind, manifest, **options)

    monkeypatch.setattr(connection, "create", spied)
    run.create(PODS, some.pod("p0"), role="trainer")
    assert seen == [["chaoskit-r1", "p0"]]


def test_what_the_server_refused_is_not_left(run, tmp_path):
    run.create(SERVICES, some.service("one"), role="trainer")
    with pytest.raises(ClusterError, match="already exists"):
        run.create(PODS, some.pod("p0"), role="trainer") and run.create(PODS, some.pod("p0"), role="trainer")
    assert [one.name for one in left(tmp_path / objects.NAME)] == ["chaoskit-r1", "one"]


def test_the_labels_of_the_run_cannot_be_overridden(run):
    made = run.create(PODS, some.pod("p0", **{RUN: "r2", OWNER: "other", "app": "x"}), role="trainer")
    assert run.identity.labels.items() <= made["metadata"]["labels"].items()
    assert made["metadata"]["labels"]["app"] == "x"


def test_an_object_needs_a_name_and_a_role(run):
    with pytest.raises(UsageError, match=r"metadata.name is missing"):
        run.create(PODS, {"metadata": {"generateName": "p-"}}, role="trainer")
    with pytest.raises(UsageError, match="role must be"):
        run.create(PODS, some.pod("p0"), role="a role")


@pytest.mark.usefixtures("crds")
def test_a_fault_that_could_hit_others_is_refused_before_the_server_sees_it(run, connection, cluster, api_server):
    before = some.there(connection, cluster.namespace)
    chaos = some.partition("cut", run)
    for selector in ({}, {"namespaces": [cluster.namespace], "labelSelectors": {"app": "trainer"}}):
        with pytest.raises(ForeignTarget, match="could hit pods of others") as raised:
            run.create(some.NETWORK_CHAOS, {**chaos, "spec": {**chaos["spec"], "selector": selector}}, role="fault")
        assert raised.value.why
    assert some.there(connection, cluster.namespace) == before
    assert run.create(some.NETWORK_CHAOS, chaos, role="fault")["spec"] == chaos["spec"]


def test_a_preview_shows_the_pods_of_the_run_and_nobody_elses(run, connection, cluster, foreign):
    for name in ("p1", "p0"):
        run.create(PODS, some.pod(name), role="trainer")
    run.create(PODS, some.pod("reader"), role="reader")
    assert [pod.name for pod in preview(connection, RunSelector(run.identity))] == ["p0", "p1", "reader"]
    assert [pod.name for pod in preview(connection, RunSelector(run.identity, "trainer"))] == ["p0", "p1"]
    assert preview(connection, RunSelector(RunIdentity(cluster.namespace, "r1", "another-uid"))) == ()


@pytest.mark.parametrize("labels", [{}, {RUN: "r1"}, None])
def test_a_server_that_ignores_the_selector_is_not_believed(labels):
    selector = RunSelector(RunIdentity("staging", "r1", "u0"))
    pods = [{"name": "ours", "labels": selector.labels}, {"name": "theirs", "labels": labels}]
    items = [{"metadata": {"namespace": "staging", "uid": "u", **pod}} for pod in pods]
    answer = Scripted(body={"metadata": {}, "items": items})
    with scripted(answer, answer) as script:
        for look in (preview, lambda connection, selector: listed(connection, PODS, selector)):
            with pytest.raises(ForeignObject, match="Pod theirs in staging, which lacks the labels") as raised:
                look(script.connection(), selector)
            assert raised.value.name == "theirs"


def test_closing_removes_everything_of_the_run_and_nothing_else(run, connection, cluster, tmp_path, foreign):
    run.create(JOBS, some.job("trainer"), role="trainer")
    run.create(SERVICES, some.service("names"), role="trainer")
    run.create(CONFIG_MAPS, some.named(CONFIG_MAPS, "settings"), role="trainer")
    for number in range(3):
        run.create(PODS, some.pod(f"p{number}"), role="trainer")
    report = run.close(limit=30)
    assert (report.forced, report.left, report.sentences) == ((), (), ())
    assert report.removed == (
        "Job trainer", "Pod p0", "Pod p1", "Pod p2", "Service names", "ConfigMap settings", "ConfigMap chaoskit-r1",
    )  # fmt: skip
    assert some.there(connection, cluster.namespace) == foreign
    assert left(tmp_path / objects.NAME) == ()


def test_deleting_the_owner_alone_takes_everything_with_it(run, connection, cluster):
    run.create(PODS, some.pod("p0"), role="trainer")
    run.create(SERVICES, some.service("names"), role="trainer")
    connection.delete(ApiTarget(CONFIG_MAPS, cluster.namespace, "chaoskit-r1"), uid=run.identity.uid)
    deadline = time.monotonic() + 60
    while some.there(connection, cluster.namespace) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert some.there(connection, cluster.namespace) == set()


HARNESS = """
import sys, time
from pathlib import Path
from chaoskit.environments.kubernetes import kubeconfig
from chaoskit.environments.kubernetes.api_kinds import PODS, JOBS
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.objects import RunObjects
from tests.environments.kubernetes import cluster_objects as some
file, context, namespace, directory = sys.argv[1:]
connection = ClusterConnection(kubeconfig.of_context(context, file=file))
run = RunObjects(connection, namespace=namespace, run_id="r1", run_dir=Path(directory))
run.create(PODS, some.pod("p0"), role="trainer")
run.create(JOBS, some.job("trainer"), role="trainer")
print("up", flush=True)
time.sleep(1000)
"""


def test_a_harness_that_is_killed_leaves_nothing_after_a_sweep(connection, cluster, tmp_path):
    words = [sys.executable, "-c", HARNESS, str(cluster.kubeconfig), cluster.context, cluster.namespace, str(tmp_path)]
    harness = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert harness.stdout is not None and harness.stdout.readline() == "up\n"
        living = some.there(connection, cluster.namespace)
        assert living == {"ConfigMap chaoskit-r1", "Pod p0", "Job trainer"}
        assert sweep(connection, cluster.namespace) == () and some.there(connection, cluster.namespace) == living
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.communicate()
    assert {one.name for one in left(tmp_path / objects.NAME)} == {"chaoskit-r1", "p0", "trainer"}
    if not run_owner.machine_id():
        pytest.skip("this machine has no id, so nobody knows whose harness has died")
    (report,) = sweep(connection, cluster.namespace, limit=30)
    assert set(report.removed) == living and some.there(connection, cluster.namespace) == set()


DEAD = {**owner.current(), "pid": 1, "start": 1, "machine": "m1"}


@pytest.mark.parametrize(
    ("data", "abandoned"),
    [
        ({"owner": json.dumps(DEAD)}, True),
        ({"owner": json.dumps({**owner.current(), "machine": "m1"})}, False),
        ({"owner": json.dumps({**DEAD, "machine": "m2"})}, False),
        ({"owner": json.dumps({**DEAD, "machine": "m2", "boot": "earlier"})}, False),
        ({"owner": json.dumps({**DEAD, "host": "elsewhere"})}, False),
        ({"owner": json.dumps({name: DEAD[name] for name in ("pid", "start", "machine")})}, False),
        ({"owner": json.dumps({name: DEAD[name] for name in ("pid", "start", "host", "boot")})}, False),
        ({"owner": "no JSON"}, False),
        ({"owner": "[]"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_a_harness_of_this_machine_can_be_known_to_be_dead(data, abandoned, monkeypatch):
    monkeypatch.setattr(run_owner, "machine_id", lambda: "m1")
    assert run_owner.is_abandoned({"data": data}, None) is abandoned
    monkeypatch.setattr(run_owner, "machine_id", lambda: "")
    assert run_owner.is_abandoned({"data": data}, None) is False


SEEN = {"metadata": {"uid": "u1"}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("answer", "abandoned"),
    [
        (Scripted(200, SEEN), False),
        (Scripted(200, {**SEEN, "status": {"phase": "Failed"}}), True),
        (Scripted(200, {**SEEN, "status": {"phase": "Succeeded"}}), True),
        (Scripted(200, {**SEEN, "metadata": {"uid": "u2"}}), True),
        (status(404, "NotFound", "no"), True),
        (status(403, "Forbidden", "no"), False),
    ],
)
def test_a_harness_in_a_pod_lives_as_long_as_that_pod(answer, abandoned):
    """Whatever its process is called: the pods of a cluster count their processes alike."""
    record = {**DEAD, "pod": {"namespace": "ci", "name": "harness", "uid": "u1"}}
    with scripted(answer) as script:
        found = {"data": {"owner": json.dumps(record)}}
        assert run_owner.is_abandoned(found, script.connection(patience=0)) is abandoned
    assert script.requests == [("GET", "/api/v1/namespaces/ci/pods/harness", None)]


@pytest.mark.parametrize("pod", ["words", {"name": "harness"}, {"namespace": 1, "name": 2, "uid": 3}])
def test_a_pod_that_is_none_is_not_looked_for(pod):
    assert run_owner.is_abandoned({"data": {"owner": json.dumps({**DEAD, "pod": pod})}}, None) is False


def test_a_harness_in_a_pod_says_which(connection, cluster, tmp_path, monkeypatch):
    pod = connection.create(cluster.namespace, PODS, some.pod("harness"))
    (tmp_path / "namespace").write_text(cluster.namespace)
    monkeypatch.setattr(run_owner, "_NAMESPACE_FILE", tmp_path / "namespace")
    monkeypatch.setattr(run_owner.socket, "gethostname", lambda: "harness")
    said = lambda: json.loads(run_owner.manifest("r1", connection)["data"]["owner"])["pod"]  # noqa: E731
    assert said() is None  # from outside
    monkeypatch.setattr(connection, "address", replace(connection.address, context=""))
    assert said() == {"namespace": cluster.namespace, "name": "harness", "uid": pod["metadata"]["uid"]}
    monkeypatch.setattr(run_owner.socket, "gethostname", lambda: "another")
    assert said() is None
    monkeypatch.setattr(run_owner, "_NAMESPACE_FILE", tmp_path / "none")
    assert said() is None


def test_a_sweep_touches_dead_owners_of_this_user_alone(connection, cluster, monkeypatch):
    monkeypatch.setattr(run_owner, "machine_id", lambda: "m1")
    me, somebody = str(os.getuid()), str(os.getuid() + 1)
    kinds = {
        "dead": ({RUN: "a", ROLE: "owner", USER: me}, DEAD),
        "alive": ({RUN: "b", ROLE: "owner", USER: me}, {**owner.current(), "machine": "m1"}),
        "of-somebody": ({RUN: "c", ROLE: "owner", USER: somebody}, DEAD),
        "no-owner": ({RUN: "d", USER: me}, DEAD),
        "no-run": ({ROLE: "owner", USER: me}, DEAD),
    }
    for name, (labels, record) in kinds.items():
        made = some.named(CONFIG_MAPS, run_owner.name_of(labels.get(RUN, name)), data={"owner": json.dumps(record)})
        made["metadata"]["labels"] = labels
        connection.create(cluster.namespace, CONFIG_MAPS, made)
    before = some.there(connection, cluster.namespace)
    (report,) = sweep(connection, cluster.namespace)
    assert report.removed == ("ConfigMap chaoskit-a",)
    assert some.there(connection, cluster.namespace) == before - {"ConfigMap chaoskit-a"}
