"""The Role that is printed grants what the check asks for, no more than the example that a real server accepted."""

from __future__ import annotations

import pytest
import yaml

from chaoskit.environments.kubernetes import cluster_check, permissions
from chaoskit.environments.kubernetes.api_kinds import FURTHER_JOBS, JOB_SETS, JOBS
from chaoskit.environments.kubernetes.permissions import ClusterUser, SmallestRole
from chaoskit.environments.kubernetes.team_jobs.kinds import KINDS
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


@pytest.mark.parametrize("cluster", [StagedCluster(), StagedCluster(kinds=()), StagedCluster(kinds=("NetworkChaos",))])
def test_with_the_role_nothing_that_is_needed_is_missing_and_without_any_of_it_something_is(cluster):
    _, role, _ = role_of(cluster)
    allowed = granted(role)

    def lacking(rules):
        staged = StagedCluster(kinds=cluster.kinds, allows=lambda *asked: asked in rules)
        with staged.serve() as script:
            found = cluster_check.examine(script.connection(patience=0), PLACE)
        kinds = {kind.kind for kind in FURTHER_JOBS}
        return [one.what for one in found if one.what.startswith(("permission", *kinds)) and not one.good]

    assert lacking(allowed) == []
    for one in sorted(allowed)[::17]:
        of_template = one[1] == "jobs" and one[2] in permissions.FOR_TEMPLATE.verbs
        further = next((kind.kind for kind in FURTHER_JOBS if kind.group == one[0]), None)
        named = "permission for --job-template" if of_template else further or f"permission on {one[1]}"
        assert lacking(allowed - {one}) == [named]


def test_it_is_no_more_than_the_example():
    if not EXAMPLE.is_file():
        pytest.skip(f"there is no {EXAMPLE}")
    example, _ = yaml.safe_load_all(EXAMPLE.read_text())
    _, role, binding = role_of(StagedCluster())
    # It was written before there were evictions, and before further kinds of job were run and suspended.
    further = {one for one in granted(role) if one[0] in {kind.group for kind in FURTHER_JOBS}}
    assert granted(role) - further - {("", "pods/eviction", "create")} <= granted(example)
    assert role["kind"] == example["kind"] and role["apiVersion"] == example["apiVersion"]
    assert binding["roleRef"] == {"kind": "Role", "name": "chaoskit", "apiGroup": "rbac.authorization.k8s.io"}
    assert binding["subjects"] == [{"kind": "User", "name": "chaosbot", "apiGroup": "rbac.authorization.k8s.io"}]
    assert role["metadata"] == binding["metadata"] == {"name": "chaoskit", "namespace": "staging"}


def test_no_rule_is_a_wildcard_or_reaches_secrets():
    words = {word for one in granted(role_of(StagedCluster())[1]) for word in one}
    assert not words & {"*", "secrets", "roles", "rolebindings", "nodes", "namespaces", "serviceaccounts"}


def test_the_kinds_of_job_that_are_there_are_in_it_and_no_others():
    verbs = ("create", "get", "list", "delete", "patch")
    for kind in (each.api for each in KINDS if each.api != JOBS):
        _, role, _ = role_of(StagedCluster(kinds=(kind.kind,)))
        groups = {known.group for known in FURTHER_JOBS}
        further = {one for one in granted(role) if one[0] in groups}
        assert further == {(kind.group, kind.plural, verb) for verb in verbs}


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
            permissions.must_have(connection, "staging", job=JOBS)


@pytest.mark.parametrize(
    ("job", "group", "resource", "verb"),
    [(JOB_SETS, JOB_SETS.group, "jobsets", verb) for verb in ("create", "get", "list", "delete", "patch")]
    + [(JOB_SETS, "batch", "jobs", verb) for verb in ("list", "delete")],
)
def test_a_run_of_a_further_kind_needs_that_kind_and_removes_what_its_controller_makes(job, group, resource, verb):
    allowed = {(JOB_SETS.group, "jobsets"), ("batch", "jobs")}

    def allows(*asked):
        own = asked[0] != "batch" or asked[2] in ("list", "delete")
        return asked != (group, resource, verb) and (own if asked[:2] in allowed else True)

    with StagedCluster(allows=allows).serve() as script:
        said = rf"apiGroups: \[{group}\], resources: \[{resource}\], verbs: \[{verb}\]"
        with pytest.raises(UsageError, match=said):
            permissions.must_have(script.connection(patience=0), "staging", job=job)


@pytest.mark.parametrize("verb", ["list", "delete"])
@pytest.mark.parametrize("job", [each.api for each in KINDS])
def test_a_run_whose_job_makes_volume_claims_must_be_allowed_to_remove_them(job, verb):
    asked = ("persistentvolumeclaims", verb)
    with StagedCluster(allows=lambda group, resource, each: (resource, each) != asked).serve() as script:
        connection = script.connection(patience=0)
        permissions.must_have(connection, "staging", job=job)
        said = rf'apiGroups: \[""\], resources: \[persistentvolumeclaims\], verbs: \[{verb}\]'
        with pytest.raises(UsageError, match=said):
            permissions.must_have(connection, "staging", job=job, claims=True)


def test_a_check_says_what_a_job_template_needs_and_that_other_runs_do_without():
    with StagedCluster(allows=lambda group, resource, verb: (resource, verb) != ("jobs", "create")).serve() as script:
        found = cluster_check.examine(script.connection(patience=0), PLACE)
    (one,) = [one for one in found if not one.good]
    assert (one.what, one.found, one.needed) == ("permission for --job-template", "not allowed: create", False)
