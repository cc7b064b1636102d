"""Tests of the real server against slow, broken and hostile clients: bounded answers, never a redirect or a 500."""

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from receiver.core.signing import sign
from tests.process.faults import WITH_FEW_FILES
from tests.process.harness import (
    SECRET,
    Connection,
    Deployment,
    Load,
    Serving,
    connection,
    get,
    post,
    raw_request,
    request,
)

BODY = b'{"success":true,"type":"crawl.started","id":"j","webhookId":"w","data":[],"metadata":{}}'
JSON = ("Content-Type", "application/json")
SIGNED = ("X-Firecrawl-Signature", sign(BODY, SECRET))
FORM = ("X-Firecrawl-Signature", "sha256=" + "0" * 64)
"""Lets a request in until its body is known."""


@asynccontextmanager
async def endpoint(
    folder: Path, *, faults: str | None = None, **settings: str
) -> AsyncIterator[tuple[Deployment, Serving]]:
    """Serve without a worker and with short time-outs.

    At the end check its health and that its log has no other error.
    """
    deployment = Deployment(folder, **{"json_logs": "true", "read_timeout": "1", "ack_deadline": "2"} | settings)
    async with deployment.serve("--no-worker") as serving:
        yield deployment, serving
        assert (await get(serving.port, "/healthz")).status == 200
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0
        await serving.gone()
        assert [error for error in serving.errors() if not (faults and faults in error)] == []


def new_body(number: int) -> bytes:
    """Return a different body for each number."""
    return json.dumps({"type": "crawl.page", "id": "j", "webhookId": f"w-{number}", "data": []}).encode()


async def flood(line: Connection, piece: bytes, pieces: int) -> None:
    """Send a piece many times, until the other side closes."""
    with suppress(ConnectionError):
        for _ in range(pieces):
            await line.say(piece)


# --- slow ones


async def test_a_very_slow_body_is_answered_408_and_not_stored(tmp_path: Path) -> None:
    """Single bytes do not extend the read time-out."""
    async with endpoint(tmp_path) as (deployment, serving), connection(serving.port) as line:
        await line.say(raw_request("POST", "/webhooks", None, [JSON, SIGNED, ("Content-Length", str(len(BODY)))]))

        async def trickle() -> None:
            with suppress(ConnectionError):
                for byte in BODY:
                    await line.say(bytes([byte]))
                    await asyncio.sleep(0.2)  # the slowness under test

        trickling = asyncio.create_task(trickle())
        answer = await line.answer()
        trickling.cancel()

        assert (answer.status, answer.json()["error"]) == (408, "timeout")
        assert deployment.stored() == {}


async def test_incomplete_headers_do_not_keep_the_connection(tmp_path: Path) -> None:
    """If the headers of a request do not end, the connection is closed after the read time-out."""
    async with endpoint(tmp_path) as (_, serving), connection(serving.port) as line:
        await line.say(b"POST /webhooks HTTP/1.1\r\nHost: receiver.test\r\nX-Half: ")

        assert await line.closed() == b""


async def test_a_silent_connection_is_closed(tmp_path: Path) -> None:
    """The number of connections is limited, so silent ones must not stay open for ever."""
    async with endpoint(tmp_path) as (_, serving), connection(serving.port) as line:
        assert await line.closed() == b""


async def test_endless_trailers_close_the_connection(tmp_path: Path) -> None:
    """Bytes after the body have the same limit as bytes before it."""
    async with endpoint(tmp_path) as (_, serving), connection(serving.port) as line:
        await line.say(raw_request("POST", "/webhooks", None, [JSON, SIGNED, ("Transfer-Encoding", "chunked")]))
        await line.say(b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY))
        await flood(line, b"X-Trailer: " + b"a" * 1000 + b"\r\n", 2_000)

        await line.closed()


# --- large ones


async def test_a_megabyte_of_headers_closes_the_connection(tmp_path: Path) -> None:
    """The headers are one endless header or thousands of them, and they must not fill the memory."""
    async with endpoint(tmp_path) as (_, serving):
        for piece in (b"a" * 1024, b"X-Header: " + b"a" * 1000 + b"\r\n"):
            async with connection(serving.port) as line:
                await line.say(b"POST /webhooks HTTP/1.1\r\nHost: receiver.test\r\nX-Long: ")
                await flood(line, piece, 1_024)
                await line.closed()


