"""What a test expects of a request that is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from kubernetes.client.exceptions import ApiException


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
