"""From a request to its operation: routes, keys, limits, credits, injected faults, the journal."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from receiver.core.clock import Clock
from receiver.emulator.account.account import RateLimits, affordable, require_credits
from receiver.emulator.account.keys import HEADER, OPEN_TEAM, ApiKeys, IdempotencyKeys
from receiver.emulator.api.calls import (
    OPEN_TO_BROWSERS,
    Answer,
    ApiCall,
    ApiOperation,
    Json,
    UploadedFile,
    failure_body,
    is_foreign_page,
    read_bytes,
    read_json,
    read_upload,
    refusal_body,
    reply,
    reply_refusal,
    unknown_error_body,
    unknown_operation,
)
from receiver.emulator.api.faults import InjectedFaults
from receiver.emulator.api.journal import Journal
from receiver.emulator.contracts import Account, PublicAddress
from receiver.emulator.failures import CallRefused, ScrapeFailed, TooManyAtOnce
from receiver.emulator.ids import IdSource
from receiver.emulator.wire.bodies import without_nulls
from receiver.runtime.log_lines import event_log
from receiver.signals.traces.switch import answer_span

log = event_log(__name__)

_PREFLIGHT = {
    **OPEN_TO_BROWSERS,
    "Access-Control-Allow-Methods": "GET,HEAD,PUT,PATCH,POST,DELETE",
    "Access-Control-Max-Age": "600",
}
_STARTS = frozenset({"/v1/crawl", "/v2/crawl", "/v1/batch/scrape", "/v2/batch/scrape"})
"""The operations that take an idempotency key, with POST."""
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_NO_FOREIGN_PAGES = "Pages of other hosts may call only where a key is needed: start the emulator with --key"
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_HELLO = {"message": "An emulator of the service answers here; the API is below /v1 and /v2", "success": True}


@dataclass(frozen=True, slots=True)
class FoundOperation:
    """What a path leads to."""

    operation: ApiOperation | None
    """None if the path does not have this method, or is unknown."""
    path: Mapping[str, str]
    """The parameters of the path."""
    methods: tuple[str, ...]
    """The methods of the path; empty for an unknown one."""


class RouteTable:
    """All operations. Of two paths that fit, the one with more fixed segments wins, as `/crawl/active` does."""

    def __init__(self, operations: Iterable[ApiOperation]) -> None:
        self._paths: dict[tuple[str, ...], dict[str, ApiOperation]] = {}
        for operation in operations:
            methods = self._paths.setdefault(_segments(operation.path), {})
            if operation.method in methods:
                raise ValueError(f"{operation.method} {operation.path} is given twice")
            methods[operation.method] = operation

    def find(self, method: str, path: str) -> FoundOperation:
        """Return what a request is for. A slash at the end of the path does not matter."""
        segments = _segments(path)
        fitting = [template for template in self._paths if _fits(template, segments)]
        if not fitting:
            return FoundOperation(None, {}, ())
        template = min(fitting, key=lambda one: sum(map(_is_parameter, one)))
        methods = self._paths[template]
        values = {name[1:-1]: value for name, value in zip(template, segments, strict=True) if _is_parameter(name)}
        return FoundOperation(methods.get(method), values, tuple(sorted(methods)))


def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


def _is_parameter(segment: str) -> bool:
    return segment.startswith("{")


def _fits(template: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    return len(template) == len(segments) and all(
        (_is_parameter(one) and other != "") or one == other for one, other in zip(template, segments, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallGate:
    """What every call passes before its operation."""

    keys: ApiKeys
    rates: RateLimits
    account: Account
    idempotency: IdempotencyKeys
    faults: InjectedFaults
    journal: Journal
    clock: Clock
    ids: IdSource
    """Names faults of ours."""
    address: PublicAddress
    """Follows how callers write the emulator's address."""


@dataclass(slots=True)
class _CallNotes:
    """What the journal and the trace will say."""

    team: str | None = None
    body: Json = field(default_factory=dict)
    answer: Json = field(default_factory=dict)
    faked: bool = False
    """Whether the answer is a fault that was asked for."""
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
            return await reply_refusal(CallRefused(403, _NO_FOREIGN_PAGES))
        if request.method == "OPTIONS":
            asked = request.headers.get("access-control-request-headers", "*")
            return Response(status_code=204, headers={**_PREFLIGHT, "Access-Control-Allow-Headers": asked})
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
        operation = found.operation
        if operation is None:
            raise unknown_operation(request.method, path, [*found.methods])
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


async def _body(request: HttpRequest, operation: ApiOperation) -> tuple[Json, Mapping[str, UploadedFile]]:
    if operation.method not in _WITH_BODY:
        return {}, {}
    if operation.takes == "bytes":
        return {}, {"": await read_bytes(request)}
    is_form = request.headers.get("content-type", "").lower().startswith("multipart/form-data")
    if is_form and operation.takes == "form":
        return await read_upload(request)
    return await read_json(request), {}


def _base_url(request: HttpRequest) -> str:
    """Return scheme and host as the caller wrote them; a proxy in front says the scheme."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    scheme = forwarded if forwarded in ("http", "https") else request.scope["scheme"]
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        name, port = request.scope.get("server") or ("127.0.0.1", None)
        host = name if port is None else f"{name}:{port}"
    return f"{scheme}://{host}"


def _path(request: HttpRequest) -> str:
    return str(request.scope["path"])
