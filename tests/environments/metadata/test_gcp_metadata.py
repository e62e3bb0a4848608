"""The metadata server of Google: its header, the two keys of a spot VM, and requests that wait for a change."""

from __future__ import annotations

import json
import threading
import time

import pytest

from chaoskit.environments.metadata.gcp_metadata import GcpMetadata
from chaoskit.environments.metadata.notice_board import NoticeBoard
from tests.environments.metadata.asking import ask

BASE = "/computeMetadata/v1/instance/"
PREEMPTED, EVENT = BASE + "preempted", BASE + "maintenance-event"


@pytest.fixture
def board():
    return NoticeBoard()


@pytest.fixture
def gcp(board):
    return GcpMetadata(board, node="node1")


def google(service, target, **more):
    return ask(service, "GET", target, Metadata_Flavor="Google", **more)


def test_its_header_is_demanded(gcp):
    for answer in (
        ask(gcp, "GET", PREEMPTED),
        ask(gcp, "GET", PREEMPTED, Metadata_Flavor="Sugar"),
        google(gcp, PREEMPTED, X_Forwarded_For="10.0.0.1"),
    ):
        assert (answer.status, answer.headers["Metadata-Flavor"]) == (403, "Google")


def test_what_libraries_ask_to_find_out_where_they_are(gcp):
    answer = ask(gcp, "GET", "/")
    assert (answer.status, answer.headers["Metadata-Flavor"]) == (200, "Google")


def test_before_and_after_the_notice(gcp, board):
    assert [google(gcp, path).text for path in (PREEMPTED, EVENT)] == ["FALSE", "NONE"]
    board.post(seconds=30)
    assert [google(gcp, path).text for path in (PREEMPTED, EVENT)] == ["TRUE", "TERMINATE_ON_HOST_MAINTENANCE"]
    told = [google(gcp, path).notice for path in (PREEMPTED, EVENT, f"{BASE}?recursive=true", f"{BASE}name", BASE)]
    assert told == [True, True, True, False, False]
    board.withdraw()
    assert [google(gcp, path).text for path in (PREEMPTED, EVENT)] == ["FALSE", "NONE"]


def test_who_waits_is_answered_by_the_change(gcp, board):
    etag = google(gcp, PREEMPTED).headers["ETag"]
    threading.Timer(0.1, board.post, kwargs={"seconds": 30}).start()
    answer = google(gcp, f"{PREEMPTED}?wait_for_change=true&last_etag={etag}")
    assert answer.text == "TRUE"
    assert answer.headers["ETag"] != etag


def test_who_waits_for_what_has_changed_already_does_not_wait(gcp, board):
    etag = google(gcp, PREEMPTED).headers["ETag"]
    board.post(seconds=30)
    assert google(gcp, f"{PREEMPTED}?wait_for_change=true&last_etag={etag}").text == "TRUE"


def test_who_waits_in_vain_is_told_what_is(gcp):
    begun = time.monotonic()
    answer = google(gcp, f"{PREEMPTED}?wait_for_change=true&timeout_sec=1")
    assert (answer.status, answer.text) == (200, "FALSE")
    assert time.monotonic() - begun >= 0.9
    assert google(gcp, f"{PREEMPTED}?wait_for_change=true&timeout_sec=long").status == 400


def test_nobody_waits_past_the_end_of_the_run(gcp, board):
    threading.Timer(0.1, board.close).start()
    assert google(gcp, f"{PREEMPTED}?wait_for_change=true").text == "FALSE"


def test_directories(gcp):
    assert "maintenance-event\n" in google(gcp, BASE).text
    assert google(gcp, BASE.rstrip("/")).status == 404
    assert google(gcp, BASE + "no-such-thing").status == 404
    told = json.loads(google(gcp, f"{BASE}?recursive=true").text)
    assert (told["preempted"], told["maintenanceEvent"], told["name"]) == ("FALSE", "NONE", "node1")
    assert told["scheduling"] == {"preemptible": "TRUE"}
    assert json.loads(google(gcp, f"{PREEMPTED}?alt=json").text) == "FALSE"
