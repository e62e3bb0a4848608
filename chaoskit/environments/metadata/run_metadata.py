"""`RunMetadata`: the metadata services of one run, one for each node, and what the job has asked of them."""

from __future__ import annotations

import queue
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chaoskit.capabilities import METADATA_CLOUDS
from chaoskit.environments.environment import ExtraEvent
from chaoskit.environments.metadata.asker import rank_of
from chaoskit.environments.metadata.aws_metadata import AwsMetadata
from chaoskit.environments.metadata.azure_metadata import AzureMetadata
from chaoskit.environments.metadata.gcp_metadata import NAMES, GcpMetadata
from chaoskit.environments.metadata.messages import MetadataService
from chaoskit.environments.metadata.metadata_server import ADDRESS, MetadataServer
from chaoskit.environments.metadata.notice_board import NoticeBoard
from chaoskit.environments.records.ranks import Rank
from chaoskit.errors import UsageError


class RunMetadata:
    """The services of `cloud`; with `imdsv1`, that of AWS answers requests without a token too. `line_of` gives
    the pid of the job's process with a connection from a port of a node, and those above it, and `ranks` are those of
    the current launch: they say who has asked. It is called by several threads. Raises UsageError for a cloud
    that has none."""

    def __init__(
        self,
        cloud: str,
        *,
        imdsv1: bool = False,
        line_of: Callable[[str, int], Sequence[int]],
        ranks: Callable[[], Mapping[int, Rank]],
    ) -> None:
        if cloud not in METADATA_CLOUDS:
            raise UsageError(f"metadata: there is no cloud {cloud!r}: choose {', '.join(METADATA_CLOUDS)}")
        self.cloud = cloud
        self._imdsv1 = imdsv1
        self._line_of = line_of
        self._ranks = ranks
        self._boards: dict[str, NoticeBoard] = {}
        self._servers: dict[str, MetadataServer] = {}
        self._asked: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._heard: list[Mapping[str, Any]] = []

    def serve(self, node: str, listener: socket.socket) -> tuple[str, int]:
        """Answer for a node at `listener`, which belongs to this object from now on; returns the address."""
        self.leave(node)
        board = self._boards[node] = NoticeBoard()
        server = self._servers[node] = MetadataServer(
            listener, self._service(board, node), asker=lambda port: self._who(node, port), note=self._note
        )
        return server.address

    def board(self, node: str) -> NoticeBoard:
        """Where notice is given to that node. Raises LookupError if nothing answers there."""
        if node not in self._boards:
            raise LookupError(f"no metadata service answers on {node}")
        return self._boards[node]

    def leave(self, node: str) -> None:
        """Answer for that node no more."""
        if node in self._servers:
            self._boards[node].close()
            self._servers[node].close()

    def close(self) -> None:
        """Answer no more; may be called again."""
        for node in self._servers:
            self.leave(node)

    def asked(self) -> list[ExtraEvent]:
        """What was asked since the last call, for the record: events `metadata`."""
        found = []
        while True:
            try:
                found.append(ExtraEvent("metadata", {"cloud": self.cloud, **self._asked.get_nowait()}))
            except queue.Empty:
                return found

    def heard(self, node: str, since: float) -> list[Mapping[str, Any]]:
        """What was asked of a node's service and answered since then, by the monotonic clock."""
        return [each for each in [*self._heard] if each["node"] == node and each["answered"] >= since]

    def _note(self, told: Mapping[str, Any]) -> None:
        self._heard.append(told)
        self._asked.put(told)

    def _service(self, board: NoticeBoard, node: str) -> MetadataService:
        if self.cloud == "aws":
            return AwsMetadata(board, node=node, v1=self._imdsv1)
        return GcpMetadata(board, node=node) if self.cloud == "gcp" else AzureMetadata(board, node=node)

    def _who(self, node: str, port: int) -> dict[str, Any]:
        line = self._line_of(node, port)
        rank = rank_of(line, self._ranks().values(), node=node) if line else None
        return {"node": node, "pid": line[0] if line else None, "rank": rank}


def known_names(metadata: RunMetadata | None) -> list[str]:
    """The lines of an /etc/hosts by which a job finds the service at the address of clouds: Google's has a name."""
    is_google = metadata is not None and metadata.cloud == "gcp"
    return [f"{ADDRESS} {' '.join(NAMES)}\n"] if is_google else []
