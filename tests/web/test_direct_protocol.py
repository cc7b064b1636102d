"""The webhook's requests that pass ASGI by are answered and stored as those that do not, and end as surely."""

import asyncio
import gc
import re
from collections.abc import Sequence
from datetime import timedelta

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from receiver.core.clock import VirtualClock
from receiver.core.ports.log import DeliveryLog
from receiver.core.signing import sign
from receiver.errors import StoreError
from receiver.web.health import Liveness
from receiver.web.intake import Authenticator, Intake
from receiver.web.paths import EndpointPaths
from receiver.web.protocol import MAX_HEADERS, MAX_UNFRAMED_BYTES, DirectProtocol
from receiver.web.reception import Reception, WebhookEndpoint
from receiver.web.server import NeverFails
from tests.doubles import LONG, NOON, SECRET, OpenStore, SlowLog, body_of, eventually, turns
from tests.web.transports import Notes

BODY = body_of(webhookId="w-1")
LATE, NOW = timedelta(seconds=LONG), timedelta(0)


def head(body: bytes = BODY, *more: bytes, framing: bytes | None = None, target: bytes = b"/webhooks") -> bytes:
    """Return the head of a signed request."""
    length = b"Content-Length: %d" % len(body) if framing is None else framing
    signature = b"X-Firecrawl-Signature: " + sign(body, SECRET).encode()
    lines = [b"POST %b HTTP/1.1" % target, b"Host: h", signature, length, *more]
    return b"\r\n".join([*(line for line in lines if line), b"", b""])


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
POST = head() + BODY


class Line:
    """A connection to a server of the webhook, with ASGI for it or without."""

    def __init__(
        self,
        log: DeliveryLog,
        *,
        direct: bool = True,
        read_timeout: timedelta = LATE,
        ack_deadline: timedelta = LATE,
    ) -> None:
        gate = Authenticator(
            signature_header="X-Firecrawl-Signature", secrets=[SECRET], token_header=None, tokens=()
        )
        self.intake = Intake(log, gate, VirtualClock(NOON), max_body=1_000, max_in_flight=100_000)
        endpoint = WebhookEndpoint(self.intake, read_timeout=read_timeout, ack_deadline=ack_deadline)
        app = NeverFails(EndpointPaths({"/webhooks": endpoint, "/healthz": Liveness()}))
        self.by_asgi = 0

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            self.by_asgi += 1
            await app(scope, receive, send)

        config = Config(counted, interface="asgi3", lifespan="off", ws="none", log_config=None, access_log=False)
        self.protocol = DirectProtocol(config, ServerState(), {})
        self.protocol.read_seconds = LONG
        self.protocol.direct = lambda path: endpoint if direct and path == b"/webhooks" else None  # type: ignore[method-assign]
        self.transport = Notes()
        self.protocol.connection_made(self.transport)

    async def feed(self, *pieces: bytes) -> None:
        """Pass these pieces to the protocol one after the other."""
        for piece in pieces:
            if not self.transport.is_closing():
                self.protocol.data_received(piece)
                await turns(20)

    def lose(self) -> None:
        """Lose the connection."""
        self.transport.closed = True
        self.protocol.connection_lost(None)

    @property
    def statuses(self) -> list[int]:
        """The statuses of the answers so far."""
        return [int(status) for status in re.findall(rb"HTTP/1.1 (\d{3}) ", self.transport.written)]


def other(number: int) -> bytes:
    """Return a delivery with another id."""
    body = body_of(webhookId=f"w-{number}")
    return head(body) + body


