"""Errors of an API server carry data, name the remedy, and are repeated where they pass."""

from __future__ import annotations

import socket

import pytest

from chaoskit.environments.kubernetes.access_rule import AccessRule
from chaoskit.environments.kubernetes.api_kinds import CONFIG_MAPS, JOBS, NETWORK_CHAOS, PODS
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import REQUEST, ApiTarget
from chaoskit.errors import ExitCode
from tests.environments.kubernetes.scripted_server import CUT, Scripted, scripted, status

POD = ApiTarget(PODS, "staging", "p0")
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
BUSY = status(429, "TooManyRequests", "too many requests", Retry_After="0")
TIMEOUT = status(504, "Timeout", "request did not complete")
EXISTS = status(409, "AlreadyExists", 'configmaps "one" already exists')


def error_of(*answers, call=lambda connection: connection.get(POD), patience=0.0):
    """The error of a call that gets these answers."""
    with scripted(*answers) as script, pytest.raises(ClusterError) as raised:
        call(script.connection(patience=patience))
    assert "\n" not in str(raised.value)
    return raised.value


def test_expired_credentials():
    error = error_of(status(401, "Unauthorized", "Unauthorized"))
    assert (error.status, error.reason, error.exit_code) == (401, "Unauthorized", ExitCode.USAGE)
    assert str(error).startswith("cannot get Pod p0 in staging: the cluster does not accept the credentials")
    assert "log in" in error.remedy and not error.passing


def test_no_credentials_at_all_are_no_missing_permission():
    """A client whose login command has failed sends its requests without a token."""
    said = 'pods "p0" is forbidden: User "system:anonymous" cannot get resource "pods" in API group "" in the namespace'
    error = error_of(status(403, "Forbidden", said))
    assert "does not accept the credentials" in str(error) and error.rule is None and "Role" not in str(error)


def test_a_missing_permission_names_the_rule_that_grants_it():
    said = 'jobs.batch is forbidden: User "u" cannot create resource "jobs" in API group "batch" in the namespace "s"'
    error = error_of(status(403, "Forbidden", said), call=lambda one: one.create("s", JOBS, MAP))
    assert error.rule == AccessRule("batch", ("jobs",), ("create",)) and error.exit_code == ExitCode.USAGE
    assert error.remedy == "add to a Role of the namespace: {apiGroups: [batch], resources: [jobs], verbs: [create]}"
    said = 'pods "p0" is forbidden: User "u" cannot get resource "pods/log" in API group "" in the namespace "s"'
    error = error_of(
        status(403, "Forbidden", said), call=lambda one: one.get(ApiTarget(PODS, "staging", "p0", "log"))
    )
    assert str(error).endswith('{apiGroups: [""], resources: [pods/log], verbs: [get]}')


@pytest.mark.parametrize(
    "said",
    ['configmaps "one" is forbidden: exceeded quota: small', 'admission webhook "guard" denied the request: no'],
)
def test_other_refusals_of_the_server_are_its_own_sentence(said):
    error = error_of(status(403, "Forbidden", said), call=lambda one: one.create("staging", CONFIG_MAPS, MAP))
    assert said in str(error) and "Role" not in str(error)
    assert ("quota" in error.remedy) == ("quota" in said)


def test_a_webhook_whose_controller_is_down():
    said = 'Internal error occurred: failed calling webhook "mutate-v1-networkchaos": connection refused'
    error = error_of(status(500, "InternalError", said), call=lambda one: one.create("staging", CONFIG_MAPS, MAP))
    assert "failed calling webhook" in str(error) and "check that its pods run" in error.remedy and not error.passing


def test_a_server_that_is_away():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with scripted() as script:
            script.address = f"http://127.0.0.1:{port}"
            with pytest.raises(ClusterError) as raised:
                script.connection(patience=0).get(POD)
    error = raised.value
    assert (error.status, error.passing, error.exit_code) == (0, True, ExitCode.INTERNAL)
    assert f"the API server at http://127.0.0.1:{port} does not answer" in str(error) and "VPN" in error.remedy


def test_a_server_that_speaks_no_tls_or_a_foreign_one():
    with scripted() as script:
        script.address = script.address.replace("http:", "https:")
        with pytest.raises(ClusterError, match="does not answer"):
            script.connection(patience=0).get(POD)


@pytest.mark.parametrize("body", ["<html>a login page</html>", "[]", ""])
def test_what_is_no_api_server(body):
    assert "does not answer" in str(error_of(Scripted(200, body)))


def test_an_error_of_a_proxy_between():
    error = error_of(Scripted(502, "<html>bad gateway</html>"))
    assert error.status == 502 and "<html>bad gateway" in str(error) and error.passing
    assert "HTTP 500" in str(error_of(Scripted(500, "")))


@pytest.mark.parametrize("passing", [BUSY, TIMEOUT, CUT, status(503, "ServiceUnavailable", "starting"),
                                     status(500, "InternalError", "leader changed", Retry_After="0")])  # fmt: skip
