"""A web server for what `send` and `replay --to` post."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Endpoint(ThreadingHTTPServer):
    """A web server that keeps requests and gives one answer. It uses nothing of this package."""

    daemon_threads = False
    status = 200
    content = b'{"status":"accepted"}'
    statuses: Iterator[int] = iter(())
    """The first answers, if they are others."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Keeper)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/webhooks"

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.requests]


class _Keeper(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers, body))
        self.send_response(next(self.server.statuses, self.server.status))
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has in the base class
        pass


@contextmanager
def served() -> Iterator[Endpoint]:
    """Run the server in a thread during the block."""
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
