"""What is refused before it is stored: unknown fields, wrong types, bad values, broken rules."""

from __future__ import annotations

import json

import pytest
from kubernetes import client

from tests.kubernetes_server.expect import refused
from tests.kubernetes_server.objects import claim, config_map, job, pod, pod_chaos


@pytest.fixture
def jobs(namespace):
    return {"group": "batch", "version": "v1", "namespace": namespace, "plural": "jobs"}


@pytest.fixture
def batch(api):
    return client.BatchV1Api(api)


def test_an_unknown_field_is_refused_under_strict(custom, podchaos, namespace):
    body = pod_chaos("one", namespace, durration="30s")
    why = 'PodChaos in version "v1alpha1" cannot be handled as a PodChaos: strict decoding error: '
    with refused(400, "BadRequest", why + 'unknown field "spec.durration"'):
        custom.create_namespaced_custom_object(**podchaos, body=body, field_validation="Strict")


def test_an_unknown_field_of_a_built_in_kind_is_refused_under_strict(custom, jobs):
    """The client's own models would refuse it before the server does, so it goes another way."""
    body = {"apiVersion": "batch/v1", "kind": "Job"} | job("one")
    body["spec"]["template"]["spec"]["containers"][0]["imagge"] = "x"
    with refused(400, "BadRequest", 'strict decoding error: unknown field "spec.template.spec.containers[0].imagge"'):
        custom.create_namespaced_custom_object(**jobs, body=body, field_validation="Strict")
    made = custom.create_namespaced_custom_object(**jobs, body=body)
    assert "imagge" not in made["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(("mode", "warned"), [("Warn", True), ("Ignore", False), (None, True)])
def test_an_unknown_field_is_dropped_otherwise(custom, podchaos, namespace, mode, warned):
    """The trap: whoever does not ask for Strict is not refused."""
    options = {"field_validation": mode} if mode else {}
    body = pod_chaos("one", namespace, durration="30s")
    made, _, headers = custom.create_namespaced_custom_object_with_http_info(**podchaos, body=body, **options)
    assert "durration" not in made["spec"]
    assert ('unknown field "spec.durration"' in headers.get("Warning", "").replace("\\", "")) is warned


def test_an_unknown_field_in_a_patch_is_refused_under_strict(custom, podchaos, namespace):
    custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", namespace))
    with refused(422, "Invalid", 'strict decoding error: unknown field "spec.durration"'):
        body = {"spec": {"durration": "1s"}}
        custom.patch_namespaced_custom_object(**podchaos, name="one", body=body, field_validation="Strict")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"action": "pod-hug"}, ('spec.action: Unsupported value: "pod-hug": supported values: "pod-kill", ',)),
        ({"value": 1}, ('spec.value: Invalid value: "integer": spec.value in body must be of type string: "integer"',)),
        ({"mode": "none", "value": 1}, ("[spec.mode: Unsupported value", "spec.value: Invalid value")),
        ({"gracePeriod": -1}, ("spec.gracePeriod in body should be greater than or equal to 0",)),
    ],
)
def test_a_bad_value_of_a_custom_resource_is_invalid(custom, podchaos, namespace, spec, words):
    with refused(422, "Invalid", 'PodChaos.chaos-mesh.org "one" is invalid: ', *words):
        custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", namespace, **spec))


def test_what_a_schema_requires_is_required(custom, podchaos, namespace):
    body = pod_chaos("one", namespace)
    del body["spec"]["mode"]
    with refused(422, "Invalid", "spec.mode: Required value"):
        custom.create_namespaced_custom_object(**podchaos, body=body)


def test_numbers_or_strings_are_both_taken(custom, jobsets):
    """`x-kubernetes-int-or-string`, and the quantities of a template within a custom resource."""
    container = pod("one")["spec"]["containers"][0] | {"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "one"}}
    body["spec"] = {"suspend": True, "replicatedJobs": [{"name": "node", "template": template}]}
    made = custom.create_namespaced_custom_object(**jobsets, body=body, field_validation="Strict")
    assert made["spec"]["replicatedJobs"][0]["replicas"] == 1  # a default of the schema
    container["resources"]["limits"]["cpu"] = True
    with refused(422, "Invalid", "must be of type integer,string"):
        custom.create_namespaced_custom_object(**jobsets, body=body | {"metadata": {"name": "two"}})


def test_what_the_schema_calls_immutable_stays(custom, trainjobs):
    body = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "one"}}
    body["spec"] = {"runtimeRef": {"name": "torch"}, "suspend": True, "managedBy": "kueue.x-k8s.io/multikueue"}
    custom.create_namespaced_custom_object(**trainjobs, body=body)
    with refused(422, "Invalid", "field is immutable"):
        custom.patch_namespaced_custom_object(**trainjobs, name="one", body={"spec": {"runtimeRef": {"name": "other"}}})


