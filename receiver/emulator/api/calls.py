"""One call of the API: how it is read from HTTP, what an operation gets and returns, and how it is answered."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message

from receiver.core.addresses import is_loopback
from receiver.emulator.failures import CallRefused, ScrapeFailed
from receiver.emulator.json_text import to_json_beside
from receiver.emulator.wire.bodies import parse_body

Json = dict[str, Any]

MAX_BODY = 10 * 1024 * 1024
"""Bytes of a body."""
MAX_UPLOAD = 50 * 1024 * 1024
"""Bytes of a body with a file."""
OPEN_TO_BROWSERS = {"Access-Control-Allow-Origin": "*", "Vary": "Origin"}
"""Every page may read the answers: where any key passes, pages of other hosts are refused before."""
_SECONDS = 60.0
"""Real seconds in which a body has to come."""
_QUICK = 64 * 1024
"""Bytes of a body that are parsed at once; more are parsed in a thread."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that came with a call. Name and media type are those of the caller; both may be empty."""

    name: str
    content_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """One authenticated call. `body` is the JSON object without its nulls: null means absent everywhere."""

    version: Literal[1, 2]
    team: str
    """Id of the account, made from the API key."""
    path: Mapping[str, str] = field(default_factory=dict)
    """The parameters of the path, such as `id`."""
    query: Mapping[str, str] = field(default_factory=dict)
    """The parameters of the query, the last one of each name."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By lower-case name."""
    body: Json = field(default_factory=dict)
    """Empty for GET and DELETE."""
    nulls: frozenset[str] = frozenset()
    """The keys of the body that were null, for the changes that a null makes."""
    files: Mapping[str, UploadedFile] = field(default_factory=dict)
    """Uploaded files by the names of their parts."""
    base_url: str = ""
    """Scheme and host as the caller reached the emulator, for the URLs in answers."""

    def uuid(self, name: str = "id", refusal: CallRefused | None = None) -> str:
        """Return an id in the path in its usual form. The refusal is raised if it is no UUID."""
        try:
            return str(uuid.UUID(self.path.get(name, "")))
        except ValueError:
            raise refusal or CallRefused(400, "Invalid job ID") from None


@dataclass(frozen=True, slots=True)
class Answer:
    """The JSON object, the HTTP status, and headers beside the usual ones."""

    body: Json
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Handle = Callable[[ApiCall], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One operation: where it is, what it does, and by which limits it is counted."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """Such as `/v2/crawl/{id}`."""
    handle: Handle
    limit: str
    """The rate limit that it counts towards: scrape, map, crawl, crawlStatus, search, extract, account…"""
    status: str = "real"
    """For the guide's table of operations: real, rules or model, browser."""
    needs_key: bool = True
    """Whether a caller has to have a key; registration is for those who have none."""
    takes: Literal["json", "form", "bytes"] = "json"
    """What a body is: JSON, JSON or a form with a file, or a file itself, which is in `files` without a name."""


class OperationFamily(Protocol):
    """Operations that belong together."""

    def operations(self) -> list[ApiOperation]:
        """Return them."""


def is_foreign_page(request: HTTPConnection) -> bool:
    """Return whether a page of another host than this machine calls, by way of a browser on this machine.

    The emulator fetches what that page could not read itself: the other programs on this machine.
    """
    origin = request.headers.get("origin")
    if origin is None:
        return False
    try:
        host = urlsplit(origin).hostname or ""
    except ValueError:
        return True
    return not is_loopback(host) and not host.endswith(".localhost")


async def read_json(request: Request) -> Json:
    """Return the object of a JSON body as it was sent, empty without a body. CallRefused has status 400 or 413."""
    data = await _read(request, MAX_BODY)
    return parse_body(data) if len(data) <= _QUICK else await asyncio.to_thread(parse_body, data)


async def read_upload(request: Request) -> tuple[Json, dict[str, UploadedFile]]:
    """Return the part `options` as JSON, and the files by the names of their parts."""
    body: Message = {"type": "http.request", "body": await _read(request, MAX_UPLOAD), "more_body": False}

    async def receive() -> Message:
        return body

    files: dict[str, UploadedFile] = {}
    try:
        async with Request(request.scope, receive).form(max_files=1, max_fields=10, max_part_size=MAX_BODY) as form:
            options = form.get("options")
            for name, part in form.items():
                if isinstance(part, UploadFile):
                    files[name] = UploadedFile(part.filename or "", part.content_type or "", await part.read())
    except MultiPartException:
        raise CallRefused(400, "Bad request, malformed multipart body", code="BAD_REQUEST") from None
    return parse_body(options.encode()) if isinstance(options, str) else {}, files


async def read_bytes(request: Request) -> UploadedFile:
    """Return the body as a file. CallRefused has status 413."""
    return UploadedFile("", request.headers.get("content-type", ""), await _read(request, MAX_UPLOAD))


async def _read(request: Request, most: int) -> bytes:
    """Return the body; CallRefused with status 413 when more than `most` bytes come, or are announced."""
    too_large = CallRefused(413, "Request body is too large")
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and (len(announced) > 15 or int(announced) > most):
        raise too_large
    data = bytearray()
    async with asyncio.timeout(_SECONDS):
        async for chunk in request.stream():
            data += chunk
            if len(data) > most:
                raise too_large
    return bytes(data)


async def reply(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a JSON object."""
    return Response(await to_json_beside(body), status, headers, media_type="application/json")


async def reply_refusal(refused: CallRefused) -> Response:
    """Return the response to a call that is refused."""
    return await reply(refusal_body(refused), refused.status, refused.headers)


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
    text = f"An unexpected error occurred. The emulator's log has it under the id {identity}"
    return {"success": False, "code": "UNKNOWN_ERROR", "error": text}


def unknown_operation(method: str, path: str, methods: list[str]) -> CallRefused:
    """Return the refusal of a method and a path that no operation has; `methods` are those of the path."""
    if methods:
        allowed = ", ".join(sorted(methods))
        return CallRefused(405, f"{path} does not have {method}, it has {allowed}", headers={"Allow": allowed})
    return CallRefused(404, f"There is no operation {method} {path}")
