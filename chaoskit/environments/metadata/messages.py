"""`MetadataRequest` and `MetadataAnswer`: what a job asks of a metadata service, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

#: A proxy adds it. Each of the clouds refuses such a request, lest somebody outside be answered.
FORWARDED = "x-forwarded-for"


@dataclass(frozen=True)
class MetadataRequest:
    """One request. The names of `headers` are in lower case; `query` has the first value of each name."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def of(cls, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> MetadataRequest:
        """The request for a target as the first line of HTTP has it: `/path?name=value`."""
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return cls(method, parts.path, query, {name.lower(): value for name, value in headers.items()}, body)


@dataclass(frozen=True)
class MetadataAnswer:
    """One answer. `notice`: it tells of a notice that stands. `hops`: the time to live of its packets, None for the
    machine's own."""

    status: int
    text: str = ""
    kind: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)
    hops: int | None = None
    notice: bool = False


class MetadataService(Protocol):
    """What answers at the address of one node. `answer` is called by several threads, and may wait for a change."""

    def answer(self, request: MetadataRequest) -> MetadataAnswer: ...
