"""Who may do what: tokens, roles and their bindings, and what users may ask about themselves."""

from __future__ import annotations

import pytest
from kubernetes import client, config

from tests.kubernetes_server.expect import config_maps, refused
from tests.kubernetes_server.objects import config_map, job

RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def become(api_server, tmp_path):
    """A client of somebody with a token."""
    made = []

    def client_of(token):
        path = api_server.kubeconfig(tmp_path, token=token)
        made.append(config.new_client_from_config(str(path)))
        return made[-1]

    yield client_of
    for one in made:
        one.close()


@pytest.fixture
def bot(api_server, become):
    api_server.add_user("chaosbot", "night-shift")
    return become("chaosbot")


@pytest.fixture
def grant(api, namespace):
    """Give rules to a subject in the test's namespace."""

    def bind(*rules, kind="User", name="chaosbot"):
        rbac = client.RbacAuthorizationV1Api(api)
        rbac.create_namespaced_role(namespace, {"metadata": {"name": "chaoskit"}, "rules": list(rules)})
        subject = {"kind": kind, "name": name} | ({} if kind == "ServiceAccount" else {"apiGroup": RBAC})
        reference = {"kind": "Role", "name": "chaoskit", "apiGroup": RBAC}
        body = {"metadata": {"name": "chaoskit"}, "subjects": [subject], "roleRef": reference}
        rbac.create_namespaced_role_binding(namespace, body)

    return bind


MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create"]}


def test_a_token_that_nobody_has_is_unauthorized(become, namespace):
    stranger = become("nobody-has-this")
    with refused(401, "Unauthorized", "Unauthorized"):
        client.CoreV1Api(stranger).list_namespaced_pod(namespace)
    with refused(401, "Unauthorized"):
        client.VersionApi(stranger).get_code()


def test_without_a_role_nothing_is_allowed(bot, namespace):
    core, batch = client.CoreV1Api(bot), client.BatchV1Api(bot)
    where = f'in API group "" in the namespace "{namespace}"'
    with refused(403, "Forbidden", f'pods is forbidden: User "chaosbot" cannot list resource "pods" {where}'):
        core.list_namespaced_pod(namespace)
    with refused(403, "Forbidden", f'pods "one" is forbidden: User "chaosbot" cannot get resource "pods" {where}'):
        core.read_namespaced_pod("one", namespace)
    why = 'nodes is forbidden: User "chaosbot" cannot list resource "nodes" in API group "" at the cluster scope'
    with refused(403, "Forbidden", why):
        core.list_node()
    why = 'jobs.batch is forbidden: User "chaosbot" cannot create resource "jobs" in API group "batch"'
    with refused(403, "Forbidden", why):
        batch.create_namespaced_job(namespace, job("one"))


def test_a_role_allows_what_it_lists_in_its_namespace(bot, grant, namespace):
    grant(MAPS)
    core = client.CoreV1Api(bot)
    core.create_namespaced_config_map(namespace, config_map("one"))
    assert core.read_namespaced_config_map("one", namespace).data == {"a": "1"}
    with refused(403, "Forbidden", 'configmaps "one" is forbidden', "cannot delete resource"):
        core.delete_namespaced_config_map("one", namespace)
    with refused(403, "Forbidden", 'in the namespace "default"'):
        core.list_namespaced_config_map("default")
    with refused(403, "Forbidden", "cannot watch resource"):
        core.list_namespaced_config_map(namespace, watch=True)


@pytest.mark.parametrize(
    ("token", "kind", "name"),
    [("chaosbot", "Group", "night-shift"), ("system:serviceaccount:{namespace}:runner", "ServiceAccount", "runner")],
)
def test_groups_and_service_accounts_are_bound_too(api_server, become, bot, grant, namespace, token, kind, name):
    token = token.format(namespace=namespace)
    if token != "chaosbot":
        api_server.add_user(token)
    core = client.CoreV1Api(become(token))
    with refused(403, "Forbidden"):
        core.list_namespaced_config_map(namespace)
    grant(MAPS, kind=kind, name=name)
    assert config_maps(core, namespace) == set()


def test_a_rule_may_name_its_objects(bot, grant, namespace):
    grant(MAPS | {"resourceNames": ["one"]})
    core = client.CoreV1Api(bot)
    with refused(404, "NotFound"):
        core.read_namespaced_config_map("one", namespace)
    with refused(403, "Forbidden"):
        core.read_namespaced_config_map("two", namespace)


def test_a_cluster_role_holds_everywhere(api, api_server, bot, namespace):
    rbac = client.RbacAuthorizationV1Api(api)
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}
    rbac.create_cluster_role({"metadata": {"name": "reader"}, "rules": [rule]})
    reference = {"kind": "ClusterRole", "name": "reader", "apiGroup": RBAC}
    subject = {"kind": "User", "name": "chaosbot", "apiGroup": RBAC}
    rbac.create_cluster_role_binding({"metadata": {"name": "reader"}, "subjects": [subject], "roleRef": reference})
    core = client.CoreV1Api(bot)
    assert core.list_node().items == [] and core.list_namespaced_pod(namespace).items == []


def test_access_reviews_say_what_a_call_would(bot, grant, namespace):
    grant(MAPS, {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]})
    reviews = client.AuthorizationV1Api(bot)

    def ask(**attributes):
        spec = {"resourceAttributes": {"namespace": namespace} | attributes}
        return reviews.create_self_subject_access_review({"spec": spec}).status

    allowed = ask(verb="create", resource="configmaps")
    assert allowed.allowed
    binding = f'RoleBinding "chaoskit/{namespace}" of Role "chaoskit" to User "chaosbot"'
    assert allowed.reason == f"RBAC: allowed by {binding}"
    assert ask(verb="create", resource="pods", subresource="exec").allowed
    assert not ask(verb="create", resource="pods").allowed
    assert not ask(verb="delete", resource="configmaps").allowed
    assert not ask(verb="create", resource="configmaps", namespace="default").allowed


def test_rules_reviews_list_the_rules(bot, grant, namespace):
    grant(MAPS)
    body = {"spec": {"namespace": namespace}}
    status = client.AuthorizationV1Api(bot).create_self_subject_rules_review(body).status
    assert not status.incomplete
    assert (["configmaps"], ["get", "list", "create"]) in [(one.resources, one.verbs) for one in status.resource_rules]
    who = client.AuthenticationV1Api(bot).create_self_subject_review({}).status.user_info
    assert who.username == "chaosbot" and "night-shift" in who.groups
