"""Hostile answers to every operation of both clients: each call ends with a result or a ServiceError."""

import asyncio
import json
import pickle
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from receiver.core.retries import RetrySchedule
from receiver.errors import ServiceError
from receiver.requests import MonitorChanges, MonitorRequest, Schedule, ScrapeTarget
from receiver.service.client import AsyncClient, Client, RetryPolicy
from tests.cases import named
from tests.doubles import soon
from tests.service.client.calling import KEY, PAGE, Caller, Service
from tests.service.client.stub import Connection, serving

ONCE = RetryPolicy(RetrySchedule(()))
MONITOR = MonitorRequest(name="n", schedule=Schedule(cron="0 * * * *"), targets=[ScrapeTarget(urls=[PAGE])])
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "scrape": (PAGE,),
    "parse": (b"x", "a.pdf"),
    "map": (PAGE,),
    "search": ("q",),
    "queue_status": (),
    "crawl": (PAGE,),
    "active_crawls": (),
    "batch_scrape": ([PAGE],),
    "extract": ([PAGE],),
    "monitors": (),
    "create_monitor": (MONITOR,),
    "update_monitor": ("1", MonitorChanges(status="paused")),
    "check": ("1", "2"),
    "check_pages": ("1", "2"),
}
OPERATIONS = sorted(name for name, value in vars(Client).items() if hasattr(value, "__wrapped__"))
ODD = [
    b"null",
    b"true",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"1" * 401,
    b"1" * 5_000,
    b'"x"',
    b'"\\ud800"',
    b'"9999-12-31T23:59:59-23:59"',
    b"{}",
    b'{"\\ud800": 1}',
    b'{"id": 5, "pages": [5, {}], "targets": [{"type": 5}], "next": 5}',
    b"[null, {}, [], 5]",
    b'[{"metadata": 5, "links": [{}]}]',
    b"[" * 900 + b"]" * 900,
    b"[" * 100_000,
]
KEYS = ("data", "status", "id", "links", "errors", "next", "error")
GOOD = {"success": b"true", "id": b'"1"', "status": b'"completed"', "data": b'{"id": "1"}'}
HEADERS = [
    {"retry-after": "9" * 400},
    {"retry-after": "Mon, 99 Zzz 0000", "date": "x" * 5_000},
    {"location": "http://[::1"},
    {"location": f"https://{'a' * 300}.example/"},
    {"set-cookie": "a=b; domain=.; expires=Mon, 99"},
    {"content-type": "text/html; charset=nonsense"},
]


def answers() -> Iterator[httpx.Response]:
    """Yield answers with one odd value each, and bodies that are odd as a whole."""
    for key in KEYS:
        for odd in ODD:
            items = (b'"%s": %s' % (name.encode(), value) for name, value in {**GOOD, key: odd}.items())
            yield httpx.Response(200, content=b"{%s}" % b", ".join(items))
    for body in (b"", b"\xff\xfe", b"\x00" * 10, json.dumps({"success": True}).encode("utf-16"), *ODD):
        yield httpx.Response(200, content=body)
        for status, headers in zip((204, 302, 400, 429, 503, 999), HEADERS, strict=True):
            yield httpx.Response(status, content=b'{"error": %s}' % body, headers=headers)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_every_answer_ends_in_a_result_or_a_service_error(
    name: str, caller: Caller, service: Service
) -> None:
    """Both can be shown, and an error can be sent to another process."""
    caller = Caller(caller.kind, service, patience=ONCE)
    for answer in answers():
        with named((name, answer.status_code, answer.content[:100])):
            service.replies = [answer]
            call = caller.pages if name.endswith("_pages") else caller.call
            try:
                shown = repr(await call(name, *ARGUMENTS.get(name, ("1",))))
            except ServiceError as error:
                shown = str(pickle.loads(pickle.dumps(error)))
            assert len(shown) < 2_500


OK = b"HTTP/1.1 200 OK\r\n"
WIRES = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "no status": b"HTTP/1.1 \r\n\r\n",
    "status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}",
    "endless headers": OK + b"X-A: b\r\n" * 100_000,
    "a long header": OK + b"X-A: " + b"b" * 1_000_000,
    "many 1xx": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000,
    "a switch of protocols": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nxxxx",
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a negative length": OK + b"Content-Length: -2\r\n\r\n{}",
    "a huge length": OK + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",
    "a cut chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    "a chunk without a length": OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}",
    "a chunk of a huge length": OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\n{}",
    "an unknown transfer coding": OK + b"Transfer-Encoding: gzip\r\n\r\n{}",
    "bytes in a header": OK + b"X-\x80\xff: \x00\x01\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("wire", WIRES)
async def test_whatever_comes_over_the_wire_ends_in_a_service_error(wire: str, caller: Caller) -> None:
    """The server closes the connection after its last byte."""

    def send(connection: Connection) -> None:
        connection.handler.close_connection = True
        with suppress(OSError):  # the client may have seen enough
            connection.handler.connection.sendall(WIRES[wire])
            connection.handler.connection.shutdown(socket.SHUT_WR)

    async def call(address: str) -> None:
        if caller.kind == "async":
            async with AsyncClient(KEY, address, patience=ONCE) as client:
                await soon(client.crawl_status("1"))
        else:
            with Client(KEY, address, patience=ONCE) as plain:
                await soon(asyncio.to_thread(plain.crawl_status, "1"))

    with serving(send) as stub, pytest.raises(ServiceError):
        await call(stub.address)
