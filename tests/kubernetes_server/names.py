"""The names of pods: what the DNS of a cluster answers, from the headless services and the pods that there are."""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any

from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.job_pods import is_ready
from tests.kubernetes_server.pod_status import ENDED

Json = dict[str, Any]
DOMAIN = "svc.cluster.local"
A = 1
NO_ERROR, NO_SUCH_NAME = 0x8580, 0x8583  # answers of an authority that recurses, too


class Names:
    """The names of all pods of a server."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def addresses(self, name: str) -> list[str]:
        """The addresses of a headless service, or of one pod of it; none where nobody has the name."""
        labels = name.lower().rstrip(".").removesuffix(f".{DOMAIN}").split(".")
        if not name.lower().rstrip(".").endswith(f".{DOMAIN}") or len(labels) not in (2, 3):
            return []
        namespace, service_name = labels[-1], labels[-2]
        service = self._plane.get("services", namespace, service_name)
        if service is None or service["spec"].get("clusterIP") != "None":
            return []
        pods = [pod for pod in self._plane.all("pods", namespace) if _is_endpoint(pod, service)]
        if len(labels) == 3:
            pods = [pod for pod in pods if is_called(pod, labels[0], service_name)]
        return [pod["status"]["podIP"] for pod in pods]

    def aliases(self, pod: Json) -> list[str]:
        """The names that a pod will have by the services that are there, where no DNS can look them up later."""
        metadata, found = pod["metadata"], []
        for service in self._plane.all("services", metadata["namespace"]):
            name = service["metadata"]["name"]
            if service["spec"].get("clusterIP") == "None" and _is_selected(pod, service):
                found.append(f"{name}.{metadata['namespace']}.{DOMAIN}")
                if is_called(pod, hostname := pod["spec"].get("hostname", ""), name):
                    found.append(f"{hostname}.{found[-1]}")
        return found


class NameServer:
    """Answers at an address of this machine, on the port of DNS. Raises OSError where it may not listen there."""

    def __init__(self, names: Names, address: str) -> None:
        self.address = address
        self._names = names
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((address, 53))
        except OSError:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._serve, name="kubelet-names", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
            ours.sendto(b"", (self.address, 53))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            asked, asker = self._socket.recvfrom(512)
            if not asked:
                return
            self._socket.sendto(answer(asked, self._names), asker)


def answer(asked: bytes, names: Names) -> bytes:
    """The answer to a query with one question."""
    parts, at = [], 12
    while length := asked[at]:
        parts.append(asked[at + 1 : at + 1 + length].decode("ascii", "replace"))
        at += 1 + length
    (kind,) = struct.unpack_from("!H", asked, at + 1)
    found = names.addresses(".".join(parts))
    shown = found if kind == A else []
    (number,), code = struct.unpack_from("!H", asked), NO_ERROR if found else NO_SUCH_NAME
    head = struct.pack("!6H", number, code, 1, len(shown), 0, 0)
    records = [struct.pack("!HHHIH", 0xC00C, A, 1, 0, 4) + socket.inet_aton(address) for address in shown]
    return b"".join([head, asked[12 : at + 5], *records])


def is_called(pod: Json, hostname: str, service: str) -> bool:
    """Whether a pod has this name within a service."""
    spec = pod["spec"]
    return bool(hostname) and (spec.get("hostname"), spec.get("subdomain")) == (hostname, service)


def _is_selected(pod: Json, service: Json) -> bool:
    labels, selector = pod["metadata"].get("labels") or {}, service["spec"].get("selector")
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _is_endpoint(pod: Json, service: Json) -> bool:
    """Whether a service leads to a pod: only to ready ones, unless it publishes the others, too."""
    status = pod.get("status") or {}
    if not status.get("podIP") or status.get("phase") in ENDED or not _is_selected(pod, service):
        return False
    return bool(service["spec"].get("publishNotReadyAddresses")) or is_ready(pod)
