"""A watch tells each change once, through drops, lists that are too old, and events that come twice."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.selectors import RunIdentity, RunSelector
from chaoskit.environments.kubernetes.watching import ObjectWatch
from tests.environments.kubernetes.scripted_server import CUT, Scripted, scripted, status

SELECTOR = RunSelector(RunIdentity("staging", "r1", "u0"))
EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


def pod(name, version, labels=None):
    labels = SELECTOR.labels if labels is None else labels
    metadata = {"name": name, "namespace": "staging", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": {**metadata, "labels": labels}}


def listing(version, *pods, following=""):
    return Scripted(body={"metadata": {"resourceVersion": str(version), "continue": following}, "items": list(pods)})


def event(what, *args, **options):
    return {"type": what, "object": pod(*args, **options)}


def told(*answers, count, patience=30.0):
    """The first changes that a watch tells when it gets these answers, as (what, name, version), and the requests."""
    with scripted(*answers) as script:
        watch = ObjectWatch(script.connection(patience=patience), PODS, SELECTOR, pause=lambda seconds: None)
        changes = watch.changes(limit=60)
        found = [next(changes) for _ in range(count)]
        changes.close()
    metadata = [change.manifest["metadata"] for change in found]
    said = [(change.what, one["name"], one["resourceVersion"]) for change, one in zip(found, metadata, strict=True)]
    return said, [request[1] for request in script.requests]


def test_a_list_and_then_a_watch_from_its_version():
    stream = Scripted(stream=(event("ADDED", "b", 6), event("MODIFIED", "a", 7), event("DELETED", "b", 8)))
    said, requests = told(listing(5, pod("a", 3)), stream, count=4)
    assert said == [("added", "a", "3"), ("added", "b", "6"), ("changed", "a", "7"), ("deleted", "b", "8")]
    labels = "labelSelector=chaoskit.dev/run=r1,chaoskit.dev/owner=u0&"
    assert all(labels in unquote(request) for request in requests)
    assert "resourceVersion=5" in requests[1] and "watch=true" in requests[1] and "timeoutSeconds=" in requests[1]


@pytest.mark.parametrize("complete", [True, False])
def test_a_watch_that_ends_or_is_dropped_continues_where_it_was(complete):
    dropped = Scripted(stream=(event("ADDED", "a", 6), b'{"type": "ADDED", "obj'), complete=complete)
    more = Scripted(stream=(event("ADDED", "b", 9),))
    said, requests = told(listing(5), dropped, CUT, status(429, "TooManyRequests", "no"), more, count=2)
    assert said == [("added", "a", "6"), ("added", "b", "9")]
    assert [part for url in requests for part in url.split("&") if part.startswith("resourceVersion")] == [
        "resourceVersion=5", *["resourceVersion=6"] * 3,
    ]  # fmt: skip


def test_a_bookmark_moves_the_version_on():
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "70"}}}
    streams = (Scripted(stream=(one,)) for one in (bookmark, event("ADDED", "a", 71)))
    said, requests = told(listing(5), *streams, count=1)
    assert said == [("added", "a", "71")] and "resourceVersion=70" in requests[-1]


@pytest.mark.parametrize("too_old", [Scripted(stream=(EXPIRED,)), status(410, "Expired", "too old")])
def test_a_version_that_is_too_old_is_listed_again_and_what_changed_meanwhile_is_told(too_old):
    again = listing(50, pod("a", 3), pod("b", 40), pod("d", 41))
    more = Scripted(stream=(event("MODIFIED", "c", 49), event("ADDED", "e", 51)))  # the first one comes too late
    said, _ = told(listing(5, pod("a", 3), pod("b", 4), pod("c", 5)), too_old, again, more, count=7)
    assert said[3:] == [("deleted", "c", "5"), ("changed", "b", "40"), ("added", "d", "41"), ("added", "e", "51")]


def test_what_comes_twice_is_told_once():
    stream = Scripted(
        stream=(
            event("ADDED", "a", 3), event("MODIFIED", "a", 6), event("MODIFIED", "a", 6), event("ADDED", "a", 3),
            event("DELETED", "a", 7), event("DELETED", "a", 7), event("MODIFIED", "a", 6), event("MODIFIED", "a", 5),
            event("ADDED", "b", 8),
        )
    )  # fmt: skip
    said, _ = told(listing(5, pod("a", 3)), stream, count=4)
    assert said == [("added", "a", "3"), ("changed", "a", "6"), ("deleted", "a", "7"), ("added", "b", "8")]


def test_foreign_objects_are_never_told():
    foreign = {"chaoskit.dev/run": "r2"}
    events = (event("ADDED", "x", 6, labels=foreign), event("DELETED", "x", 7, labels=foreign), event("ADDED", "a", 8))
    assert told(listing(5), Scripted(stream=events), count=1)[0] == [("added", "a", "8")]


def test_an_object_that_loses_its_labels_is_deleted_for_us():
    said, _ = told(listing(5, pod("a", 3)), Scripted(stream=(event("DELETED", "a", 7, labels={}),)), count=2)
    assert said[1] == ("deleted", "a", "7")


def test_a_list_of_several_pages_and_one_that_becomes_too_old_between_them():
    pages = [listing(5, pod("a", 1), following="next"), status(410, "Expired", "too old")]
    pages += [listing(9, pod("b", 8), following="next"), listing(9, pod("c", 7))]
    said, requests = told(*pages, count=2)
    assert said == [("added", "b", "8"), ("added", "c", "7")]
    assert ["continue=next" in url for url in requests] == [False, True, False, True]


def test_a_list_that_is_always_too_old_is_given_up():
    pages = [listing(5, pod("a", 1), following="next"), status(410, "Expired", "too old")] * 9
    with pytest.raises(ClusterError) as raised:
        told(*pages, count=1)
    assert raised.value.status == 410


def test_it_ends_after_its_limit_and_goes_on_with_the_next_call():
    with scripted(listing(5, pod("a", 3)), Scripted(stream=(event("ADDED", "b", 6),))) as script:
        now = [0.0]
        watch = ObjectWatch(
            script.connection(), PODS, SELECTOR, pause=lambda s: now.__setitem__(0, now[0] + s), clock=lambda: now[0]
        )
        assert list(watch.changes(limit=0)) == []
        first = watch.changes(limit=1)
        assert [next(first).uid, next(first).uid] == ["uid-a", "uid-b"]
        now[0] = 2.0
        assert list(first) == []
        script.answers.append(Scripted(stream=(event("MODIFIED", "b", 7),)))
        assert next(watch.changes(limit=1)).what == "changed"


def test_an_error_that_does_not_pass_is_raised():
    with pytest.raises(ClusterError, match="cannot watch"):
        told(listing(5), status(403, "Forbidden", "no"), count=1)


def test_a_server_that_stays_away_is_given_up_after_as_long_as_the_connection_is_patient():
    with pytest.raises(ClusterError, match="does not answer"):
        told(listing(5), count=1, patience=0.05)