def test_a_wrong_type_in_a_built_in_kind_cannot_be_read(custom, jobs):
    body = {"apiVersion": "batch/v1", "kind": "Job"} | job("one")
    body["spec"]["backoffLimit"] = "some"
    with refused(400, "BadRequest", 'Job in version "v1" cannot be handled as a Job: json: cannot unmarshal'):
        custom.create_namespaced_custom_object(**jobs, body=body)


def test_rules_of_built_in_kinds_hold(core, batch, namespace):
    body = pod("one")
    body["spec"]["restartPolicy"] = "Sometimes"
    with refused(422, "Invalid", 'Pod "one" is invalid: spec.restartPolicy: Unsupported value: "Sometimes"'):
        core.create_namespaced_pod(namespace, body, dry_run="All")
    body = pod("one")
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "ckpt", "mountPath": "/ckpt"}]
    with refused(422, "Invalid", 'spec.containers[0].volumeMounts[0].name: Not found: "ckpt"'):
        core.create_namespaced_pod(namespace, body, dry_run="All")
    body = job("one")
    body["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    with refused(422, "Invalid", "spec.template.spec.restartPolicy", '"OnFailure", "Never"'):
        batch.create_namespaced_job(namespace, body, dry_run="All")
    body = job("one")
    body["spec"]["backoffLimitPerIndex"] = 3
    with refused(422, "Invalid", "spec.backoffLimitPerIndex", "requires indexed completion mode"):
        batch.create_namespaced_job(namespace, body, dry_run="All")
    with refused(422, "Invalid", 'spec.accessModes: Unsupported value: "WriteAnywhere"'):
        body = claim("one", "WriteAnywhere")
        core.create_namespaced_persistent_volume_claim(namespace, body, dry_run="All")


def test_names_and_labels_have_their_letters(core, namespace):
    with refused(422, "Invalid", 'metadata.name: Invalid value: "One_": a lowercase RFC 1123 subdomain must'):
        core.create_namespaced_config_map(namespace, config_map("One_"))
    with refused(422, "Invalid", 'metadata.labels: Invalid value: "a b": a valid label must be an empty string'):
        core.create_namespaced_config_map(namespace, config_map("one", labels={"run": "a b"}))
    with refused(422, "Invalid", "must be no more than 63"):
        core.create_namespaced_config_map(namespace, config_map("one", labels={"run": "a" * 64}))


def test_a_pod_is_not_rewritten(core, namespace):
    body = pod("one")
    body["spec"]["schedulingGates"] = [{"name": "example.invalid/never"}]
    core.create_namespaced_pod(namespace, body)
    changed = {"spec": {"containers": [{"name": "main", "command": ["false"]}]}}
    with refused(422, "Invalid", "pod updates may not change fields other than"):
        core.patch_namespaced_pod("one", namespace, changed)
    changed = {"spec": {"containers": [{"name": "main", "image": "example.invalid/image:2"}]}}
    assert core.patch_namespaced_pod("one", namespace, changed).spec.containers[0].image == "example.invalid/image:2"


def test_an_update_of_a_custom_resource_names_its_version(custom, podchaos, namespace):
    custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", namespace))
    with refused(422, "Invalid", "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"):
        custom.replace_namespaced_custom_object(**podchaos, name="one", body=pod_chaos("one", namespace, mode="all"))


def test_a_status_is_apart_only_where_the_definition_says_so(custom, jobsets, podchaos, namespace):
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "one"}}
    status = {"status": {"restarts": 3}}
    made = custom.create_namespaced_custom_object(**jobsets, body=body | {"spec": {"suspend": True}} | status)
    assert "status" not in made
    custom.patch_namespaced_custom_object(**jobsets, name="one", body=status)
    assert "status" not in custom.get_namespaced_custom_object(**jobsets, name="one")
    more = status | {"spec": {"suspend": False}}
    made = custom.patch_namespaced_custom_object_status(**jobsets, name="one", body=more)
    assert made["status"]["restarts"] == 3 and made["spec"]["suspend"] is True

    custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", namespace))
    status = {"status": {"experiment": {"desiredPhase": "Run"}}}
    made = custom.patch_namespaced_custom_object(**podchaos, name="one", body=status)
    assert made["status"]["experiment"]["desiredPhase"] == "Run"
    with pytest.raises(client.ApiException) as error:
        custom.patch_namespaced_custom_object_status(**podchaos, name="one", body=status)
    assert error.value.status == 404


def test_every_causes_field_is_named(custom, podchaos, namespace):
    with pytest.raises(client.ApiException) as error:
        custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", namespace, action="x", mode="y"))
    causes = json.loads(error.value.body)["details"]["causes"]
    assert {cause["field"] for cause in causes} == {"spec.action", "spec.mode"}
    assert {cause["reason"] for cause in causes} == {"FieldValueNotSupported"}
