"""From HTTP to the operations: keys, limits, bodies, faults, errors, the journal."""

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from receiver.core.clock import Clock
from receiver.emulator.account.account import RateLimits, affordable, require_credits
from receiver.emulator.account.keys import HEADER, OPEN_TEAM, ApiKeys, IdempotencyKeys
from receiver.emulator.address import PublicAddress
from receiver.emulator.admin.faults import InjectedFaults
from receiver.emulator.admin.journal import Journal
from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, UploadedFile, is_foreign_page
from receiver.emulator.contracts import Account
from receiver.emulator.failures import CallRefused, ScrapeFailed, TooManyAtOnce
from receiver.emulator.ids import IdSource
from receiver.emulator.json_text import to_json_beside
from receiver.emulator.wire.bodies import parse_body, without_nulls
from receiver.runtime.log_lines import event_log
from receiver.signals.traces.switch import answer_span

# FOLDED: Answers as responses: JSON in every case, with the headers that the service sends.
Json = dict[str, Any]

OPEN_TO_BROWSERS = {"Access-Control-Allow-Origin": "*", "Vary": "Origin"}
"""Every page may read the answers: where any key passes, pages of other hosts are refused before."""
PREFLIGHT = {
    **OPEN_TO_BROWSERS,
    "Access-Control-Allow-Methods": "GET,HEAD,PUT,PATCH,POST,DELETE",
    "Access-Control-Max-Age": "600",
}


async def reply(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a JSON object."""
    return Response(await to_json_beside(body), status, headers, media_type="application/json")


def refusal_body(refused: CallRefused) -> Json:
    """Return the service's error body: `{success: false, code?, error, details?, agent_hints?}`."""
    body: Json = {"success": False}
    if refused.code is not None:
        body["code"] = refused.code
    body["error"] = refused.error
    if refused.details is not None:
        body["details"] = refused.details
    if refused.hints:
        body["agent_hints"] = list(refused.hints)
    return body


def failure_body(failed: ScrapeFailed) -> Json:
    """Return the body for a page that could not be scraped."""
    return {"success": False, "code": failed.code, "error": str(failed)}


def unknown_error_body(identity: str) -> Json:
    """Return the body for a fault of ours. It says nothing but an id, which the log has too."""
    return {
        "success": False,
        "code": "UNKNOWN_ERROR",
        "error": f"An unexpected error occurred. The emulator's log has it under the id {identity}",
    }


# FOLDED: Which operation a request is for.
@dataclass(frozen=True, slots=True)
class FoundOperation:
    """What a path leads to: one operation, or the methods that the path has."""

    operation: ApiOperation | None
    """The operation; None if the path does not have this method, or is unknown."""
    path: Mapping[str, str]
    """The parameters of the path."""
    methods: tuple[str, ...]
    """The methods of the path; none for an unknown one."""


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


# FOLDED: Takes in the body of a request, within its limits.
MAX_BODY = 10 * 1024 * 1024
"""Bytes of a body."""
MAX_UPLOAD = 50 * 1024 * 1024
"""Bytes of a body with a file."""
_SECONDS = 60.0
"""Real seconds in which a body has to come."""
_QUICK = 64 * 1024
"""Bytes of a body that are parsed at once; more are parsed in a thread."""


async def read_json(request: HttpRequest) -> Json:
    """Return the object of a JSON body as it was sent, empty without a body. CallRefused has status 400 or 413."""
    data = await _read(request, MAX_BODY)
    return parse_body(data) if len(data) <= _QUICK else await asyncio.to_thread(parse_body, data)


async def read_upload(request: HttpRequest) -> tuple[Json, dict[str, UploadedFile]]:
    """Return the part `options` as JSON, and the files by the names of their parts."""
    body: Message = {"type": "http.request", "body": await _read(request, MAX_UPLOAD), "more_body": False}

    async def receive() -> Message:
        return body

    try:
        async with HttpRequest(request.scope, receive).form(
            max_files=1, max_fields=10, max_part_size=MAX_BODY
        ) as form:
            options = form.get("options")
            files = {name: await _file(part) for name, part in form.items() if isinstance(part, UploadFile)}
    except MultiPartException:
        raise CallRefused(400, "Bad request, malformed multipart body", code="BAD_REQUEST") from None
    return parse_body(options.encode()) if isinstance(options, str) else {}, files


async def read_bytes(request: HttpRequest) -> UploadedFile:
    """Return the body as a file. CallRefused has status 413."""
    return UploadedFile("", request.headers.get("content-type", ""), await _read(request, MAX_UPLOAD))


async def _file(part: UploadFile) -> UploadedFile:
    return UploadedFile(part.filename or "", part.content_type or "", await part.read())


def is_multipart(request: HttpRequest) -> bool:
    """Tell whether the body is a form with parts, as for uploads."""
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


async def _read(request: HttpRequest, most: int) -> bytes:
    """Return the body; CallRefused with status 413 when more than `most` bytes come, or are announced."""
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and (len(announced) > 15 or int(announced) > most):
        raise _too_large()
    data = bytearray()
    async with asyncio.timeout(_SECONDS):
        async for chunk in request.stream():
            data += chunk
            if len(data) > most:
                raise _too_large()
    return bytes(data)


def _too_large() -> CallRefused:
    return CallRefused(413, "Request body is too large")


log = event_log(__name__)

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
