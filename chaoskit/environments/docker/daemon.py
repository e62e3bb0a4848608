"""`Daemon`: the connection to the Docker daemon, and what its errors mean to a person.

The official SDK is imported when the first connection is made: chaoskit works without it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from chaoskit.errors import ChaoskitError, UsageError

#: Seconds for one request. The daemon of a busy machine may take long to start or to remove a container.
_LIMIT = 120
_NO_SPACE = ("no space left on device", "disk quota exceeded")


class DaemonError(ChaoskitError):
    """The daemon refused a request, or is gone. `status` is that of HTTP, 0 if it did not answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Daemon:
    """One connection; `client` is the SDK's low-level client. Raises UsageError, with the remedy, if no daemon can be
    used."""

    def __init__(self) -> None:
        try:
            docker = importlib.import_module("docker")
        except ImportError as error:
            raise UsageError("the Docker SDK is not installed: pip install 'chaoskit[docker]'") from error
        address = os.environ.get("DOCKER_HOST", "")
        if address.startswith(("tcp://", "ssh://", "http")):
            raise UsageError(
                f"DOCKER_HOST is {address}: the daemon must be one of this machine, which sees its files; unset it, or "
                "run chaoskit there"
            )
        try:
            self.client: Any = docker.APIClient(version="auto", timeout=_LIMIT, **docker.utils.kwargs_from_env())
            self.version = str(self.client.version()["Version"])
        except Exception as error:
            raise UsageError(_why_unreachable(error)) from error

    @contextmanager
    def doing(self, what: str) -> Iterator[Any]:
        """The client, for a request that does `what`; its failures become DaemonError with one sentence."""
        errors = importlib.import_module("docker.errors")
        transport = importlib.import_module("requests.exceptions")
        try:
            yield self.client
        except errors.APIError as error:
            said = explained(str(error.explanation or error))
            raise DaemonError(f"cannot {what}: {said}", status=int(error.status_code or 0)) from error
        except (errors.DockerException, transport.RequestException, OSError) as error:
            raise DaemonError(
                f"cannot {what}: the Docker daemon has gone ({type(error).__name__}): start it and run this again; "
                "chaoskit clean removes what is left"
            ) from error

    def close(self) -> None:
        """Close the connection."""
        self.client.close()


def explained(said: str) -> str:
    """An error of the daemon as one line, with the remedy where there is one."""
    if any(words in said.lower() for words in _NO_SPACE):
        return "the disk of the Docker daemon is full: docker system prune frees what nobody uses"
    return " ".join(said.split())


@cache
def shared_daemon() -> Daemon:
    """The one connection of this process."""
    return Daemon()


def why_not() -> str | None:
    """None if a daemon can be used, else the reason and the remedy."""
    try:
        Daemon().close()
    except UsageError as error:
        return str(error)
    return None


def _why_unreachable(error: Exception) -> str:
    """One sentence for a daemon that cannot be reached; the SDK wraps the cause in several others."""
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PermissionError) or "Permission denied" in str(cause):
            return (
                f"this user may not use the Docker socket ({address}): sudo usermod -aG docker $USER; log in again"
            )
        cause = cause.__cause__ or cause.__context__
    return f"no Docker daemon answers at {address}: start it (sudo systemctl start docker), or set DOCKER_HOST"
