"""Watching and checking against a whole API server: ours, or a real one."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes import cluster_check, kubeconfig
from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.watching import ObjectWatch
from chaoskit.environments.kubernetes.selectors import RunSelector
from tests.environments.kubernetes import cluster_objects as some


def test_a_watch(connection, cluster, tmp_path):
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
