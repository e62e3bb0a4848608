"""What a pod needs to reach the API server as its service account: an address, a certificate, a token.

A pod gets it if it says `automountServiceAccountToken: true`. On a real cluster it does, too, if it says nothing.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes_server.server import KubernetesServer

Json = dict[str, Any]
PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True)
class PodAccess:
    """The files of one pod, and where the server is for it."""

    directory: Path
    variables: Json

    @property
    def mount(self) -> Json:
        """As Docker takes it."""
        return {"Type": "bind", "Source": str(self.directory), "Target": PLACE, "ReadOnly": True}


class ServiceAccounts:
    """Gives pods their access. The server listens with TLS at `address`, once somebody needs it."""

    def __init__(self, server: KubernetesServer, directory: Path, address: str) -> None:
        self._server, self._directory, self._address = server, directory, address
        self._port = 0

    def of(self, pod: Json) -> PodAccess | None:
        """The access of a pod; None for one that asks for none."""
        if pod["spec"].get("automountServiceAccountToken") is not True:
            return None
        if not self._port:
            self._listen()
        namespace, account = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"
        name = f"system:serviceaccount:{namespace}:{account}"
        self._server.add_user(name, "system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        place = self._directory / pod["metadata"]["uid"]
        place.mkdir(parents=True, exist_ok=True)
        (place / "token").write_text(name)
        (place / "namespace").write_text(namespace)
        (place / "ca.crt").write_bytes(self._certificate.read_bytes())
        variables = {"KUBERNETES_SERVICE_HOST": self._address, "KUBERNETES_SERVICE_PORT": str(self._port)}
        return PodAccess(place, variables)

    @property
    def _certificate(self) -> Path:
        return self._directory / "server.crt"

    def _listen(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        key = self._directory / "server.key"
        words = [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kubernetes",
            "-addext", f"subjectAltName=IP:{self._address}", "-keyout", str(key), "-out", str(self._certificate),
        ]  # fmt: skip
        subprocess.run(words, check=True, capture_output=True)
        self._port = self._server.listen_with_tls(self._address, self._certificate, key)
