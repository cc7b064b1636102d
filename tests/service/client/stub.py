"""A service on a real socket that answers with scripted bytes, for faults of real connections."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[["Connection"], None]


class Connection:
    """One request, and the means to answer it badly."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.handler = handler
        self.method = handler.command
        self.path = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        is_form = self.headers.get("content-type", "").startswith("multipart/")  # with a file
        self.body: Any = json.loads(body) if body and not is_form else None

    def answer(self, status: int, content: Any) -> None:
        """Answer correctly, with JSON."""
        self.send(status, json.dumps(content).encode())

    def send(self, status: int, body: bytes, *, promised: int | None = None, **headers: str) -> None:
        """Answer with these bytes, promising another length if given."""
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.send_header("Content-Length", str(len(body) if promised is None else promised))
        self.handler.end_headers()
        self.write(body)
        if promised is not None:
            self.handler.close_connection = True

    def write(self, chunk: bytes) -> None:
        """Send bytes now."""
        self.handler.wfile.write(chunk)
        self.handler.wfile.flush()

    def reset(self) -> None:
        """Reset the connection, as a crashed peer does."""
        linger = struct.pack("ii", 1, 0)
        self.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.handler.close_connection = True
        self.handler.connection.shutdown(socket.SHUT_RD)
        self.handler.connection.close()


class Stub:
    """The requests to the server, and its address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connections: list[Connection] = []


@contextmanager
def serving(*scripts: Script) -> Iterator[Stub]:
    """Serve each request by the next script, the last one again and again."""
    left = list(scripts)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65_536  # head and body go out together

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = Connection(self, body)
            with lock:
                stub.connections.append(connection)
                script = left.pop(0) if len(left) > 1 else left[0]
            script(connection)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_one  # noqa: N815 - the base class names them

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

        def finish(self) -> None:
            """Close; the socket of a connection that was reset ends with the last of its files."""
            with suppress(OSError):
                super().finish()
            self.rfile.close()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    stub = Stub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
