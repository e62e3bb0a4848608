"""What clients read first: the version, the groups and their resources; and the dynamic client, which lives on them."""

from __future__ import annotations

import time

from kubernetes import client, dynamic

from tests.kubernetes_server.objects import config_map, pod_chaos


def test_the_version_and_the_groups(api):
    assert client.VersionApi(api).get_code().major == "1"
    groups = {group.name for group in client.ApisApi(api).get_api_versions().groups}
    assert {"batch", "apps", "rbac.authorization.k8s.io", "authorization.k8s.io"} <= groups


def test_the_resources_of_a_group(api, core, custom):
    resources = {one.name: one for one in core.get_api_resources().resources}
    assert resources["pods"].namespaced and not resources["nodes"].namespaced
    assert "pods/exec" in resources and "watch" in resources["pods"].verbs


def test_installed_definitions_are_served_and_listed(api, custom, crds, api_server):
    names = {one.name: one for one in custom.get_api_resources("chaos-mesh.org", "v1alpha1").resources}
    assert names["podchaos"].kind == "PodChaos" and "podchaos/status" not in names and "workflows/status" in names
    assert names["workflows"].short_names == ["wf"]
    definitions = client.ApiextensionsV1Api(api).list_custom_resource_definition().items
    assert "podchaos.chaos-mesh.org" in {one.metadata.name for one in definitions}


def test_the_dynamic_client_finds_its_way(api, podchaos, namespace, tmp_path):
    dynamic_client = dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery.json"))
    maps = dynamic_client.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap"} | config_map("one")
    assert maps.create(body=body, namespace=namespace).metadata.uid
    assert "one" in {one.metadata.name for one in maps.get(namespace=namespace).items}
    chaos = dynamic_client.resources.get(api_version="chaos-mesh.org/v1alpha1", kind="PodChaos")
    chaos.create(body=pod_chaos("one", namespace), namespace=namespace)
    assert chaos.get(name="one", namespace=namespace).spec.mode == "one"
    chaos.delete(name="one", namespace=namespace)


def test_a_definition_that_is_made_is_served_and_goes_with_its_objects(api, custom, namespace):
    group = f"{namespace}.example.com"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "cakes", "kind": "Cake", "singular": "cake", "listKind": "CakeList"}
    definition = {"metadata": {"name": f"cakes.{group}"},
                  "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}}  # fmt: skip
    extensions = client.ApiextensionsV1Api(api)
    extensions.create_custom_resource_definition(definition)
    try:
        where = {"group": group, "version": "v1", "namespace": namespace, "plural": "cakes"}
        body = {"apiVersion": f"{group}/v1", "kind": "Cake", "metadata": {"name": "one"}}
        body["spec"] = {"size": 3, "taste": "good"}
        _when_served(lambda: custom.create_namespaced_custom_object(**where, body=body))
        assert custom.get_namespaced_custom_object(**where, name="one")["spec"] == {"size": 3}
    finally:
        extensions.delete_custom_resource_definition(f"cakes.{group}")
    _until_not_served(lambda: custom.list_namespaced_custom_object(**where))


def test_a_definition_that_comes_again_has_no_objects(api, custom, crds, api_server, namespace):
    where = {"group": "chaos-mesh.org", "version": "v1alpha1", "namespace": namespace, "plural": "podchaos"}
    custom.create_namespaced_custom_object(**where, body=pod_chaos("one", namespace))
    extensions = client.ApiextensionsV1Api(api)
    extensions.delete_custom_resource_definition("podchaos.chaos-mesh.org")
    definition = next(one for one in crds if one["metadata"]["name"] == "podchaos.chaos-mesh.org")
    api_server.put("customresourcedefinitions", definition, group="apiextensions.k8s.io")
    assert custom.list_namespaced_custom_object(**where)["items"] == []


def _until_not_served(call):
    for _ in range(300):
        try:
            call()
        except client.ApiException as error:
            assert error.status == 404
            return
        time.sleep(0.05)
    raise AssertionError("it is still served")


def _when_served(call):
    """A real server takes a moment to serve what was defined."""
    for _ in range(300):
        try:
            return call()
        except client.ApiException as error:
            if error.status != 404:
                raise
            time.sleep(0.05)
    return call()