CHUNKED = b"Transfer-Encoding: chunked"
PIECES = b"%x;ext=1\r\n%b\r\n3\r\n%b\r\n0\r\nX-Trailer: 1\r\n\r\n" % (len(BODY) - 3, BODY[:-3], BODY[-3:])
UNSIGNED = b"POST /webhooks HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n"
LARGE = b"x" * 1_001
MANY = head(BODY, *[b"X-%d: 1" % number for number in range(MAX_HEADERS - 3)], framing=CHUNKED) + PIECES
LONG_BODY = body_of(webhookId="w-1", data=["x" * MAX_UNFRAMED_BYTES])
OFFER = (b"Connection: Upgrade", b"Upgrade: h2c")
SHAPES: dict[str, Sequence[bytes]] = {
    "one piece": [POST],
    "head and body": [head(), BODY],
    "single bytes": [b"%c" % byte for byte in POST],
    "a repetition": [POST, POST],
    "pipelined": [POST + other(2) + other(3)],
    "pipelined with ASGI": [POST + HEALTH + other(2) + HEALTH + other(3)],
    "ASGI, then a half": [HEALTH + POST[:-5], POST[-5:] + HEALTH],
    "half of the next": [POST + other(2)[:30], other(2)[30:]],
    "chunked": [head(framing=CHUNKED) + PIECES],
    "chunks in pieces": [head(framing=CHUNKED), *(PIECES[at : at + 7] for at in range(0, len(PIECES), 7))],
    "chunked, then another": [head(framing=CHUNKED) + PIECES + other(2)],
    "as many headers as may be": [head(BODY, *[b"X-%d: 1" % number for number in range(MAX_HEADERS - 3)]) + BODY],
    "a header too many": [head(BODY, *[b"X-%d: 1" % number for number in range(MAX_HEADERS - 2)]) + BODY],
    "a header too many, then its body": [head(BODY, *[b"X: 1"] * (MAX_HEADERS - 2)), BODY],
    "a long header, then its body": [head(BODY, b"X: " + b"x" * MAX_UNFRAMED_BYTES), BODY],
    "a long header behind another request": [POST + head(BODY, b"X: " + b"x" * MAX_UNFRAMED_BYTES), BODY],
    "a long header and an offer": [head(BODY, b"X: " + b"x" * MAX_UNFRAMED_BYTES, *OFFER), BODY],
    "trailers behind many headers": [MANY[:-2], MANY[-2:]],
    "a head that is too long": [head(BODY, b"X: " + b"x" * MAX_UNFRAMED_BYTES) + BODY],
    "a long first piece": [head(LONG_BODY) + LONG_BODY],
    "wrong chunk": [head(framing=CHUNKED) + b"zz\r\n"],
    "two lengths": [head(BODY, b"Content-Length: %d" % len(BODY)) + BODY],
    "length and chunked": [head(BODY, CHUNKED) + PIECES],
    "close": [head(BODY, b"Connection: close") + BODY],
    "close, then another": [head(BODY, b"Connection: close") + BODY + other(2)],
    "HTTP/1.0": [POST.replace(b"HTTP/1.1", b"HTTP/1.0")],
    "HTTP/1.0 keep-alive": [head(BODY, b"Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0") + BODY],
    "no body": [head(b"")],
    "no JSON": [head(b"abc") + b"abc"],
    "unsigned": [UNSIGNED + b"abc"],
    "unsigned, body later": [UNSIGNED, b"a", b"bc"],
    "unsigned, then another": [UNSIGNED + b"abc" + POST],
    "unsigned, the body never": [UNSIGNED],
    "unsigned, close": [UNSIGNED.replace(b"Host", b"Connection: close\r\nHost"), b"abc"],
    "wrong signature": [head() + BODY[:-1] + b" "],
    "announced too large": [head(LARGE), LARGE, POST],
    "too large in chunks": [head(LARGE, framing=CHUNKED), b"3e9\r\n" + LARGE + b"\r\n0\r\n\r\n", POST],
    "expects 100": [head(BODY, b"Expect: 100-continue"), BODY, other(2)],
    "expects 100, large": [head(LARGE, b"Expect: 100-continue")],
    "an offer": [head(BODY, *OFFER) + BODY + other(2)],
    "an offer in pieces": [POST + head(BODY, *OFFER), BODY, other(2)],
    "a header twice": [head(BODY, b"X-A: 1", b"X-A: 2") + BODY],
    "two signatures": [head(BODY, b"X-Firecrawl-Signature: sha256=00") + BODY],
    "two hosts": [head(BODY, b"Host: i") + BODY],
    "no host": [POST.replace(b"Host: h\r\n", b"")],
    "a query": [head(target=b"/webhooks?a=1") + BODY],
    "escapes in the path": [head(target=b"/web%68ooks") + BODY],
    "an absolute target": [head(target=b"http://h/webhooks") + BODY],
    "another path": [head(target=b"/other") + BODY, POST],
    "another method": [POST.replace(b"POST", b"PUT"), POST],
    "a path that is not ASCII": [head(target="/webhöoks".encode()) + BODY],
    "no HTTP": [POST + b"\x16\x03\x01"],
    "a NUL in a header": [head(BODY, b"X-A: \x00") + BODY],
    "a header of all bytes": [head(BODY, b"X-A: " + bytes(range(0x80, 0x100))) + BODY],
}


