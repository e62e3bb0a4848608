"""The Role that is printed grants what the check asks for, no more than the example that a real server accepted."""

from __future__ import annotations

import pytest
import yaml

from chaoskit.environments.kubernetes import cluster_check, permissions
from chaoskit.environments.kubernetes.permissions import ClusterUser, SmallestRole
from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace
from tests.environments.kubernetes.staged_cluster import StagedCluster
from tests.kubernetes_server.fixtures import DEFINITIONS

PLACE = ClusterPlace(namespace="staging", claim="runs", path="/runs")
EXAMPLE = DEFINITIONS.parent / "rbac-example.yaml"


def role_of(cluster):
    """The text, and the two manifests."""
    with cluster.serve() as script:
        text = cluster_check.smallest_role(script.connection(patience=0), "staging").as_yaml()
    role, binding = yaml.safe_load_all(text)
    return text, role, binding


def granted(role):
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("cluster", [StagedCluster(), StagedCluster(kinds=()), StagedCluster(kinds=("PodChaos",))])
def test_with_the_role_nothing_that_is_needed_is_missing_and_without_any_of_it_something_is(cluster):
    _, role, _ = role_of(cluster)
    allowed = granted(role)

    def lacking(rules):
        staged = StagedCluster(kinds=cluster.kinds, allows=lambda *asked: asked in rules)
        with staged.serve() as script:
            found = cluster_check.examine(script.connection(patience=0), PLACE)
        return [one.what for one in found if one.what.startswith("permission") and not one.good]

    assert lacking(allowed) == []
    for one in sorted(allowed)[::17]:
        of_template = one[1] == "jobs" and one[2] in permissions.FOR_TEMPLATE.verbs
        named = "permission for --job-template" if of_template else f"permission on {one[1]}"
        assert lacking(allowed - {one}) == [named]


def test_it_is_no_more_than_the_example():
    if not EXAMPLE.is_file():
        pytest.skip(f"there is no {EXAMPLE}")
    example, _ = yaml.safe_load_all(EXAMPLE.read_text())
    _, role, binding = role_of(StagedCluster())
    # It was written before there were evictions.
    assert granted(role) - {("", "pods/eviction", "create")} <= granted(example)
    assert role["kind"] == example["kind"] and role["apiVersion"] == example["apiVersion"]
    assert binding["roleRef"] == {"kind": "Role", "name": "chaoskit", "apiGroup": "rbac.authorization.k8s.io"}
    assert binding["subjects"] == [{"kind": "User", "name": "chaosbot", "apiGroup": "rbac.authorization.k8s.io"}]
    assert role["metadata"] == binding["metadata"] == {"name": "chaoskit", "namespace": "staging"}


def test_no_rule_is_a_wildcard_or_reaches_secrets():
    words = {word for one in granted(role_of(StagedCluster())[1]) for word in one}
    assert not words & {"*", "secrets", "roles", "rolebindings", "nodes", "namespaces", "serviceaccounts"}


def test_further_kinds_of_job_are_comments():
    text, role, _ = role_of(StagedCluster(kinds=("JobSet",)))
    assert "# only for jobs of kind JobSet:\n# - {apiGroups: [jobset.x-k8s.io], resources: [jobsets]" in text
    assert not any("jobset" in group for group, _, _ in granted(role)) and "TrainJob" not in text


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("jane@example.com", {"kind": "User", "name": "jane@example.com"}),
        ("system:serviceaccount:ci:runner", {"kind": "ServiceAccount", "name": "runner", "namespace": "ci"}),
        ("system:node:n1", {"kind": "User", "name": "system:node:n1"}),
        ("x: [*a]", {"kind": "User", "name": "x: [*a]"}),
        ("", {"kind": "User", "name": "NAME-OF-YOUR-USER"}),
    ],
)
def test_whom_it_is_bound_to(name, subject):
    _, binding = yaml.safe_load_all(SmallestRole("staging", permissions.BASE, user=ClusterUser(name)).as_yaml())
    (found,) = binding["subjects"]
    assert subject.items() <= found.items()
    assert ("apiGroup" in found) == (subject["kind"] == "User")


def test_a_server_that_does_not_say_who_we_are():
    assert "NAME-OF-YOUR-USER" in role_of(StagedCluster(user=None))[0]


@pytest.mark.parametrize("verb", permissions.FOR_TEMPLATE.verbs)
def test_a_run_with_a_job_template_must_be_allowed_to_make_and_remove_jobs(verb):
    staged = StagedCluster(allows=lambda group, resource, asked: (resource, asked) != ("jobs", verb))
    with staged.serve() as script:
        connection = script.connection(patience=0)
        permissions.must_have(connection, "staging")
        said = rf"apiGroups: \[batch\], resources: \[jobs\], verbs: \[{verb}\]"
        with pytest.raises(UsageError, match=said):
            permissions.must_have(connection, "staging", templated=True)


def test_a_check_says_what_a_job_template_needs_and_that_other_runs_do_without():
    with StagedCluster(allows=lambda group, resource, verb: (resource, verb) != ("jobs", "create")).serve() as script:
        found = cluster_check.examine(script.connection(patience=0), PLACE)
    (one,) = [one for one in found if not one.good]
    assert (one.what, one.found, one.needed) == ("permission for --job-template", "not allowed: create", False)
