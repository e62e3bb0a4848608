"""`MetadataServer`: the HTTP server at which a job asks the metadata service of its node.

It is the server of the standard library: it speaks HTTP/1.1, takes a socket that was opened elsewhere (in the network
of a virtual host), and has a thread for each connection, since a request may wait for a change.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from chaoskit.environments.metadata.messages import MetadataAnswer, MetadataRequest, MetadataService

#: The address and the port at which each of the clouds answers.
ADDRESS, PORT = "169.254.169.254", 80
#: Seconds that a connection may be idle, and bytes that a request may have.
_IDLE, _LARGEST = 60.0, 1 << 16
#: The time to live of packets, where nothing else is asked for.
_HOPS = 64

#: Who is at the other end of the connection from this port: what the record says of it.
AskerOf = Callable[[int], Mapping[str, Any]]
#: Called once for each request, by several threads: when by the monotonic clock, who asked, what, and the answer.
Note = Callable[[Mapping[str, Any]], None]


class MetadataServer:
    """Answers at `listener`, which it owns, with what `service` says, until `close`. It tells `note` of each request
    before the answer is sent."""

    def __init__(self, listener: socket.socket, service: MetadataService, *, asker: AskerOf, note: Note) -> None:
        self._server = _Server(listener, service, asker, note)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Where it answers."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def close(self) -> None:
        """Stop answering; may be called again. Nobody may still wait for a change (see `NoticeBoard.close`)."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, service: MetadataService, asker: AskerOf, note: Note) -> None:
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()  # the one that it has made itself
        self.socket = listener
        self.socket.listen(128)
        self.server_address = listener.getsockname()
        self.service, self.asker, self.note = service, asker, note
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, unless who asked has gone away."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        super().server_close()
        for connection in [*self._open]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    timeout = _IDLE

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def _serve(self) -> None:
        begun, server = time.monotonic(), self.server
        who = server.asker(self.client_address[1])
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > _LARGEST:
            self.close_connection = True
            return self._say(MetadataAnswer(400), begun, who)
        body = self.rfile.read(int(length))
        request = MetadataRequest.of(self.command, self.path, dict(self.headers.items()), body)
        self._say(server.service.answer(request), begun, who)

    def _say(self, answer: MetadataAnswer, begun: float, who: Mapping[str, Any]) -> None:
        told = {"at": begun, "answered": time.monotonic(), **who, "method": self.command, "path": self.path}
        self.server.note({**told, "status": answer.status, "text": answer.text, "notice": answer.notice})
        self.connection.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, answer.hops or _HOPS)
        data = answer.text.encode()
        self.send_response_only(answer.status)
        self.send_header("Date", self.date_time_string())
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what was asked is in the record."""
