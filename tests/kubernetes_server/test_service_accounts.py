"""A pod that asks for it reaches the API server as its service account, and no other pod does."""

from __future__ import annotations

import pytest
from kubernetes import client

from tests.kubernetes_server.authorization import RBAC
from tests.kubernetes_server.service_accounts import PLACE

ASK = f"""
import os, ssl, sys, urllib.error, urllib.request
place = {PLACE!r}
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
namespace = open(place + "/namespace").read()
asked = urllib.request.Request(f"https://{{host}}:{{port}}/api/v1/namespaces/{{namespace}}/pods")
asked.add_header("Authorization", "Bearer " + open(place + "/token").read())
try:
    urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=place + "/ca.crt"))
except urllib.error.HTTPError as error:
    sys.exit(error.code - 400)
"""


@pytest.fixture
def ask(pods):
    """Runs a pod that lists pods as an account; its exit code."""

    def run(name, **spec):
        pods.make(name, "", spec=spec, container={"command": ["python3", "-c", ASK]})
        ended = pods.wait(name, lambda pod: pod.status.phase in ("Succeeded", "Failed"))
        return ended.status.container_statuses[0].state.terminated.exit_code

    return run


def test_a_pod_is_its_service_account(ask, pods):
    core, rbac = pods.core, client.RbacAuthorizationV1Api(pods.core.api_client)
    core.create_namespaced_service_account(pods.namespace, {"metadata": {"name": "reader"}})
    mine = {"serviceAccountName": "reader", "automountServiceAccountToken": True}
    assert ask("before", **mine) == 3  # 403
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    rbac.create_namespaced_role(pods.namespace, {"metadata": {"name": "reader"}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": pods.namespace}
    reference = {"kind": "Role", "name": "reader", "apiGroup": RBAC}
    body = {"metadata": {"name": "reader"}, "subjects": [subject], "roleRef": reference}
    rbac.create_namespaced_role_binding(pods.namespace, body)
    assert ask("after", **mine) == 0


def test_a_pod_that_wants_no_token_has_none(pods):
    pods.make("without", f"test ! -e {PLACE}", spec={"automountServiceAccountToken": False})
    pods.phase("without", "Succeeded")
