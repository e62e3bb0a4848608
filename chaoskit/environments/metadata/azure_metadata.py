"""`AzureMetadata`: the Scheduled Events of Azure's instance metadata service, on a spot VM.

As documented on https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events: `Metadata: true` and a known
`api-version` are demanded of each request, 400 without; `DocumentIncarnation` grows with each change; a spot VM is told
of its eviction by an event `Preempt`, with the time before which it does not start; POST of its id in `StartRequests`
lets it start at once. The name of the VM is at `/metadata/instance/compute/name`
(https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service).
"""

from __future__ import annotations

import json
import time
from typing import Any

from chaoskit.environments.metadata.messages import FORWARDED, MetadataAnswer, MetadataRequest
from chaoskit.environments.metadata.notice_board import NoticeBoard, PostedNotice

#: The versions of Scheduled Events that know the event `Preempt`.
VERSIONS = ("2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01")
_EVENTS = "/metadata/scheduledevents"
_NAME = "/metadata/instance/compute/name"


class AzureMetadata:
    """What a spot VM called `node` is told."""

    def __init__(self, board: NoticeBoard, *, node: str) -> None:
        self._board = board
        self._node = node

    def answer(self, request: MetadataRequest) -> MetadataAnswer:
        """See `MetadataService`."""
        if request.headers.get("metadata", "").lower() != "true" or FORWARDED in request.headers:
            return _bad("Required metadata header not specified")
        version = request.query.get("api-version", "")
        if request.path == _NAME and request.method == "GET":
            return MetadataAnswer(200, self._node) if version else _bad("api-version was not specified")
        if request.path.rstrip("/").lower() != _EVENTS:
            return MetadataAnswer(404)
        if version not in VERSIONS:
            return _bad("api-version is invalid or was not specified in the request", versions=VERSIONS)
        if request.method == "POST":
            return self._start(request)
        if request.method != "GET":
            return MetadataAnswer(405)
        notice = self._board.notice
        events = [] if notice is None else [self._event(notice, version)]
        told = {"DocumentIncarnation": self._board.changes + 1, "Events": events}
        return MetadataAnswer(200, json.dumps(told), "application/json", notice=notice is not None)

    def _start(self, request: MetadataRequest) -> MetadataAnswer:
        """Approve an event: it need not wait for its time."""
        try:
            ids = [str(each["EventId"]) for each in json.loads(request.body)["StartRequests"]]
        except (ValueError, KeyError, TypeError):
            return _bad("the body is no list of StartRequests")
        if not ids or not all(self._board.start(one) for one in ids):
            return _bad("there is no such event")
        return MetadataAnswer(200)

    def _event(self, notice: PostedNotice, version: str) -> dict[str, Any]:
        not_before = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(notice.ends))
        event: dict[str, Any] = {
            "EventId": notice.id,
            "EventStatus": "Started" if notice.started else "Scheduled",
            "EventType": "Preempt",
            "ResourceType": "VirtualMachine",
            "Resources": [self._node],
            # Of an event that has started, it is empty.
            "NotBefore": "" if notice.started else not_before,
        }
        if version >= "2019-04-01":
            event["Description"] = "Spot VM is being evicted"
        if version >= "2019-08-01":
            event["EventSource"] = "Platform"
        if version >= "2020-07-01":
            event["DurationInSeconds"] = -1  # its end is not known
        return event


def _bad(why: str, *, versions: tuple[str, ...] = ()) -> MetadataAnswer:
    told = {"error": f"Bad request. {why}.", **({"newest-versions": list(versions)} if versions else {})}
    return MetadataAnswer(400, json.dumps(told), "application/json")
