"""`AwsMetadata`: the instance metadata service of AWS, versions 1 and 2, on a spot instance.

As documented on
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-v2-how-it-works.html (a token by PUT with its
seconds, 400 without them, 401 for a token that is none, 403 for what a proxy passes on, the hop limit of the answer),
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html (`spot/instance-action`, 404
until the notice; `spot/termination-time`), and
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html (the recommendation may arrive with
the notice, and here it does).
"""

from __future__ import annotations

import json
import re
import secrets
import time

from chaoskit.environments.metadata.messages import FORWARDED, MetadataAnswer, MetadataRequest
from chaoskit.environments.metadata.notice_board import NoticeBoard

TOKEN, SECONDS = "x-aws-ec2-metadata-token", "x-aws-ec2-metadata-token-ttl-seconds"
#: A token lives for so many seconds at most.
LONGEST = 21600
_VERSION = re.compile(r"/(?:latest|1\.0|\d{4}-\d\d-\d\d)/")
_ROOT = "meta-data/"
#: They are there only while a notice stands.
_NOTICES = tuple(
    _ROOT + name for name in ("events/recommendations/rebalance", "spot/instance-action", "spot/termination-time")
)


class AwsMetadata:
    """What a spot instance called `node` says. Without `v1`, a request needs a token. The answer to the request for a
    token goes no further than `hops` hops."""

    def __init__(self, board: NoticeBoard, *, node: str, v1: bool = False, hops: int = 1) -> None:
        self._board = board
        self._node = node
        self._v1 = v1
        self._hops = hops
        #: By token: until when it is good, on the monotonic clock.
        self._tokens: dict[str, float] = {}

    def answer(self, request: MetadataRequest) -> MetadataAnswer:
        """See `MetadataService`."""
        found = _VERSION.match(request.path)
        path = request.path[found.end() :] if found else None
        if path == "api/token" and request.method == "PUT":
            return self._token(request)
        if request.method not in ("GET", "HEAD"):
            return MetadataAnswer(405)
        if not self._may_ask(request.headers.get(TOKEN)):
            return MetadataAnswer(401)
        told = None if path is None else self._told(path)
        if told is None:
            return MetadataAnswer(404)
        kind = "application/json" if told.startswith("{") else "text/plain"
        return MetadataAnswer(200, told, kind, notice=path in _NOTICES)

    def _token(self, request: MetadataRequest) -> MetadataAnswer:
        if FORWARDED in request.headers:
            return MetadataAnswer(403)
        seconds = request.headers.get(SECONDS, "")
        if not seconds.isdecimal() or not 1 <= int(seconds) <= LONGEST:
            return MetadataAnswer(400)
        token = secrets.token_urlsafe(40)
        self._tokens[token] = time.monotonic() + int(seconds)
        return MetadataAnswer(200, token, headers={SECONDS: seconds}, hops=self._hops)

    def _may_ask(self, token: str | None) -> bool:
        return self._v1 if token is None else self._tokens.get(token, 0.0) >= time.monotonic()

    def _told(self, path: str) -> str | None:
        """The value of a path, or the names below it; None if there is no such thing."""
        values = self._values()
        if path in values:
            return values[path]
        below = path if path.endswith("/") or not path else f"{path}/"
        names = [name.removeprefix(below) for name in values if name.startswith(below)]
        listed = sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in names})
        return "\n".join(listed) if listed else None

    def _values(self) -> dict[str, str]:
        values = {
            "instance-id": f"i-{self._node.encode().hex():0>17}"[:19],
            "instance-life-cycle": "spot",
            "local-hostname": self._node,
        }
        if (notice := self._board.notice) is not None:
            ends = _written(notice.ends)
            values |= {
                "events/recommendations/rebalance": json.dumps({"noticeTime": _written(notice.given)}),
                "spot/instance-action": json.dumps({"action": "terminate", "time": ends}),
                "spot/termination-time": ends,
            }
        return {_ROOT + name: value for name, value in values.items()}


def _written(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
