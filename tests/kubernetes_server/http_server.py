"""HTTP: connections that stay, answers in one piece, streams in chunks, and a server that can be away for a while."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.kubernetes_server.api import Answer
from tests.kubernetes_server.pod_streams import PROTOCOLS
from tests.kubernetes_server.websocket import WebSocket, accept_key

Json = dict[str, Any]
Respond = Callable[["Handler"], Answer]


class Handler(BaseHTTPRequestHandler):
    """One connection of a client. `respond` is set by the server that owns it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    respond: Respond
    connections: set[socket.socket]
    body = b""

    def setup(self) -> None:
        super().setup()
        self.connections.add(self.connection)

    def finish(self) -> None:
        self.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: whoever wants to know reads the calls."""

    def is_left(self) -> bool:
        """Whether the client has gone, or has sent what nobody reads before the end of a stream."""
        return bool(select.select([self.connection], [], [], 0)[0])

    def _respond(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.respond()
        try:
            if answer.upgrade is not None:
                self._upgrade(answer.upgrade)
            elif answer.events is None:
                self._send(answer)
            else:
                self._stream(answer, answer.events)
        finally:
            if isinstance(answer.events, Generator):
                answer.events.close()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _respond

    def _head(self, answer: Answer, *headers: tuple[str, str]) -> bytes:
        lines = [f"HTTP/1.1 {answer.code} {responses.get(answer.code, 'Unknown')}"]
        lines += [f"{name}: {value}" for name, value in (*headers, *answer.headers)]
        return "\r\n".join([*lines, "", ""]).encode()

    def _send(self, answer: Answer) -> None:
        text = isinstance(answer.body, str)
        body = (answer.body if text else json.dumps(answer.body)).encode()
        kind = "text/plain; charset=utf-8" if text else answer.media_type
        head = self._head(answer, ("Content-Type", kind), ("Content-Length", str(len(body))))
        self.wfile.write(head + body)

    def _upgrade(self, talk: Callable[[WebSocket], None]) -> None:
        offered = [one.strip() for one in self.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        protocol = next((one for one in PROTOCOLS if one in offered), None)
        if protocol is None:
            self._send(Answer(403, "unable to upgrade: no supported protocol\n"))
            return
        headers = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Protocol", protocol)]
        headers.append(("Sec-WebSocket-Accept", accept_key(self.headers["Sec-WebSocket-Key"])))
        self.wfile.write(self._head(Answer(101), *headers))
        self.close_connection = True
        talk(WebSocket(self.connection, self.rfile, protocol))

    def _stream(self, answer: Answer, events: Iterator[Json | bytes | None]) -> None:
        head = self._head(answer, ("Content-Type", answer.media_type), ("Transfer-Encoding", "chunked"))
        self.wfile.write(head)
        for event in events:
            if event is None:
                if self.is_left():
                    break
                continue
            line = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes in the middle is nothing to report; what else goes wrong is."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class HttpServer:
    """Listens on a port of 127.0.0.1 that stays the same, whether it is there or away."""

    def __init__(self, respond: Respond) -> None:
        self._connections: set[socket.socket] = set()
        names = {"respond": respond, "connections": self._connections}
        self._handler = type("BoundHandler", (Handler,), names)
        self._listener: _Listener | None = None
        self._held: socket.socket | None = None
        self._secure: _Listener | None = None
        self.port = 0

    def start(self) -> None:
        """Listen, again on the port of the first time."""
        if self._held is not None:
            self._held.close()
            self._held = None
        self._listener = _Listener(("127.0.0.1", self.port), self._handler)
        self.port = self._listener.server_address[1]
        serve = self._listener.serve_forever
        threading.Thread(target=serve, kwargs={"poll_interval": 0.02}, daemon=True, name="api-server").start()

    def listen_with_tls(self, address: str, certificate: Path, key: Path) -> int:
        """Listen at another address, too, until the end; returns the port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._secure = _Listener((address, 0), self._handler)
        # The thread of each connection shakes hands: a slow client keeps nobody waiting.
        self._secure.socket = context.wrap_socket(
            self._secure.socket, server_side=True, do_handshake_on_connect=False
        )
        serve = self._secure.serve_forever
        threading.Thread(target=serve, kwargs={"poll_interval": 0.02}, daemon=True, name="api-server-tls").start()
        return int(self._secure.server_address[1])

    def stop(self, *, comes_back: bool = False) -> None:
        """Refuse connections and cut those that are there; the port stays ours where it comes back."""
        if self._listener is None:
            return
        self._listener.shutdown()
        self._listener.server_close()
        self._listener = None
        if self._secure is not None and not comes_back:
            self._secure.shutdown()
            self._secure.server_close()
            self._secure = None
        if comes_back:
            self._held = socket.socket()
            self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._held.bind(("127.0.0.1", self.port))  # bound and not listening: who connects is refused
        self._cut_connections()

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    def _cut_connections(self) -> None:
        """In the middle of whatever they carry."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