async def test_a_content_length_over_the_limit_is_answered_413_unread(tmp_path: Path) -> None:
    """The answer comes before the client has sent any byte of the body."""
    async with endpoint(tmp_path, max_body="1000") as (_, serving), connection(serving.port) as line:
        await line.say(raw_request("POST", "/webhooks", None, [JSON, FORM, ("Content-Length", "1001")]))

        answer = await line.answer()

        assert (answer.status, answer.json()["error"]) == (413, "too_large")


async def test_a_body_one_byte_over_the_limit_is_answered_413(tmp_path: Path) -> None:
    """The client sends the whole body before it reads. A server that closed at once would reset the connection."""
    body = new_body(1).ljust(2_000_001)
    async with (
        endpoint(tmp_path, max_body="2000000", read_timeout="8", ack_deadline="9") as (_, serving),
        connection(serving.port) as line,
    ):
        await line.say(request(body, headers=[("Connection", "close")]))

        answer = await line.answer()

        assert (answer.status, answer.json()["error"]) == (413, "too_large")
        assert await line.closed() == b""


async def test_a_chunked_body_over_the_limit_is_answered_413(tmp_path: Path) -> None:
    """Its length is not announced, so the server counts the bytes that arrive."""
    async with endpoint(tmp_path, max_body="1000") as (deployment, serving), connection(serving.port) as line:
        await line.say(raw_request("POST", "/webhooks", None, [JSON, FORM, ("Transfer-Encoding", "chunked")]))
        for _ in range(3):
            await line.say(b"190\r\n" + b"a" * 0x190 + b"\r\n")

        answer = await line.answer()

        assert (answer.status, answer.json()["error"]) == (413, "too_large")
        assert deployment.stored() == {}


async def test_a_chunked_body_within_the_limit_is_accepted(tmp_path: Path) -> None:
    """The stored bytes are the same for all sizes of chunks."""
    async with endpoint(tmp_path) as (deployment, serving), connection(serving.port) as line:
        await line.say(raw_request("POST", "/webhooks", None, [JSON, SIGNED, ("Transfer-Encoding", "chunked")]))
        for start in range(0, len(BODY), 7):
            part = BODY[start : start + 7]
            await line.say(b"%x;extension=1\r\n%s\r\n" % (len(part), part))
        await line.say(b"0\r\nX-Trailer: 1\r\n\r\n")

        assert (await line.answer()).json() == {"status": "accepted", "id": "w"}
        assert deployment.run("events", "raw", "w").stdout == BODY


async def test_the_longest_allowed_body_fits_the_smallest_limit_in_flight(tmp_path: Path) -> None:
    """Otherwise some setting would refuse a legal body at every retry."""
    body = new_body(1).ljust(100_000)
    async with endpoint(tmp_path, max_body="100000", max_in_flight="100000") as (_, serving):
        assert (await post(serving.port, body)).status == 200


async def test_the_in_flight_limit_answers_503_and_recovers(tmp_path: Path) -> None:
    """While one large request uses the limit, another is answered 503. Later it is accepted."""
    large, other = new_body(1).ljust(100_000), new_body(2).ljust(50_000)
    settings = {"max_body": "100000", "max_in_flight": "120000", "read_timeout": "8", "ack_deadline": "9"}
    async with AsyncExitStack() as stack:
        deployment = Deployment(tmp_path, **settings)
        serving = await stack.enter_async_context(deployment.serve("--no-worker"))
        line = await stack.enter_async_context(connection(serving.port))
        await line.say(request(large)[:-10])

        # The first has been let in as soon as another is turned away; how soon nobody tells.
        while (answer := await post(serving.port, other)).status == 200:
            other = new_body(int(json.loads(other)["webhookId"][2:]) + 1).ljust(50_000)
        assert (answer.status, answer.json()["error"]) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0

        await line.say(large[-10:])
        assert (await line.answer()).status == 200
        assert (await post(serving.port, other)).status == 200


# --- many, and odd ones


