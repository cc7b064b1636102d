"""From HTTP to the operations: keys, limits, bodies, faults, errors, the journal."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from receiver.core.clock import Clock
from receiver.core.log_lines import event_log
from receiver.service.emulator.account.charges import affordable, require_credits
from receiver.service.emulator.account.idempotency import HEADER, IdempotencyKeys
from receiver.service.emulator.account.keys import OPEN_TEAM, ApiKeys
from receiver.service.emulator.account.rates import RateLimits
from receiver.service.emulator.address import PublicAddress
from receiver.service.emulator.admin.faults import InjectedFaults
from receiver.service.emulator.admin.journal import Journal
from receiver.service.emulator.api.callers import is_foreign_page
from receiver.service.emulator.api.calls import Answer, ApiCall, ApiOperation, UploadedFile
from receiver.service.emulator.api.reading import is_multipart, read_bytes, read_json, read_upload
from receiver.service.emulator.api.replies import (
    OPEN_TO_BROWSERS,
    PREFLIGHT,
    failure_body,
    refusal_body,
    reply,
    unknown_error_body,
)
from receiver.service.emulator.api.routes import FoundOperation, RouteTable
from receiver.service.emulator.contracts import Account
from receiver.service.emulator.failures import CallRefused, ScrapeFailed, TooManyAtOnce
from receiver.service.emulator.ids import IdSource
from receiver.service.emulator.wire.json_bodies import without_nulls
from receiver.signals.traces.switch import answer_span

log = event_log(__name__)
Json = dict[str, Any]

_STARTS = frozenset({"/v1/crawl", "/v2/crawl", "/v1/batch/scrape", "/v2/batch/scrape"})
"""The operations that take an idempotency key, with POST."""
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_NO_FOREIGN_PAGES = "Pages of other hosts may call only where a key is needed: start the emulator with --key"
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_HELLO = {"message": "An emulator of the service answers here; the API is below /v1 and /v2", "success": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallGate:
    """What every call passes before its operation."""

    keys: ApiKeys
    """Who may call."""
    rates: RateLimits
    """How often."""
    account: Account
    """The credits that are left."""
    idempotency: IdempotencyKeys
    """The keys of starts that were used."""
    faults: InjectedFaults
    """The faults that were asked for."""
    journal: Journal
    """Where calls are noted."""
    clock: Clock
    """The emulator's clock."""
    ids: IdSource
    """Names faults of ours."""
    address: PublicAddress
    """Is told how callers write the emulator's address."""


@dataclass(slots=True)
class _CallNotes:
    """What the journal will say."""

    team: str | None = None
    """Who called; None before that is known."""
    body: Json = field(default_factory=dict)
    """What was sent."""
    answer: Json = field(default_factory=dict)
    """What is answered."""
    faked: bool = False
    """Whether a fault was asked for."""
    route: str = "/"
    """The path of the operation, with placeholders for ids; `/` if there is none."""


