"""An API server that answers what a test tells it, one answer after the other: for errors that come at one moment."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.kubeconfig import ClusterAddress

#: An answer that is none: the connection is cut.
CUT = "cut"


@dataclass(frozen=True)
class Scripted:
    """One answer: an object, or a `stream` of events, which is cut in the end if it is not `complete`."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    stream: tuple[Any, ...] | None = None
    complete: bool = True


def status(code: int, reason: str, message: str, **headers: str) -> Scripted:
    """An answer as a real server gives it."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Scripted(code, body, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class Script:
    """The answers that are left, and the requests that came: method, path with query, and body."""

    answers: list[Any] = field(default_factory=list)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    address: str = ""

    def connection(self, *, patience: float = 30.0) -> ClusterConnection:
        """A connection to it, for as long as the script runs. It repeats requests without a pause."""
        from kubernetes.client import ApiClient, Configuration

        settings = Configuration(host=self.address)
        settings.retries = False
        address = ClusterAddress("staging", "ours", self.address, ApiClient(settings))
        made = ClusterConnection(address, patience=patience, pause=lambda seconds: None)
        self._connections.append(made)
        return made

    _connections: list[ClusterConnection] = field(default_factory=list)


@contextmanager
def scripted(*answers: Any) -> Iterator[Script]:
    """Serve these answers; after the last one every connection is cut."""
    script = Script(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.requests.append((self.command, self.path, json.loads(body) if body else None))
            given = script.answers.pop(0) if script.answers else CUT
            given = given(script.requests[-1]) if callable(given) else given
            self.close_connection = True
            if given == CUT:
                return
            self.send_response(given.status)
            for name, value in {**given.headers, "Connection": "close"}.items():
                self.send_header(name, value)
            if given.stream is None:
                content = given.body.encode() if isinstance(given.body, str) else json.dumps(given.body).encode()
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in given.stream:
                line = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            if given.complete:
                self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield script
    finally:
        for connection in script._connections:
            connection.close()
        server.shutdown()
        server.server_close()
        thread.join()
