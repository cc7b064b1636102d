"""The admin API over HTTP, for programs on the same machine alone."""

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from receiver.core.addresses import is_loopback
from receiver.emulator.admin.operations import AdminOperations
from receiver.emulator.api.dispatch import read_json, refusal_body, reply, unknown_error_body
from receiver.emulator.failures import CallRefused
from receiver.emulator.ids import IdSource
from receiver.emulator.wire.bodies import without_nulls
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

PREFIX = "/_emulator"


class AdminEndpoint:
    """An ASGI app for `/_emulator`. It needs no key, so it answers loopback alone, and no page of a browser."""

    def __init__(self, operations: AdminOperations, ids: IdSource) -> None:
        self._table = operations.table()
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await self._respond(HttpRequest(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: HttpRequest) -> Response:
        path, method = str(request.scope["path"]).rstrip("/"), request.method
        try:
            _require_local(request)
            handle = self._table.get(("GET" if method == "HEAD" else method, path))
            if handle is None:
                raise _unknown(method, path, [known for known, place in self._table if place == path])
            body = without_nulls(await read_json(request)) if method == "POST" else {}
            return await reply(await handle(body, dict(request.query_params)))
        except CallRefused as exc:
            return await reply(refusal_body(exc), exc.status, exc.headers)
        except Exception as exc:
            identity = self._ids.new()
            log.error("emulated_call_failed", extra={"id": identity, "path": path}, exc_info=exc)
            return await reply(unknown_error_body(identity), 500)


def _require_local(request: HttpRequest) -> None:
    client = request.client
    if client is None or not is_loopback(client.host):
        raise CallRefused(403, "The admin API answers programs on this machine only")
    # A page of a browser on this machine, also one whose name leads to 127.0.0.1, must not reach it.
    if "origin" in request.headers or not is_loopback(_host_name(request.headers.get("host", ""))):
        raise CallRefused(403, "The admin API answers no browser: call it by http://127.0.0.1 or http://localhost")


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _unknown(method: str, path: str, methods: list[str]) -> CallRefused:
    if methods:
        allowed = ", ".join(sorted(methods))
        return CallRefused(405, f"{path} does not have {method}, it has {allowed}", headers={"Allow": allowed})
    return CallRefused(404, f"There is no operation {method} {path}")
