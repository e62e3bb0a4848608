"""Requests as a job sends them."""

from __future__ import annotations

from chaoskit.environments.metadata.messages import MetadataAnswer, MetadataRequest, MetadataService


def ask(service: MetadataService, method: str, target: str, body: bytes = b"", **headers: str) -> MetadataAnswer:
    """The answer; `_` in the name of a header stands for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.answer(MetadataRequest.of(method, target, named, body))