async def exchanged(direct: bool, pieces: Sequence[bytes]) -> tuple[object, ...]:
    """Return all that a client and an operator see of these pieces; check that no bytes stay admitted."""
    store = OpenStore()
    line = Line(store, direct=direct)
    await line.feed(*pieces)
    seen = (
        line.transport.written,
        line.transport.closed,
        line.transport.half_closed,
        line.transport.aborted.is_set(),
    )
    line.lose()
    await eventually(lambda: line.intake.bytes_in_flight == 0)
    return *seen, list(store.state.deliveries.values()), list(store.state.quarantined.values())


@pytest.mark.parametrize("pieces", SHAPES.values(), ids=SHAPES)
async def test_a_request_has_the_same_end_with_and_without_asgi(pieces: Sequence[bytes]) -> None:
    """The same bytes as an answer, the same connection after it, and the same record in the store."""
    assert await exchanged(True, pieces) == await exchanged(False, pieces)


async def test_the_usual_requests_pass_asgi_by() -> None:
    """Otherwise the comparison above would compare ASGI with itself. Others between them do not."""
    line = Line(OpenStore())
    counts = []
    for request in (POST, HEALTH, other(2), head(BODY, *OFFER) + BODY):
        await line.feed(request)
        counts.append(line.by_asgi)

    assert counts == [0, 1, 1, 2]

    assert line.statuses == [200] * 4
    line.lose()


@pytest.mark.parametrize("direct", [True, False])
async def test_an_idle_connection_keeps_nothing_of_its_last_request(direct: bool) -> None:
    """Anybody may open many connections and leave them idle."""
    line = Line(OpenStore(), direct=direct)
    await line.feed(POST, UNSIGNED + b"abc", HEALTH)

    assert line.statuses == [200, 401, 200]
    assert line.protocol.url == b""
    assert line.protocol.headers == []
    assert vars(line.protocol)["scope"] is vars(line.protocol)["cycle"] is None
    line.lose()


@pytest.mark.parametrize("refused", [UNSIGNED, UNSIGNED.replace(b"/webhooks", b"/nothing")])
async def test_a_connection_is_idle_after_a_request_that_was_answered_before_its_end(refused: bytes) -> None:
    """Otherwise nothing would ever close it."""
    line = Line(OpenStore())
    await line.feed(refused)
    (status,) = line.statuses
    assert len(line.protocol.idle) == 0

    await line.feed(b"abc")

    assert status in (401, 404)
    assert len(line.protocol.idle) == 1
    assert line.protocol.headers == []
    line.lose()


