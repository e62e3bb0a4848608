"""The life of a run against a whole API server, with whatever may go wrong on the way."""

from __future__ import annotations

import pytest
import yaml

from chaoskit.cli import main
from chaoskit.environments.kubernetes import kubeconfig
from chaoskit.environments.kubernetes.api_kinds import CONFIG_MAPS, JOBS, PODS, SERVICES, ApiKind
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.guards import preview
from chaoskit.environments.kubernetes.intents import left
from chaoskit.environments.kubernetes.objects import NAME, RunObjects
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.environments.kubernetes.watching import ObjectWatch
from chaoskit.errors import ExitCode
from tests.environments.kubernetes import cluster_objects as some
from tests.kubernetes_server.faults import WRITES, ApiFault, at_calls, seeded

RBAC = "rbac.authorization.k8s.io"


def test_a_watch_tells_what_happens_to_the_run_alone(connection, cluster, tmp_path):
    run = RunObjects(connection, namespace=cluster.namespace, run_id="r1", run_dir=tmp_path)
    run.create(PODS, some.pod("p0"), role="trainer")
    changes = ObjectWatch(connection, PODS, RunSelector(run.identity)).changes(limit=120)
    assert next(changes).manifest["metadata"]["name"] == "p0"
    connection.create(cluster.namespace, PODS, some.pod("foreign"))
    made = run.create(PODS, some.pod("p1"), role="trainer")
    first = next(changes)
    assert (first.what, first.uid) == ("added", made["metadata"]["uid"])
    connection.patch(ApiTarget(PODS, cluster.namespace, "p1"), {"metadata": {"annotations": {"x": "y"}}})
    while (change := next(changes)).manifest["metadata"].get("annotations", {}).get("x") != "y":
        pass
    assert (change.what, change.uid) == ("changed", first.uid)
    run.close()
    gone = set()
    while len(gone) < 2:
        if (change := next(changes)).what == "deleted":
            gone.add(change.manifest["metadata"]["name"])
    assert gone == {"p0", "p1"}
    changes.close()


def lived(connection, namespace, directory):
    """One run from its first object to its last: a service, a job, pods that are watched, and the cleanup."""
    run = RunObjects(connection, namespace=namespace, run_id="r1", run_dir=directory)
    try:
        run.create(SERVICES, some.service("names"), role="trainer")
        run.create(JOBS, some.job("trainer"), role="trainer")
        made = {run.create(PODS, some.pod(f"p{node}"), role="trainer", node=node)["metadata"]["uid"] for node in (0, 1)}
        selector = RunSelector(run.identity)
        assert {pod.uid for pod in preview(connection, selector)} == made
        changes = ObjectWatch(connection, PODS, selector, pause=lambda seconds: None).changes(limit=120)
        assert {next(changes).uid, next(changes).uid} == made
        made.add(run.create(PODS, some.pod("p2"), role="trainer", node=2)["metadata"]["uid"])
        told = next(changes)
        assert told.what == "added" and told.uid in made
        changes.close()
    finally:
        report = run.close(limit=60)
    assert (report.left, report.forced) == ((), ())
    assert len(report.removed) == 6 == len(set(report.removed))


@pytest.fixture
def hasty(cluster):
    """A connection that repeats requests without a pause."""
    address = kubeconfig.of_context(cluster.context, file=str(cluster.kubeconfig))
    made = ClusterConnection(address, pause=lambda seconds: None)
    yield made
    made.close()


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 500), marks=pytest.mark.exhaustive)], ids=str)
def test_whatever_goes_wrong_at_whichever_call_nothing_is_left(hasty, cluster, api_server, tmp_path, seeds):
    hasty.create(cluster.namespace, PODS, some.pod("foreign"))
    happened = set()
    for seed in seeds:
        directory = tmp_path / str(seed)
        directory.mkdir()
        with api_server.faulty(seeded(seed, rate=0.3)):
            lived(hasty, cluster.namespace, directory)
        assert some.there(hasty, cluster.namespace) == {"Pod foreign"}, seed
        assert left(directory / NAME) == ()
        happened |= {fault.kind for _, fault in api_server.injected}
    assert {"conflict", "too_many", "timeout", "reset"} <= happened