async def test_three_hundred_idle_connections_do_not_hinder_deliveries(tmp_path: Path) -> None:
    """They are silent, have sent half a request, or are open after an answer. Real load runs beside them."""
    async with endpoint(tmp_path) as (deployment, serving), AsyncExitStack() as stack:
        for number in range(300):
            line = await stack.enter_async_context(connection(serving.port))
            if number % 3 == 1:
                await line.say(b"POST /webhooks HTTP/1.1\r\nHost: receiver.test\r\n")
            elif number % 3 == 2:
                assert (await line.post(new_body(number))).status == 200
        load = Load(random.Random(1))

        await load.send(serving.port, 200)

        assert set(load.answers) == {200}
        assert len(deployment.stored()) == 100 + 200


async def test_idle_connections_above_the_limit_are_closed_for_deliveries(tmp_path: Path) -> None:
    """The limit follows the limit on open files. Every delivery is accepted, and the log stays short."""
    deployment = Deployment(tmp_path, read_timeout="4")
    async with (
        deployment.serve("--no-worker", launcher=("-c", WITH_FEW_FILES)) as serving,
        AsyncExitStack() as stack,
    ):
        load = Load(random.Random(1))
        for _ in range(5):
            for _ in range(60):
                await stack.enter_async_context(connection(serving.port))
            await load.send(serving.port, 10, connections=1)

        assert load.answers == {200: 50}
        assert "Traceback" not in serving.output
        assert serving.output.count("ERROR") == 0


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    """Several requests in one piece are several deliveries."""
    async with endpoint(tmp_path) as (_, serving), connection(serving.port) as line:
        await line.say(*(request(new_body(number)) for number in range(5)))

        answers = [await line.answer() for _ in range(5)]

        assert [answer.json()["id"] for answer in answers] == [f"w-{number}" for number in range(5)]


async def test_an_interrupted_request_is_not_stored(tmp_path: Path) -> None:
    """It is also not logged as an error, because the sender caused it (see `endpoint`)."""
    async with endpoint(tmp_path) as (deployment, serving):
        for cut in (10, 60, len(request(BODY)) - 1):
            async with connection(serving.port) as line:
                await line.say(request(BODY)[:cut])
        async with connection(serving.port) as line:
            await line.say(request(BODY)[:-1])
            line.shut_down_sending()
            await line.closed()
        assert deployment.stored() == {}


async def test_a_request_is_stored_even_if_the_client_does_not_wait_for_the_answer(tmp_path: Path) -> None:
    """The request was complete. Its retry is a duplicate."""
    async with endpoint(tmp_path) as (deployment, serving):
        async with connection(serving.port) as line:
            await line.say(request(BODY))
        async with connection(serving.port) as line:
            assert (await line.post(BODY)).status == 200
        assert list(deployment.stored()) == ["w"]


async def test_expect_100_continue_is_answered_before_the_body(tmp_path: Path) -> None:
    """A client that asks first gets 100, or is refused before it sends the body."""
    length = ("Content-Length", str(len(BODY)))
    expect = ("Expect", "100-continue")
    async with endpoint(tmp_path, max_body="1000") as (_, serving):
        async with connection(serving.port) as line:
            await line.say(raw_request("POST", "/webhooks", None, [JSON, SIGNED, length, expect]))
            assert (await line.answer()).status == 100
            await line.say(BODY)
            assert (await line.answer()).status == 200
        async with connection(serving.port) as line:
            await line.say(raw_request("POST", "/webhooks", None, [JSON, length, expect]))
            assert (await line.answer()).status == 401
        async with connection(serving.port) as line:
            await line.say(raw_request("POST", "/webhooks", None, [FORM, ("Content-Length", "9999"), expect]))
            assert (await line.answer()).status == 413


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_another_method_is_answered_405_with_the_allowed_method(tmp_path: Path, method: str) -> None:
    """The path is right, and the Allow header has the method."""
    async with endpoint(tmp_path) as (_, serving), connection(serving.port) as line:
        await line.say(raw_request(method, "/webhooks", None))

        answer = await line.answer(head_only=method == "HEAD")

        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        if method != "HEAD":
            assert answer.json()["error"] == "method_not_allowed"