@pytest.mark.parametrize(
    ("pieces", "statuses"),
    [
        ([head(BODY, *[b"X: 1"] * MAX_HEADERS), BODY], [431]),
        ([head(BODY, b"X: " + b"x" * MAX_UNFRAMED_BYTES), BODY], [431]),
        ([POST + head(BODY, b"X: " + b"x" * MAX_UNFRAMED_BYTES), BODY], [200, 431]),
        ([head(LONG_BODY) + LONG_BODY], [413]),
        ([MANY[:-2], MANY[-2:]], [200]),
    ],
)
async def test_a_head_that_is_too_large_is_answered_wherever_it_is_cut(
    pieces: Sequence[bytes], statuses: Sequence[int]
) -> None:
    """What arrives with it is not counted."""
    line = Line(OpenStore())
    await line.feed(*pieces)

    assert line.statuses == statuses
    line.lose()


@pytest.mark.parametrize("direct", [True, False])
async def test_a_client_that_goes_leaves_no_bytes_admitted(direct: bool) -> None:
    """At whatever byte of the request it goes. A delivery that was complete is stored all the same."""
    for length in range(len(POST) + 1):
        log = SlowLog()
        line = Line(log, direct=direct)
        await line.feed(POST[:length])
        line.lose()
        log.release()
        await eventually(lambda line=line: line.intake.bytes_in_flight == 0)  # type: ignore[misc]

        assert len(log.store.state.deliveries) == (length == len(POST))


@pytest.mark.parametrize("error", [None, StoreError("broken"), asyncio.CancelledError()], ids=repr)
async def test_a_commit_after_the_deadline_gives_the_bytes_back(error: BaseException | None) -> None:
    """The answer was 503, and there is no second one. Until the store has finished, the body takes memory."""
    log = SlowLog()
    line = Line(log, ack_deadline=NOW)
    await line.feed(POST)
    await eventually(lambda: line.statuses == [503])
    assert line.intake.bytes_in_flight > 0

    log.release(error)
    await eventually(lambda: line.intake.bytes_in_flight == 0)
    await line.feed(HEALTH)
    assert line.statuses == [503, 200]
    line.lose()


async def test_a_complete_request_is_never_answered_408() -> None:
    """The next request of the connection has arrived in part, while the store is slow to commit the first."""
    line = Line(SlowLog(), read_timeout=NOW, ack_deadline=timedelta(milliseconds=1))
    await line.feed(POST, other(2)[:30])
    await eventually(lambda: line.statuses)

    assert line.statuses == [503]
    line.lose()


async def test_a_half_request_with_an_offer_is_not_idle_after_a_complete_one() -> None:
    """Idle connections have another time limit, and are closed for new ones."""
    line = Line(OpenStore())
    await line.feed(POST, head(body_of(webhookId="w-2"), *OFFER))

    assert not line.protocol.is_between_requests
    assert line.protocol._timer is not None
    assert len(line.protocol.idle) == 0
    line.lose()


@pytest.mark.parametrize("direct", [True, False])
async def test_a_half_request_in_the_last_piece_of_another_is_not_idle(direct: bool) -> None:
    """It has the time of a slow request."""
    line = Line(OpenStore(), direct=direct)
    await line.feed(POST + other(2)[:30])

    assert line.statuses == [200]
    assert line.protocol._timer is not None
    assert len(line.protocol.idle) == 0
    line.lose()


@pytest.mark.parametrize("direct", [True, False])
async def test_a_connection_is_not_idle_while_its_second_request_waits_for_the_store(direct: bool) -> None:
    """To close it for a new connection would lose the answer."""
    log = SlowLog()
    line = Line(log, direct=direct)
    await line.feed(POST + other(2))
    log.release()
    await eventually(lambda: line.statuses == [200] and log.withheld)

    assert len(line.protocol.idle) == 0
    log.release()
    await eventually(lambda: line.statuses == [200, 200])
    assert len(line.protocol.idle) == 1
    line.lose()


@pytest.mark.parametrize("direct", [True, False])
async def test_a_client_has_no_more_time_to_read_the_answer_to_what_is_no_request(direct: bool) -> None:
    """It may keep the connection open without reading."""
    line = Line(OpenStore(), direct=direct)
    await line.feed(POST, b"\x16\x03\x01")
    assert line.statuses == [200, 400]
    assert line.protocol._timer is not None
    line.lose()