@pytest.mark.parametrize("kind", ["conflict", "timeout", "reset", "too_many"])
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.usefixtures("crds")
def test_one_error_at_one_call_after_the_other(hasty, cluster, api_server, tmp_path, kind, applied):
    def live(name, faults):
        (tmp_path / name).mkdir()
        with api_server.faulty(at_calls(faults)):
            lived(hasty, cluster.namespace, tmp_path / name)
        assert some.there(hasty, cluster.namespace) == set(), name

    before = len(api_server.calls)
    live("undisturbed", {})
    calls = range(len(api_server.calls) - before - len(some.KINDS))
    hit = [number for number in calls if kind != "conflict" or api_server.calls[before + number].verb in WRITES]
    for number in hit[:: 1 if kind == "conflict" else 3]:
        live(str(number), {number: ApiFault(kind, applied=applied)})
        assert api_server.injected.pop()[1].kind == kind


def test_a_server_that_is_away_for_good_leaves_a_journal(hasty, cluster, api_server, tmp_path):
    run = RunObjects(hasty, namespace=cluster.namespace, run_id="r1", run_dir=tmp_path)
    run.create(PODS, some.pod("p0"), role="trainer")
    hasty.patience = 0.1
    with api_server.away():
        with pytest.raises(ClusterError, match="does not answer"):
            run.create(PODS, some.pod("p1"), role="trainer")
        with pytest.raises(ClusterError, match="does not answer"):
            run.close()
    assert [one.name for one in left(tmp_path / NAME)] == ["chaoskit-r1", "p0", "p1"]


def checked(api_server, tmp_path, namespace, *words, token):
    path = api_server.kubeconfig(tmp_path, token=token)
    options = ["--kubeconfig", str(path), "--context", "staging", "--namespace", namespace]
    return main.main(["kubernetes", "check", *options, *words])


@pytest.mark.usefixtures("crds")
def test_a_user_who_gets_the_role_that_was_printed_can_do_all_that_a_run_does(
    connection, cluster, api_server, tmp_path, capfd
):
    api_server.add_user("chaosbot")
    assert checked(api_server, tmp_path, cluster.namespace, token="chaosbot") == ExitCode.INCONCLUSIVE
    assert "permission on pods" in capfd.readouterr().out
    assert checked(api_server, tmp_path, cluster.namespace, "--role", token="chaosbot") == ExitCode.PASS
    before = some.there(connection, cluster.namespace)
    for manifest in yaml.safe_load_all(capfd.readouterr().out):
        kind = ApiKind(RBAC, "v1", f"{manifest['kind'].lower()}s", manifest["kind"])
        connection.create(cluster.namespace, kind, manifest)
    assert checked(api_server, tmp_path, cluster.namespace, token="chaosbot") == ExitCode.PASS
    told = capfd.readouterr().out
    assert "All that is needed is there." in told and "serves v1alpha1: NetworkChaos" in told
    assert some.there(connection, cluster.namespace) == before
    address = kubeconfig.of_context("staging", file=str(api_server.kubeconfig(tmp_path, token="chaosbot")))
    bots = ClusterConnection(address)
    run = RunObjects(bots, namespace=cluster.namespace, run_id="r1", run_dir=tmp_path)
    run.create(SERVICES, some.service("names"), role="names")
    run.create(PODS, some.pod("p0"), role="node", node=0)
    assert len(run.close().removed) == 3
    with pytest.raises(ClusterError, match="the permission is missing") as raised:
        bots.create("default", CONFIG_MAPS, some.named(CONFIG_MAPS, "one"))
    assert str(raised.value.rule) == '{apiGroups: [""], resources: [configmaps], verbs: [create]}'
    bots.close()


def test_a_token_that_has_expired(cluster, api_server, tmp_path, capfd):
    assert checked(api_server, tmp_path, cluster.namespace, token="expired") == ExitCode.USAGE
    assert "does not accept the credentials of this context: log in" in capfd.readouterr().err


@pytest.mark.usefixtures("crds")
def test_a_field_that_the_server_does_not_know_is_an_error(connection, cluster, api_server, tmp_path):
    """Without strict validation it would be dropped silently, and a fault would last for ever."""
    run = RunObjects(connection, namespace=cluster.namespace, run_id="r1", run_dir=tmp_path)
    chaos = some.partition("cut", run)
    chaos["spec"]["durration"] = chaos["spec"].pop("duration")
    with pytest.raises(ClusterError, match="durration") as raised:
        run.create(some.NETWORK_CHAOS, chaos, role="fault")
    assert raised.value.status == 400
    run.close()


def test_a_dry_run_makes_nothing(connection, cluster):
    connection.create(cluster.namespace, PODS, some.pod("p0"), dry_run=True)
    assert some.there(connection, cluster.namespace) == set()