async def test_every_form_of_the_path_is_accepted_or_answered_404_in_json(tmp_path: Path) -> None:
    """A final slash, a query and the absolute form are accepted. All else is 404, and nothing is redirected."""
    taken = ["/webhooks", "/webhooks/", "/webhooks?a=1", "/webhooks/?a=%2F", "http://receiver.test/webhooks"]
    unknown = [
        "/",
        "/webhook",
        "/webhooks/a",
        "/WEBHOOKS",
        "/webhooks%00",
        "/%ff",
        "/webhooks//",
        "/a%0d%0ab",
        "/.",
    ]
    async with endpoint(tmp_path) as (_, serving):
        for number, path in enumerate(taken):
            async with connection(serving.port) as line:
                answer = await line.post(new_body(number), path=path)
                assert (answer.status, answer.json()["status"]) == (200, "accepted"), path
        for path in unknown:
            async with connection(serving.port) as line:
                answer = await line.post(BODY, path=path)
                assert (answer.status, answer.json()["error"]) == (404, "not_found"), path


@pytest.mark.parametrize("path", ["//", "//webhooks", "///webhooks", "//webhooks/"])
async def test_a_doubled_slash_is_answered_404_and_not_400(tmp_path: Path, path: str) -> None:
    """A base URL that ends with a slash causes it. The answer is the one for any unknown path."""
    async with endpoint(tmp_path) as (_, serving), connection(serving.port) as line:
        answer = await line.post(BODY, path=path)

        assert (answer.status, answer.json()["error"]) == (404, "not_found")


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100, id="a TLS greeting"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2 by surprise"),
        pytest.param(b"GET\r\n\r\n", id="no path"),
        pytest.param(b"POST /webh\xc3\xb6ks HTTP/1.1\r\nHost: a\r\n\r\n", id="a path that is not ASCII"),
        pytest.param(b"CONNECT receiver.test:80 HTTP/1.1\r\nHost: a\r\n\r\n", id="CONNECT"),
        pytest.param(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", id="no path but a star"),
        pytest.param(b"POST /webhooks HTTP/1.1\r\nContent-Length: -1\r\n\r\n", id="a negative length"),
        pytest.param(b"POST /webhooks HTTP/1.1\r\nContent-Length: ten\r\n\r\n", id="a length in words"),
        pytest.param(b"POST /webhooks HTTP/1.1\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n", id="a huge length"),
        pytest.param(
            b"POST /webhooks HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n12345", id="two lengths"
        ),
        pytest.param(
            b"POST /webhooks HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="a length and chunks",
        ),
        pytest.param(
            b"POST /webhooks HTTP/1.1\r\n" + FORM[0].encode() + b": 1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
            id="a broken chunk",
        ),
        pytest.param(
            b"POST /webhooks HTTP/1.1\r\nX-Firecrawl-Signature: \xff\xfe\r\n\r\n", id="a binary signature"
        ),
        pytest.param(b"POST /webhooks HTTP/1.1\r\n: no name\r\n\r\n", id="a header without a name"),
    ],
)
async def test_an_invalid_request_is_refused_or_closed(tmp_path: Path, said: bytes) -> None:
    """The answer is a 4xx or the end of the connection, and the server accepts the next delivery."""
    async with endpoint(tmp_path) as (deployment, serving):
        async with connection(serving.port) as line:
            await line.say(said)
            line.shut_down_sending()
            came = await line.closed()
        assert came == b"" or came.startswith(b"HTTP/1.1 4"), came

        assert (await post(serving.port, BODY)).status == 200
        assert list(deployment.stored()) == ["w"]


@pytest.mark.parametrize("protocol", ["h2c", "websocket", "anything"])
async def test_an_upgrade_offer_does_not_lose_the_delivery(tmp_path: Path, protocol: str) -> None:
    """A server may ignore the offer (RFC 9110, section 7.8). Body and headers are stored as they were sent."""
    offer = [("Connection", "Upgrade"), ("Upgrade", protocol)]
    async with endpoint(tmp_path) as (deployment, serving), connection(serving.port) as line:
        answers = [await line.post(BODY, headers=offer), await line.post(BODY)]
        [(headers, body)] = deployment.rows("SELECT headers, body FROM bodies")

    assert [answer.json()["status"] for answer in answers] == ["accepted", "duplicate"]
    assert body == BODY
    assert ["upgrade", protocol] in json.loads(headers)


async def test_http_1_0_is_answered_and_closed(tmp_path: Path) -> None:
    """Old proxies use it. The connection ends after the answer."""
    async with endpoint(tmp_path) as (_, serving), connection(serving.port) as line:
        await line.say(request(BODY).replace(b"HTTP/1.1", b"HTTP/1.0", 1))

        assert (await line.answer()).status == 200
        assert await line.closed() == b""