@pytest.mark.parametrize("unread", [0, 100])
@pytest.mark.parametrize("direct", [True, False])
async def test_a_closed_connection_ends_though_its_client_does_not_read(direct: bool, unread: int) -> None:
    """An event loop closes a connection when all is sent, and waits for that as long as it takes."""
    line = Line(OpenStore(), direct=direct)
    line.transport.unread, line.protocol.read_seconds = unread, -1.0
    await line.feed(head(BODY, b"Connection: close") + BODY)
    assert (line.statuses, line.transport.closed) == ([200], True)

    await eventually(lambda: line.transport.aborted.is_set() == bool(unread))
    line.lose()


async def test_a_webhook_stops_the_time_of_an_idle_connection_that_asgi_has_begun() -> None:
    """uvicorn has a timer for each of its idle connections."""
    line = Line(OpenStore())
    await line.feed(HEALTH)
    assert line.protocol.timeout_keep_alive_task is not None
    await line.feed(POST[:-1])
    assert line.protocol.timeout_keep_alive_task is None
    line.lose()


async def test_answers_that_nobody_reads_do_not_fill_the_memory() -> None:
    """A client that sends and never reads has the time of a slow request; until then nothing is answered."""
    line = Line(OpenStore())
    line.protocol.pause_writing()
    timer = line.protocol._timer
    await line.feed(*[UNSIGNED + b"abc"] * 10)

    assert line.transport.written == b""
    assert line.protocol._timer is timer
    line.protocol.resume_writing()
    await eventually(lambda: line.statuses == [401] * 10)
    assert line.protocol._timer is None
    line.lose()


async def test_a_client_that_reads_again_has_no_more_time_for_half_a_request() -> None:
    """Its timer runs on."""
    line = Line(OpenStore())
    await line.feed(POST[:30])
    line.protocol.pause_writing()
    line.protocol.resume_writing()

    assert line.protocol._timer is not None
    line.lose()


async def test_a_fault_of_ours_is_answered_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn answers 400 to all that a callback of the parser raises, and the sender would give the event up."""
    monkeypatch.setattr(WebhookEndpoint, "begin", lambda *_, **__: 1 / 0)
    line = Line(OpenStore())
    await line.feed(POST)

    assert line.statuses == [503]
    assert line.transport.half_closed
    line.lose()


async def test_a_request_leaves_nothing_for_the_garbage_collector() -> None:
    """A cycle of references per request would keep its headers until the next collection."""
    gc.collect()
    gc.disable()
    try:
        line = Line(OpenStore())
        await line.feed(*(other(number) for number in range(20)))
        await line.feed(*[UNSIGNED + b"abc"] * 20)
        receptions = [one for one in gc.get_objects() if isinstance(one, Reception)]
    finally:
        gc.enable()

    assert line.statuses == [200] * 20 + [401] * 20
    assert [one for one in receptions if one._receptions.intake is line.intake] == []
    line.lose()


async def test_a_stopping_server_answers_what_it_has_received() -> None:
    """It closes an idle connection at once, and one with a request after the answer."""
    log = SlowLog()
    idle, busy, half = (Line(log) for _ in range(3))
    await busy.feed(POST)
    await half.feed(POST[:-5])
    for line in (idle, busy, half):
        line.protocol.shutdown()
    assert (idle.transport.closed, busy.transport.closed, half.transport.closed) == (True, False, False)

    await half.feed(POST[-5:])
    log.release()
    for line in (busy, half):
        await eventually(lambda line=line: line.transport.closed)  # type: ignore[misc]
        assert line.statuses == [200]
        assert b"\r\nconnection: close\r\n" in line.transport.written
        line.lose()
        assert line.intake.bytes_in_flight == 0
