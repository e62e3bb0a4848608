"""`GcpMetadata`: the metadata server of Google's Compute Engine, on a spot VM.

As documented on https://cloud.google.com/compute/docs/metadata/querying-metadata (the header `Metadata-Flavor: Google`
in requests and answers, 403 without it, and for what a proxy passes on; directories, `recursive`, `alt`;
`wait_for_change`, `last_etag`, `timeout_sec`), https://cloud.google.com/compute/docs/instances/create-use-spot
(`instance/preempted`) and https://cloud.google.com/compute/docs/metadata/getting-live-migration-notice
(`instance/maintenance-event`: NONE, or how the VM will be stopped).
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Mapping

from chaoskit.environments.metadata.messages import FORWARDED, MetadataAnswer, MetadataRequest
from chaoskit.environments.metadata.notice_board import NoticeBoard

#: By these names, a VM finds its metadata server.
NAMES = ("metadata.google.internal", "metadata")
_FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
_ROOT = "/computeMetadata/v1/"
_TERMINATE = "TERMINATE_ON_HOST_MAINTENANCE"


class GcpMetadata:
    """What a spot VM called `node` is told."""

    def __init__(self, board: NoticeBoard, *, node: str) -> None:
        self._board = board
        self._node = node

    def answer(self, request: MetadataRequest) -> MetadataAnswer:
        """See `MetadataService`. With `wait_for_change` it waits until the value is another one than that of
        `last_etag`, or than it was."""
        if request.path in ("", "/"):
            return self._said("computeMetadata/\n")
        if request.headers.get("metadata-flavor") != "Google" or FORWARDED in request.headers:
            return MetadataAnswer(403, "Missing required header: Metadata-Flavor", headers=_FLAVOR)
        if request.method not in ("GET", "HEAD"):
            return MetadataAnswer(405, headers=_FLAVOR)
        query = request.query
        seconds = query.get("timeout_sec", "")
        if seconds and not seconds.isdecimal():
            return MetadataAnswer(400, headers=_FLAVOR)
        told = self._told(request)
        if told is not None and query.get("wait_for_change", "").lower() == "true":
            last = query.get("last_etag", _etag(told))
            limit = float(seconds) if seconds else None
            self._board.wait(lambda: _etag(self._told(request) or "") != last, limit)
            told = self._told(request)
        if told is None:
            return MetadataAnswer(404, headers=_FLAVOR)
        as_json = query.get("alt", "").lower() == "json" or _is_recursive(request)
        return self._said(told, "application/json" if as_json else "application/text", notice=_tells(request, told))

    def _said(self, text: str, kind: str = "application/text", *, notice: bool = False) -> MetadataAnswer:
        return MetadataAnswer(200, text, kind, {**_FLAVOR, "ETag": _etag(text)}, notice=notice)

    def _told(self, request: MetadataRequest) -> str | None:
        """The value of a path, the names below it, or all of it with `recursive`; None if there is no such thing."""
        values = self._values()
        if not request.path.startswith(_ROOT):
            return None
        path, as_json = request.path.removeprefix(_ROOT), request.query.get("alt", "").lower() == "json"
        if path in values:
            return json.dumps(values[path]) if as_json else values[path]
        if path and not path.endswith("/"):
            return None  # a directory is asked for with a slash at its end
        below = {name.removeprefix(path): value for name, value in values.items() if name.startswith(path)}
        if not below:
            return None
        if _is_recursive(request):
            return json.dumps(_tree(below))
        names = sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in below})
        return json.dumps(names) if as_json else "".join(f"{name}\n" for name in names)

    def _values(self) -> dict[str, str]:
        given = self._board.notice is not None
        return {
            "instance/hostname": f"{self._node}.c.chaoskit.internal",
            "instance/id": str(zlib.crc32(self._node.encode())),
            "instance/maintenance-event": _TERMINATE if given else "NONE",
            "instance/name": self._node,
            "instance/preempted": "TRUE" if given else "FALSE",
            "instance/scheduling/preemptible": "TRUE",
        }


def _tells(request: MetadataRequest, told: str) -> bool:
    """Whether the answer tells of a notice."""
    return _TERMINATE in told or (request.path == f"{_ROOT}instance/preempted" and "TRUE" in told)


def _is_recursive(request: MetadataRequest) -> bool:
    return request.query.get("recursive", "").lower() == "true" and request.path.endswith("/")


def _tree(values: Mapping[str, str]) -> dict[str, object]:
    """The values below each other; names are written as in JSON from the server: maintenanceEvent."""
    tree: dict[str, object] = {}
    for name, value in values.items():
        first, _, rest = name.partition("/")
        key = re.sub(r"-(\w)", lambda found: found[1].upper(), first)
        if rest:
            above = f"{first}/"
            tree[key] = _tree(
                {each.removeprefix(above): one for each, one in values.items() if each.startswith(above)}
            )
        else:
            tree[key] = value
    return tree


def _etag(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
