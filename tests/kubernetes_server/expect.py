"""What tests expect: that a request is refused, and what is in a namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.kubernetes_server.namespaces import ROOT_CERTIFICATE


@contextmanager
def refused(code: int, reason: str, *words: str) -> Iterator[None]:
    """Expect an answer with this status code and reason, and with these words in its message."""
    try:
        yield
    except ApiException as error:
        status = json.loads(error.body)
        assert (error.status, status["reason"]) == (code, reason), status
        assert [word for word in words if word not in status["message"]] == [], status["message"]
    else:
        raise AssertionError(f"expected {code} {reason}, and the request was answered")


def config_maps(core: client.CoreV1Api, namespace: str, **selectors: str) -> set[str]:
    """The names of the config maps that the test made."""
    found = {one.metadata.name for one in core.list_namespaced_config_map(namespace, **selectors).items}
    return found - {ROOT_CERTIFICATE}
