"""Takes in the body of a request, within its limits."""

import asyncio
import json
from typing import Any

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request as HttpRequest
from starlette.types import Message, Receive

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
    receive = _limited(request, MAX_BODY)
    data = bytearray()
    async with asyncio.timeout(_SECONDS):
        async for chunk in HttpRequest(request.scope, receive).stream():
            data += chunk
    if len(data) <= _QUICK:
        return parse_body(bytes(data))
    return await asyncio.to_thread(parse_body, bytes(data))


async def read_upload(request: HttpRequest) -> tuple[Json, dict[str, UploadFile]]:
    """Return the part `options` as JSON, and the files by the names of their parts."""
    receive = _limited(request, MAX_UPLOAD)
    try:
        async with asyncio.timeout(_SECONDS):
            form = await HttpRequest(request.scope, receive).form(
                max_files=1, max_fields=10, max_part_size=MAX_BODY
            )
    except (MultiPartException, json.JSONDecodeError):
        raise CallRefused(400, "Bad request, malformed multipart body", code="BAD_REQUEST") from None
    options = form.get("options")
    files = {name: part for name, part in form.multi_items() if isinstance(part, UploadFile)}
    return parse_body(options.encode()) if isinstance(options, str) else {}, files


def is_multipart(request: HttpRequest) -> bool:
    """Tell whether the body is a form with parts, as for uploads."""
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


def _limited(request: HttpRequest, most: int) -> Receive:
    """Return a source of the body that raises CallRefused with status 413 when more than `most` bytes come."""
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and (len(announced) > 15 or int(announced) > most):
        raise _too_large()
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        message = await request.receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise _too_large()
        return message

    return receive


def _too_large() -> CallRefused:
    return CallRefused(413, "Request body is too large")
