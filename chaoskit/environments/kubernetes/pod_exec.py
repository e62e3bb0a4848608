"""`execute`: the output of a command in a container of a pod of ours, over a WebSocket."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence

from chaoskit.environments.kubernetes.cluster_error import ClusterError, of_answer, of_failure
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection


def execute(
    connection: ClusterConnection, target: ApiTarget, container: str, command: Sequence[str], *, most: int, limit: float
) -> bytes:
    """What the command writes to its standard output, `most` bytes at most, within `limit` seconds. Raises ClusterError
    if it writes more, takes longer or fails."""
    what, server = f"run {command[0]} in {target} in {target.namespace}", connection.address.server
    rule = ApiTarget(target.kind, target.namespace, target.name, "exec").rule("create")
    official = importlib.import_module("kubernetes.client")
    streams = importlib.import_module("kubernetes.stream")
    client = official.ApiClient(configuration=connection.address.client.configuration)  # `stream` changes its client
    client.default_headers.update(connection.address.client.default_headers)
    try:
        web = streams.stream(
            official.CoreV1Api(client).connect_get_namespaced_pod_exec, target.name, target.namespace,
            container=container, command=list(command), stdin=False, stdout=True, stderr=True, tty=False, binary=True,
            _preload_content=False,
        )  # fmt: skip
    except official.ApiException as error:
        if "403" in str(error.reason):
            why = f'cannot create resource "pods/exec" ({error.reason})'
            raise of_answer(what, 403, why, rule=rule) from error
        raise of_failure(what, server, error) from error
    said, told = bytearray(), bytearray()
    deadline = time.monotonic() + limit
    try:
        while web.is_open():
            web.update(timeout=1)
            said += web.read_stdout(timeout=0)
            told += web.read_stderr(timeout=0)
            if len(said) > most:
                raise ClusterError(f"cannot {what}: it has written more than {most} bytes")
            if time.monotonic() > deadline:
                raise ClusterError(f"cannot {what}: it takes longer than {limit:g} s")
        said += web.read_stdout(timeout=0)
        if web.returncode != 0:
            raise ClusterError(f"cannot {what}: {' '.join(told.decode(errors='replace').split())}")
    finally:
        web.close()
    return bytes(said)
