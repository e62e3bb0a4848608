"""What goes wrong on purpose, as a client meets it; and a server that is away for a while."""

from __future__ import annotations

import threading

import pytest
import urllib3
from kubernetes import client, watch

from tests.kubernetes_server.expect import config_maps, refused
from tests.kubernetes_server.faults import ApiFault, at_calls, seeded
from tests.kubernetes_server.objects import config_map
from tests.kubernetes_server.server import KubernetesServer


@pytest.fixture
def since(core, api_server, namespace):
    return core.list_namespaced_config_map(namespace).metadata.resource_version


def told(core, namespace, since):
    """The names that one watch tells, until it ends in whichever way, and how it ended."""
    options = {"watch": True, "resource_version": since, "_preload_content": False, "timeout_seconds": 30}
    stream = core.list_namespaced_config_map(namespace, **options)
    seen = []
    try:
        for line in watch.watch.iter_resp_lines(stream):
            event = watch.Watch().unmarshal_event(line, None)
            if event["type"] == "ERROR":
                return seen, event["object"]["code"]
            name = event["object"]["metadata"]["name"]
            if name == "end":
                return seen, "end"
            seen.append(name)
    except urllib3.exceptions.ProtocolError:
        return seen, "cut"
    finally:
        stream.close()
    return seen, "ended"


def make(core, namespace, *made):
    for name in made:
        core.create_namespaced_config_map(namespace, config_map(name))


@pytest.mark.parametrize(
    ("kind", "code", "reason"),
    [("conflict", 409, "Conflict"), ("too_many", 429, "TooManyRequests"), ("timeout", 504, "Timeout")],
)
@pytest.mark.parametrize("applied", [False, True])
def test_a_call_is_answered_with_an_error(core, api_server, namespace, kind, code, reason, applied):
    fault = ApiFault(kind, applied=applied)
    with api_server.faulty(at_calls({1: fault})):
        core.create_namespaced_config_map(namespace, config_map("before"))
        with refused(code, reason):
            core.create_namespaced_config_map(namespace, config_map("one"))
        core.create_namespaced_config_map(namespace, config_map("after"))
    assert config_maps(core, namespace) == {"before", "after"} | ({"one"} if applied else set())
    assert [(call.verb, fault) for call, fault in api_server.injected] == [("create", fault)]


def test_too_many_requests_say_when_to_come_again(core, api_server, namespace):
    with api_server.faulty(at_calls({0: ApiFault("too_many")})), pytest.raises(client.ApiException) as error:
        core.create_namespaced_config_map(namespace, config_map("one"))
    assert error.value.headers["Retry-After"] == "1"


def test_a_connection_is_cut_instead_of_an_answer(core, api_server, namespace):
    decide = at_calls({0: ApiFault("reset", applied=True)})
    with api_server.faulty(decide), pytest.raises(urllib3.exceptions.ProtocolError):
        core.create_namespaced_config_map(namespace, config_map("one"))
    assert config_maps(core, namespace) == {"one"}


def test_a_watch_is_dropped_in_the_middle(core, api_server, namespace, since):
    make(core, namespace, "one", "two", "three")
    with api_server.faulty(at_calls({0: ApiFault("drop", after=2)})):
        assert told(core, namespace, since) == (["one", "two"], "cut")


def test_an_idle_watch_is_dropped_too(core, api_server, namespace, since):
    with api_server.faulty(at_calls({0: ApiFault("drop", after=2)})):
        assert told(core, namespace, since) == ([], "cut")


def test_a_watch_tells_an_event_twice(core, api_server, namespace, since):
    make(core, namespace, "one", "two", "end")
    with api_server.faulty(at_calls({0: ApiFault("duplicate", after=1)})):
        assert told(core, namespace, since) == (["one", "two", "two"], "end")


def test_a_watch_is_late(core, api_server, namespace, since):
    make(core, namespace, "one", "end")
    with api_server.faulty(at_calls({0: ApiFault("delay", seconds=0.1)})):
        assert told(core, namespace, since) == (["one"], "end")
    assert [fault.kind for _, fault in api_server.injected] == ["delay"]


def test_a_late_watch_is_silent_at_first(core, api_server, namespace, since):
    make(core, namespace, "one")
    options = {"watch": True, "resource_version": since, "_preload_content": False, "_request_timeout": 0.3}
    with api_server.faulty(at_calls({0: ApiFault("delay", seconds=30)})):
        stream = core.list_namespaced_config_map(namespace, **options)
        with pytest.raises(urllib3.exceptions.ReadTimeoutError):
            next(watch.watch.iter_resp_lines(stream))
        stream.close()


def test_a_watch_is_gone_within_the_stream_or_at_once(core, api_server, namespace, since):
    make(core, namespace, "one", "two")
    with api_server.faulty(at_calls({0: ApiFault("gone", after=1)})):
        assert told(core, namespace, since) == (["one"], 410)
    with api_server.faulty(at_calls({0: ApiFault("gone", within=False)})), refused(410, "Expired", "too old"):
        core.list_namespaced_config_map(namespace, watch=True, resource_version=since)


def test_what_cannot_happen_to_a_call_does_not(core, api_server, namespace):
    everything = {number: ApiFault(kind) for number, kind in enumerate(("drop", "conflict", "gone", "duplicate"))}
    with api_server.faulty(at_calls(everything)):
        assert [config_maps(core, namespace) for _ in everything] == [set()] * len(everything)
    assert api_server.injected == []


def test_chance_is_the_same_for_the_same_seed(core, api_server, namespace):
    def happened(seed):
        del api_server.injected[:]
        with api_server.faulty(seeded(seed, rate=0.5, kinds=("conflict", "timeout"))):
            for number in range(20):
                try:
                    core.delete_namespaced_config_map(f"not-there-{number}", namespace)
                except client.ApiException as error:
                    assert error.status in (404, 409, 504)
        first = min((call.number for call, _ in api_server.injected), default=0)
        return [(call.number - first, fault.kind) for call, fault in api_server.injected]

    one = happened(1)
    assert 3 < len(one) < 17 and {kind for _, kind in one} == {"conflict", "timeout"}
    assert happened(1) == one
    assert happened(2) != one


def test_a_server_that_is_away_refuses_and_comes_back_with_what_it_had(core, api_server, namespace):
    make(core, namespace, "one")
    with api_server.away():
        with pytest.raises(urllib3.exceptions.MaxRetryError, match="Connection refused"):
            config_maps(core, namespace)
        with pytest.raises(urllib3.exceptions.MaxRetryError, match="Connection refused"):
            make(core, namespace, "two")
    assert config_maps(core, namespace) == {"one"}
    make(core, namespace, "two")


def test_a_watch_ends_as_the_server_goes_away(core, api_server, namespace, since):
    make(core, namespace, "one")
    stream = core.list_namespaced_config_map(namespace, watch=True, resource_version=since, _preload_content=False)
    lines = watch.watch.iter_resp_lines(stream)
    assert '"one"' in next(lines)
    with api_server.away(), pytest.raises(urllib3.exceptions.ProtocolError):
        next(lines)
    stream.close()


def test_nothing_is_left_of_a_server(until):
    before = threading.active_count()
    server = KubernetesServer()
    server.start()
    http = urllib3.PoolManager()
    headers = {"Authorization": "Bearer admin"}
    assert http.request("GET", f"{server.address}/api/v1/namespaces", headers=headers).status == 200
    server.stop()
    until(lambda: threading.active_count() <= before, timeout=60)
    with pytest.raises(urllib3.exceptions.MaxRetryError):
        http.request("GET", server.address, retries=0)