class Dispatcher:
    """An ASGI app for HTTP that answers every request in JSON, whatever happens."""

    def __init__(self, routes: RouteTable, gate: CallGate) -> None:
        self._routes = routes
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. A client that goes away gets no answer."""
        request = HttpRequest(scope, receive)
        begun = time.perf_counter()
        notes = _CallNotes()
        try:
            with answer_span(request.method, request.headers) as span:
                response = await self._respond(request, notes)
                if span is not None:
                    span.note_status(response.status_code)
                    span.note_route(notes.route)
        except ClientDisconnect:
            return
        seconds = time.perf_counter() - begun
        response.headers.update(OPEN_TO_BROWSERS)
        response.headers["X-Response-Time"] = f"{seconds * 1000:.3f}ms"
        if request.method != "OPTIONS":
            self._note(request, response, notes, seconds)
        await response(scope, receive, send)

    def _note(self, request: HttpRequest, response: Response, notes: _CallNotes, seconds: float) -> None:
        query = request.scope["query_string"].decode("latin-1")
        self._gate.journal.add(
            at=self._gate.clock.now(),
            method=request.method,
            path=f"{_path(request)}?{query}" if query else _path(request),
            status=response.status_code,
            team=notes.team,
            body=notes.body,
            answer=notes.answer,
            seconds=seconds,
            faked=notes.faked,
        )

    async def _respond(self, request: HttpRequest, notes: _CallNotes) -> Response:
        if self._gate.keys.anyone_passes and is_foreign_page(request):
            return await reply(refusal_body(CallRefused(403, _NO_FOREIGN_PAGES)), 403)
        if request.method == "OPTIONS":
            asked = request.headers.get("access-control-request-headers", "*")
            return Response(status_code=204, headers={**PREFLIGHT, "Access-Control-Allow-Headers": asked})
        headers: Mapping[str, str] = {}
        try:
            answer = await self._answer(request, notes)
            body, status, headers = answer.body, answer.status, answer.headers
        except CallRefused as exc:
            body, status, headers = refusal_body(exc), exc.status, exc.headers
        except TooManyAtOnce as exc:
            refused = exc.refusal()
            body, status, headers = refusal_body(refused), refused.status, refused.headers
        except ScrapeFailed as exc:
            body, status = failure_body(exc), exc.status
        except ClientDisconnect:
            raise
        except TimeoutError:
            body, status = refusal_body(CallRefused(408, "The request body did not come in time")), 408
        except Exception as exc:
            identity = self._gate.ids.new()
            log.error("emulated_call_failed", extra={"id": identity, "path": _path(request)}, exc_info=exc)
            body, status = unknown_error_body(identity), 500
        notes.answer = body
        return await reply(body, status, headers)

    async def _answer(self, request: HttpRequest, notes: _CallNotes) -> Answer:
        path = _path(request)
        if path == "/" and request.method in ("GET", "HEAD"):
            return Answer(_HELLO)
        found = self._routes.find("GET" if request.method == "HEAD" else request.method, path)
        operation = _require(found, request)
        notes.route = operation.path
        team = OPEN_TEAM
        if operation.needs_key:
            notes.team = team = self._gate.keys.team_of(request.headers.get("authorization"))
        fault = self._gate.faults.take(operation.method, operation.path, operation.limit)
        if fault is not None:
            notes.faked = True
            raise fault.refusal()
        self._gate.rates.count(team, operation.limit)
        call = await self._call(request, operation, found.path, team, notes)
        return await self._handle(operation, call)

    async def _call(
        self,
        request: HttpRequest,
        operation: ApiOperation,
        parameters: Mapping[str, str],
        team: str,
        notes: _CallNotes,
    ) -> ApiCall:
        """Return the call with its body, for which the team has the credits."""
        sent, files = await _body(request, operation)
        notes.body = body = without_nulls(sent)
        remaining = await self._gate.account.remaining(team)
        if operation.method == "POST":
            require_credits(operation.path, body, remaining)
            body = affordable(operation.path, body, remaining)
        self._gate.address.url = base_url = _base_url(request)
        return ApiCall(
            version=1 if operation.path.startswith("/v1/") else 2,
            team=team,
            path=parameters,
            query=dict(request.query_params),
            headers=dict(request.headers),
            body=body,
            nulls=frozenset(key for key, value in sent.items() if value is None),
            files=files,
            base_url=base_url,
        )

    async def _handle(self, operation: ApiOperation, call: ApiCall) -> Answer:
        """Let the operation answer. An idempotency key counts as used only if something was started."""
        key = call.headers.get(HEADER)
        if key is None or operation.method != "POST" or operation.path not in _STARTS:
            return await operation.handle(call)
        await self._gate.idempotency.use(call.team, key)
        try:
            return await operation.handle(call)
        except BaseException:
            await self._gate.idempotency.give_back(call.team, key)
            raise


def _require(found: FoundOperation, request: HttpRequest) -> ApiOperation:
    if found.operation is not None:
        return found.operation
    if found.methods:
        allowed = ", ".join(found.methods)
        text = f"{_path(request)} does not have {request.method}, it has {allowed}"
        raise CallRefused(405, text, headers={"Allow": allowed})
    raise CallRefused(404, f"There is no operation {request.method} {_path(request)}")


async def _body(request: HttpRequest, operation: ApiOperation) -> tuple[Json, Mapping[str, UploadedFile]]:
    if operation.method not in _WITH_BODY:
        return {}, {}
    if operation.takes == "bytes":
        return {}, {"": await read_bytes(request)}
    if is_multipart(request) and operation.takes == "form":
        return await read_upload(request)
    return await read_json(request), {}


def _base_url(request: HttpRequest) -> str:
    """Return scheme and host as the caller wrote them; a proxy in front tells the scheme."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    scheme = forwarded if forwarded in ("http", "https") else request.scope["scheme"]
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        name, port = request.scope.get("server") or ("127.0.0.1", None)
        host = name if port is None else f"{name}:{port}"
    return f"{scheme}://{host}"


def _path(request: HttpRequest) -> str:
    return str(request.scope["path"])
