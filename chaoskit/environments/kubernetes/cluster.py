"""`connection_to`: the connection to the cluster of a job, behind all guards; and the address of this process there."""

from __future__ import annotations

import os
import socket
from functools import cache
from urllib.parse import urlsplit

from chaoskit.environments.kubernetes import guards, kubeconfig
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace


def connection_to(place: ClusterPlace) -> ClusterConnection:
    """The connection of this process to a cluster, made once. Raises UsageError for a context or a namespace that
    cannot or must not be used."""
    guards.check_allowed_namespace(place.namespace, [place.namespace])
    return _connect(place.context, place.kubeconfig, place.i_mean)


@cache
def _connect(context: str, file: str, i_mean: str) -> ClusterConnection:
    address = kubeconfig.of_context(context, file=file or None) if context else kubeconfig.in_cluster()
    guards.check_not_production(address, i_mean=i_mean or None)
    return ClusterConnection(address)


def own_address(place: ClusterPlace, connection: ClusterConnection) -> str:
    """The address at which the pods of the cluster reach this process. Raises UsageError if that is not known."""
    found = place.address or os.environ.get("POD_IP", "")
    if not found:
        server = urlsplit(connection.address.server)
        port = server.port or 443
        try:
            family, kind, _, _, target = socket.getaddrinfo(server.hostname, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as asked:
                asked.connect(target)  # sends nothing: the kernel chooses the way, and with it our address
                found = str(asked.getsockname()[0])
        except OSError as error:
            what = f"cannot find the address at which pods reach chaoskit ({error}): give --address"
            raise UsageError(what) from error
    if found.startswith("127.") or found in ("::1", "localhost"):
        raise UsageError(
            f"pods cannot reach chaoskit at {found}: give --address with an address of this machine that they reach, "
            "or run chaoskit in a pod"
        )
    return found
