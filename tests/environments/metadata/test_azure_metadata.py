"""Scheduled Events of Azure: what a request needs, the event of an eviction, and how the job lets it start."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from chaoskit.environments.metadata.azure_metadata import AzureMetadata
from chaoskit.environments.metadata.notice_board import NoticeBoard
from tests.environments.metadata.asking import ask

EVENTS = "/metadata/scheduledevents"
NEWEST = f"{EVENTS}?api-version=2020-07-01"


@pytest.fixture
def board():
    return NoticeBoard()


@pytest.fixture
def azure(board):
    return AzureMetadata(board, node="node1")


def told_by(service, target=NEWEST):
    answer = ask(service, "GET", target, Metadata="true")
    assert answer.status == 200
    return json.loads(answer.text)


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        (NEWEST, {}),
        (NEWEST, {"Metadata": "yes"}),
        (NEWEST, {"Metadata": "true", "X_Forwarded_For": "10.0.0.1"}),
        (EVENTS, {"Metadata": "true"}),
        (f"{EVENTS}?api-version=latest", {"Metadata": "true"}),
    ],
)
def test_what_a_request_needs(azure, target, headers):
    assert ask(azure, "GET", target, **headers).status == 400


def test_without_a_notice_there_is_no_event(azure):
    assert told_by(azure) == {"DocumentIncarnation": 1, "Events": []}


def test_an_eviction(azure, board):
    board.post(seconds=30)
    told = told_by(azure)
    (event,) = told["Events"]
    assert told["DocumentIncarnation"] == 2
    assert ask(azure, "GET", NEWEST, Metadata="true").notice
    assert (event["EventType"], event["EventStatus"], event["Resources"]) == ("Preempt", "Scheduled", ["node1"])
    at = datetime.strptime(event["NotBefore"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC).timestamp()
    assert 27 < at - time.time() <= 30
    assert {"Description", "EventSource", "DurationInSeconds"} <= {*event}
    (event,) = told_by(azure, f"{EVENTS}?api-version=2017-11-01")["Events"]
    assert {*event} == {"EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"}


def test_the_job_lets_it_start(azure, board):
    notice = board.post(seconds=30)
    body = json.dumps({"StartRequests": [{"EventId": notice.id}]}).encode()
    for _ in range(2):  # that it was approved already is no error
        assert ask(azure, "POST", NEWEST, body, Metadata="true").status == 200
    assert board.notice is not None and board.notice.started
    told = told_by(azure)
    (event,) = told["Events"]
    assert (told["DocumentIncarnation"], event["EventStatus"], event["NotBefore"]) == (3, "Started", "")


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"StartRequests": []}', b'{"StartRequests": [{"EventId": "x"}]}']
)
def test_requests_to_start_that_are_none(azure, board, body):
    board.post(seconds=30)
    assert ask(azure, "POST", NEWEST, body, Metadata="true").status == 400
    assert board.notice is not None and not board.notice.started


def test_a_withdrawn_eviction(azure, board):
    board.post(seconds=30)
    board.withdraw()
    assert told_by(azure) == {"DocumentIncarnation": 3, "Events": []}


def test_its_name(azure):
    target = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
    assert ask(azure, "GET", target, Metadata="true").text == "node1"
    assert ask(azure, "GET", "/metadata/elsewhere", Metadata="true").status == 404
