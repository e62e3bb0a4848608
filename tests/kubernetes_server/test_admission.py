"""Quotas, and what the guards of a cluster refuse."""

from __future__ import annotations

import pytest

from tests.kubernetes_server.admission import absent_webhook, policy, quantity, webhook
from tests.kubernetes_server.expect import refused
from tests.kubernetes_server.objects import pod, pod_chaos


@pytest.fixture
def limited(core, api_server, namespace):
    """A quota; a real server counts for itself a moment later, so this is for ours."""

    def limit(**hard):
        hard = {key.replace("_", "."): value for key, value in hard.items()}
        body = {"metadata": {"name": "compute"}, "spec": {"hard": hard}}
        core.create_namespaced_resource_quota(namespace, body)

    return limit


def needing(name, **limits):
    body = pod(name)
    body["spec"]["containers"][0]["resources"] = {"limits": limits}
    return body


def test_more_pods_than_a_quota_allows_are_refused(core, limited, namespace):
    limited(pods="2")
    for name in ("one", "two"):
        core.create_namespaced_pod(namespace, pod(name))
    why = 'pods "three" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=2, limited: pods=2'
    with refused(403, "Forbidden", why):
        core.create_namespaced_pod(namespace, pod("three"))
    core.delete_namespaced_pod("one", namespace)
    core.create_namespaced_pod(namespace, pod("three"))


def test_pods_that_have_ended_do_not_count(core, api_server, limited, namespace):
    limited(pods="1")
    api_server.put("pods", pod("ended") | {"status": {"phase": "Succeeded"}}, namespace=namespace)
    core.create_namespaced_pod(namespace, pod("one"))
    with refused(403, "Forbidden", "used: pods=1"):
        core.create_namespaced_pod(namespace, pod("two"))


def test_a_quota_of_memory_counts_what_pods_ask_for(core, limited, namespace):
    limited(limits_memory="3Gi", requests_cpu="1")
    core.create_namespaced_pod(namespace, needing("one", memory="2Gi", cpu="500m"))
    why = "exceeded quota: compute, requested: limits.memory=2Gi, used: limits.memory=2Gi, limited: limits.memory=3Gi"
    with refused(403, "Forbidden", why):
        core.create_namespaced_pod(namespace, needing("two", memory="2Gi", cpu="500m"))
    with refused(403, "Forbidden", "requested: requests.cpu=600m, used: requests.cpu=500m, limited: requests.cpu=1"):
        core.create_namespaced_pod(namespace, needing("two", memory="1Gi", cpu="600m"))
    with refused(403, "Forbidden", "failed quota: compute: must specify limits.memory for: main"):
        core.create_namespaced_pod(namespace, needing("two", cpu="100m"))


@pytest.mark.parametrize(("text", "value"), [("500m", 0.5), ("2", 2), ("1Ki", 1024), ("1.5G", 1_500_000_000), (1, 1)])
def test_quantities_are_read(text, value):
    assert quantity(text) == value


def test_what_is_no_quantity_is_an_error():
    with pytest.raises(ValueError, match="is no quantity"):
        quantity("lots")


def test_a_webhook_refuses(custom, api_server, podchaos, namespace):
    def refuses(attempt):
        no_names = attempt.obj["spec"]["action"] == "container-kill" and not attempt.obj["spec"].get("containerNames")
        return "the name of container is required" if no_names else None

    api_server.api.admission.hooks.append(webhook("vpodchaos.kb.io", "podchaos", refuses))
    why = 'admission webhook "vpodchaos.kb.io" denied the request: the name of container is required'
    with refused(403, "Forbidden", why):
        body = pod_chaos("one", namespace, action="container-kill")
        custom.create_namespaced_custom_object(**podchaos, body=body, dry_run="All")
    custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", namespace))


def test_a_policy_refuses(custom, api_server, podchaos, namespace):
    def refuses(attempt):
        own = attempt.obj["spec"]["selector"].get("namespaces") == [attempt.namespace]
        return None if own else "selector.namespaces must be exactly the object's own namespace"

    api_server.api.admission.hooks.append(policy("chaoskit-guard", "chaos-mesh.org", refuses))
    why = "ValidatingAdmissionPolicy 'chaoskit-guard' with binding 'chaoskit-guard' denied request: selector.namespaces"
    with refused(422, "Invalid", 'podchaos.chaos-mesh.org "one" is forbidden: ', why):
        custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", "default"))
    custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", namespace))


def test_with_the_controller_down_even_an_annotation_is_refused(custom, api_server, podchaos, namespace):
    """What keeps a stuck finalizer stuck: chaos-mesh#4431."""
    custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", namespace))
    hook = absent_webhook("mpodchaos.kb.io", "podchaos")
    api_server.api.admission.hooks.append(hook)
    forced = {"metadata": {"annotations": {"chaos-mesh.chaos-mesh.org/cleanFinalizer": "forced"}}}
    with refused(500, "InternalError", 'failed calling webhook "mpodchaos.kb.io"', "connection refused"):
        custom.patch_namespaced_custom_object(**podchaos, name="one", body=forced)
    api_server.api.admission.hooks.remove(hook)
    custom.patch_namespaced_custom_object(**podchaos, name="one", body=forced)
