"""What a pod finds of its service account: a token, the authority of the API server, and where that server is.

The API server of the tests speaks plain HTTP, on this machine alone. Pods reach it as they expect: by HTTPS, at an
address of their own network.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.kubernetes_server.calls import User
from tests.kubernetes_server.server import KubernetesServer

Json = dict[str, Any]
PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"
_PIECE = 65536


class ServiceAccounts:
    """Gives pods the tokens of their accounts. Its door is opened for the first of them, at `address`."""

    def __init__(self, server: KubernetesServer, directory: Path, address: str) -> None:
        self._server, self._directory, self._address = server, directory, address
        self._lock = threading.Lock()
        self._door: TlsDoor | None = None

    def files(self, pod: Json) -> Path | None:
        """The directory that a pod has at `PLACE`; None for one that wants no token. On this server only pods that ask
        for the token get one."""
        spec, metadata = pod["spec"], pod["metadata"]
        if spec.get("automountServiceAccountToken") is not True:
            return None
        with self._lock:
            if self._door is None:
                target = urlsplit(self._server.address)
                self._door = TlsDoor(self._directory, self._address, (target.hostname or "", target.port or 0))
        name = spec.get("serviceAccountName") or "default"
        namespace, token = metadata["namespace"], f"token-of-{metadata['uid']}"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        users = self._server.api.authorizer.users
        users[token] = User(f"system:serviceaccount:{namespace}:{name}", groups)
        place = self._directory / metadata["uid"]
        place.mkdir(parents=True, exist_ok=True)
        texts = {"token": token, "namespace": namespace, "ca.crt": self._door.certificate.read_text()}
        for file, text in texts.items():
            (place / file).write_text(text)
        return place

    def variables(self) -> dict[str, str]:
        """Where pods find the API server; nothing before the first has asked for a token."""
        if self._door is None:
            return {}
        return {"KUBERNETES_SERVICE_HOST": self._address, "KUBERNETES_SERVICE_PORT": str(self._door.port)}

    def close(self) -> None:
        if self._door is not None:
            self._door.close()


class TlsDoor:
    """Listens with TLS, and hands on what comes to another address. It is its own authority."""

    def __init__(self, directory: Path, address: str, target: tuple[str, int]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate, key = directory / "door.crt", directory / "door.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
             "2", "-subj", "/CN=tests", "-addext", f"subjectAltName=IP:{address}", "-keyout", str(key), "-out",
             str(self.certificate)],
            check=True, capture_output=True,
        )  # fmt: skip
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)
        self._target = target
        self._listener = socket.create_server((address, 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name="tls-door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the door and every connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                came, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(came,), name="tls-door-connection", daemon=True).start()

    def _serve(self, came: socket.socket) -> None:
        ends: list[socket.socket] = [came]
        try:
            came.settimeout(30)
            inside = self._context.wrap_socket(came, server_side=True)
            inside.settimeout(None)
            ends[0] = inside
            ends.append(socket.create_connection(self._target))
            self._open.update(ends)
            back = threading.Thread(target=_pump, args=(ends[1], inside), daemon=True)
            back.start()
            _pump(inside, ends[1])
            back.join()
        except OSError:
            pass  # a client that goes away, or the server of the test
        finally:
            for one in ends:
                self._open.discard(one)
                one.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(_PIECE):
            sink.sendall(part)
    for one in (sink, source):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
