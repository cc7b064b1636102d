"""Takes in the body of a request, within its limits."""

import asyncio
from typing import Any

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request as HttpRequest
from starlette.types import Message

from receiver.service.emulator.api.calls import UploadedFile
from receiver.service.emulator.failures import CallRefused
from receiver.service.emulator.wire.json_bodies import parse_body

Json = dict[str, Any]

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
