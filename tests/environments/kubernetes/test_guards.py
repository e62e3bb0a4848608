"""What is refused before anything of a cluster is touched."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes import guards
from chaoskit.environments.kubernetes.kubeconfig import ClusterAddress
from chaoskit.errors import UsageError


def address(context="staging", cluster="ours", server="https://10.0.0.1:6443"):
    return ClusterAddress(context, cluster, server, None)


@pytest.mark.parametrize(
    "name",
    ["prod", "production", "eu-prod-1", "PROD", "euProd", "nonprod", "preprod", "prod1", "k8s_prod", "reproduction"],
)
def test_a_name_with_prod_looks_like_production(name):
    assert guards.looks_like_production(["staging", name]) == name


@pytest.mark.parametrize("name", ["staging", "product-catalog", "producers", "reproduce", "dev", "", "products"])
def test_other_names_do_not(name):
    assert guards.looks_like_production([name]) is None


@pytest.mark.parametrize(
    "meant",
    [
        address(context="prod"),
        address(cluster="arn:aws:eks:eu-west-1:1:cluster/prod-eu"),
        address(server="https://api.prod.example.com"),
    ],
)
def test_production_is_refused_unless_its_context_is_repeated(meant):
    with pytest.raises(UsageError, match=f"looks like production.*--i-mean {meant.context}"):
        guards.check_not_production(meant)
    guards.check_not_production(meant, i_mean=meant.context)
    for other in ("", "staging-2", meant.context.upper()):
        with pytest.raises(UsageError, match="repeat exactly that name"):
            guards.check_not_production(meant, i_mean=other)


def test_other_clusters_are_not():
    guards.check_not_production(address())
    guards.check_not_production(address(), i_mean="staging")
    guards.check_not_production(address(context="", cluster=""))
    with pytest.raises(UsageError, match="--i-mean in-cluster"):
        guards.check_not_production(address(context="", cluster="", server="https://prod.svc"))


def test_namespaces():
    assert guards.check_allowed_namespace("chaos", ["nightly", "chaos"]) == "chaos"
    with pytest.raises(UsageError, match="did you mean 'nightly'"):
        guards.check_allowed_namespace("nightli", ["nightly", "chaos"])
    with pytest.raises(UsageError, match="not one where faults are allowed; none is yet"):
        guards.check_allowed_namespace("staging", [])
    for name in guards.SYSTEM_NAMESPACES:
        with pytest.raises(UsageError, match="of the cluster itself"):
            guards.check_allowed_namespace(name, [name])
    for name in ("", "Chaos", "a" * 64, "a.b", "-a", "*", None):
        with pytest.raises(UsageError, match="must be the name of a namespace"):
            guards.check_allowed_namespace(name, [name])


def test_durations_are_required_and_capped():
    assert guards.check_duration("partition", 30) == "30000ms"
    assert guards.check_duration("partition", 0.0001) == "1ms"
    assert guards.check_duration("partition", 700, longest=900) == "700000ms"
    for seconds in (0, -1, float("nan"), float("inf"), 600.1, "30s", True, None):
        with pytest.raises(UsageError, match="partition: duration must be"):
            guards.check_duration("partition", seconds)