@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("GET", lambda one: one.get(POD)),
        ("GET", lambda one: one.page(ApiTarget(PODS, "staging"), {})),
        ("POST", lambda one: one.create("staging", CONFIG_MAPS, MAP)),
        ("PATCH", lambda one: one.patch(POD, {"metadata": {"labels": {}}})),
        ("DELETE", lambda one: one.delete(POD, uid="u1") or "begun"),
        ("GET", lambda one: one.read("/version", what="ask")),
        ("POST", lambda one: one.ask("/apis/x", {}, what="ask")),
    ],
)
def test_every_request_is_repeated(passing, method, call):
    with scripted(passing, passing, Scripted(200, MAP)) as script:
        assert call(script.connection())
    assert [request[0] for request in script.requests] == [method] * 3
    assert len({str(request) for request in script.requests}) == 1


def test_what_does_not_pass_is_not_repeated():
    for answer in (status(404, "NotFound", "no"), status(500, "InternalError", "no"), status(422, "Invalid", "no")):
        with scripted(answer, Scripted()) as script, pytest.raises(ClusterError):
            script.connection().get(POD)
        assert len(script.requests) == 1


def test_every_create_is_strict_and_a_dry_run_makes_nothing():
    with scripted(Scripted(201, MAP), Scripted(201, MAP)) as script:
        script.connection().create("staging", CONFIG_MAPS, MAP)
        script.connection().create("staging", NETWORK_CHAOS, MAP, dry_run=True)
    assert [request[1] for request in script.requests] == [
        "/api/v1/namespaces/staging/configmaps?fieldValidation=Strict",
        "/apis/chaos-mesh.org/v1alpha1/namespaces/staging/networkchaos?fieldValidation=Strict&dryRun=All",
    ]
    assert MAP["metadata"] == {"name": "one"}


@pytest.mark.parametrize("unsure", [CUT, TIMEOUT])
def test_a_create_that_was_carried_out_although_it_failed_finds_its_own_object(unsure):
    def mine(request):
        sent = script.requests[0][2]
        return Scripted(200, {**sent, "metadata": {**sent["metadata"], "uid": "u1"}})

    with scripted(unsure, EXISTS, mine) as script:
        assert script.connection().create("staging", CONFIG_MAPS, MAP)["metadata"]["uid"] == "u1"
    assert [request[:2] for request in script.requests[2:]] == [("GET", "/api/v1/namespaces/staging/configmaps/one")]


@pytest.mark.parametrize("annotations", [None, {}, {REQUEST: "another"}])
def test_an_object_of_somebody_else_is_not_taken_for_ours(annotations):
    other = Scripted(200, {"metadata": {"name": "one", "annotations": annotations}})
    error = error_of(CUT, EXISTS, other, call=lambda one: one.create("staging", CONFIG_MAPS, MAP), patience=30)
    assert error.reason == "AlreadyExists"


def test_an_object_that_was_there_before_is_not_even_looked_at():
    with scripted(EXISTS) as script, pytest.raises(ClusterError, match="already exists"):
        script.connection().create("staging", CONFIG_MAPS, MAP)
    assert [request[0] for request in script.requests] == ["POST"]


CONFLICT, GONE = status(409, "Conflict", "the object has been modified"), status(404, "NotFound", "no")
OURS, THEIRS = (Scripted(200, {"metadata": {"uid": uid}}) for uid in ("u1", "u2"))


@pytest.mark.parametrize(
    "answers",
    [
        (Scripted(),),
        (GONE,),
        (CONFLICT, THEIRS),
        (CONFLICT, GONE),
        (CONFLICT, OURS, Scripted()),
        (CUT, Scripted()),
        (CUT, GONE),
        (CONFLICT, OURS, GONE),
    ],
)
def test_a_delete_removes_the_object_of_that_uid_and_no_other(answers):
    """It ends once that object is being removed, or another one has its name."""
    with scripted(*answers) as script:
        script.connection().delete(POD, uid="u1", grace=0)
    assert len(script.requests) == len(answers)
    (sent,) = {str(body) for method, _, body in script.requests if method == "DELETE"}
    assert "'preconditions': {'uid': 'u1'}" in sent and "'gracePeriodSeconds': 0" in sent


@pytest.mark.parametrize(
    "answers",
    [(Scripted(201, {}),), (GONE,), (CONFLICT, THEIRS), (CONFLICT, OURS, Scripted(201, {})), (CONFLICT, GONE)],
    ids=["accepted", "gone", "replaced", "in conflict", "gone meanwhile"],
)
def test_an_eviction_is_of_the_pod_of_that_uid_and_no_other(answers):
    with scripted(*answers) as script:
        script.connection().evict(POD, uid="u1")
    assert len(script.requests) == len(answers)
    method, url, body = script.requests[0]
    assert method == "POST" and url.endswith("/pods/p0/eviction")
    assert body["kind"] == "Eviction" and body["deleteOptions"] == {"preconditions": {"uid": "u1"}}


def test_a_watch_that_is_refused_or_says_so_later():
    said = 'pods is forbidden: User "u" cannot watch resource "pods" in API group "" in the namespace "staging"'
    late = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    with scripted(status(403, "Forbidden", said), Scripted(stream=(late,))) as script:
        with pytest.raises(ClusterError) as refused, script.connection().watch(POD, {}, limit=1):
            pass
        assert refused.value.rule == AccessRule("", ("pods",), ("watch",))
        with script.connection().watch(POD, {}, limit=1) as events, pytest.raises(ClusterError) as expired:
            next(events)
        assert (expired.value.status, expired.value.passing) == (410, False)
