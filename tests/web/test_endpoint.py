"""Tests of the endpoint, called directly as an ASGI app."""

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.ports.log import DeliveryLog
from receiver.core.signing import sign
from receiver.core.types import DeliveryKey
from receiver.errors import StoreError
from receiver.runtime.log_lines import MAX_LINES
from receiver.signals import DeliveryRefused, delivery_accepted, delivery_duplicated, delivery_refused
from receiver.web.reception import Stopwatch, WebhookEndpoint
from tests.doubles import (
    LONG,
    NOON,
    SECRET,
    Answer,
    BrokenLog,
    OpenStore,
    SlowLog,
    ask,
    body_of,
    event_of,
    soon,
    turns,
    watching,
)
from tests.web.parts import check_error, intake

SOON = timedelta(milliseconds=1)
LATE = timedelta(seconds=LONG)
BODY = body_of(webhookId="w-1")


def headers(body: bytes = BODY, **more: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"x-firecrawl-signature", sign(body, SECRET).encode())] + [
        (name.replace("_", "-").encode(), value) for name, value in more.items()
    ]


def endpoint(
    log: DeliveryLog,
    *,
    read_timeout: timedelta = LATE,
    ack_deadline: timedelta = LATE,
    stopwatch: Stopwatch | None = None,
    **limits: Any,
) -> WebhookEndpoint:
    return WebhookEndpoint(
        intake(log, **limits), read_timeout=read_timeout, ack_deadline=ack_deadline, stopwatch=stopwatch
    )


async def test_a_signed_delivery_is_accepted_and_its_repetition_is_a_duplicate() -> None:
    """The id in the answer is the key of the delivery."""
    app = endpoint(OpenStore())

    answers = [await ask(app, headers=headers(), chunks=[BODY]) for _ in range(2)]

    assert [(answer.status, answer.content) for answer in answers] == [
        (200, {"status": "accepted", "id": "w-1"}),
        (200, {"status": "duplicate", "id": "w-1"}),
    ]


async def test_a_conflict_is_answered_as_a_duplicate() -> None:
    """The sender cannot resolve a conflict."""
    app = endpoint(OpenStore())
    await ask(app, headers=headers(), chunks=[BODY])
    other = body_of(webhookId="w-1", more=1)

    answer = await ask(app, headers=headers(other), chunks=[other])

    assert (answer.status, answer.content) == (200, {"status": "duplicate", "id": "w-1"})


@pytest.mark.parametrize(
    "pieces", [[b"", BODY], [BODY[:1], BODY[1:]], [BODY, b""], [b"%c" % byte for byte in BODY]]
)
async def test_the_pieces_of_a_body_are_joined(pieces: Sequence[bytes]) -> None:
    """A proxy may cut a body at any place."""
    store = OpenStore()
    answer = await ask(endpoint(store), headers=headers(), chunks=pieces)

    assert answer.status == 200
    assert (await store.detail(DeliveryKey("w-1"))).body == BODY


@pytest.mark.parametrize("length", [2, 700, 1_023, 1_024, 5_000])
async def test_small_pieces_take_little_more_memory_than_the_body(length: int) -> None:
    """Anybody may send chunks of two bytes: each alone would take twenty times as much."""
    body = body_of(webhookId="w-1", data=[str(number) for number in range(20_000)])
    store, answered = OpenStore(), asyncio.Event()
    app = endpoint(store, max_body=len(body), max_in_flight=len(body))
    tracemalloc.start()
    try:
        reception = app.begin(
            headers(body), dict(headers(body)), lambda _: answered.set(), client=None, target="/webhooks"
        )
        before, _ = tracemalloc.get_traced_memory()
        for start in range(0, len(body), length):
            reception.grow(body[start : start + length])
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    reception.complete()
    await soon(answered.wait())

    assert after - before < len(body) * 1.5
    assert (await store.detail(DeliveryKey("w-1"))).body == body


async def test_nothing_is_acknowledged_before_the_commit() -> None:
    """P1: the endpoint answers after the store has committed."""
    log = SlowLog()
    answering = asyncio.create_task(ask(endpoint(log), headers=headers(), chunks=[BODY]))
    await turns()
    assert not answering.done()

    log.release()
    assert (await soon(answering)).status == 200


async def test_a_commit_after_the_deadline_is_answered_503() -> None:
    """P2: the answer comes within the deadline and has a Retry-After header."""
    answer = await soon(ask(endpoint(SlowLog(), ack_deadline=SOON), headers=headers(), chunks=[BODY]))

    check_error(answer, 503, "unavailable")
    assert int(answer.headers[b"retry-after"]) <= 60


async def test_a_late_commit_to_quarantine_is_answered_503() -> None:
    """After a 400 the sender would not try again."""
    answer = await soon(ask(endpoint(SlowLog(), ack_deadline=SOON), headers=headers(b"x"), chunks=[b"x"]))

    check_error(answer, 503, "unavailable")


async def test_the_retry_of_a_late_commit_is_a_duplicate() -> None:
    """The first answer was 503, and the delivery is stored only once."""
    log = SlowLog()
    app = endpoint(log, ack_deadline=SOON)
    assert (await soon(ask(app, headers=headers(), chunks=[BODY]))).status == 503
    log.release()
    await turns()

    again = asyncio.create_task(ask(endpoint(log), headers=headers(), chunks=[BODY]))
    await turns()
    log.release()

    assert (await soon(again)).content["status"] == "duplicate"
    assert await log.store.count_unfinished() == 1


@pytest.mark.parametrize("error", [None, StoreError("full")])
@pytest.mark.parametrize("body", [BODY, b"x"])
async def test_a_result_after_the_answer_is_not_logged_as_an_error(
    caplog: pytest.LogCaptureFixture, body: bytes, error: Exception | None
) -> None:
    """This applies to deliveries and quarantined bodies, if the write succeeds or fails."""
    log = SlowLog()
    app = endpoint(log, ack_deadline=SOON)
    assert (await soon(ask(app, headers=headers(body), chunks=[body]))).status == 503
    caplog.clear()
    log.release(error)
    await turns()
    gc.collect()

    assert [record.name for record in caplog.records if record.name == "asyncio"] == []


async def test_an_incomplete_body_is_answered_408() -> None:
    """The body has not arrived at all, or its last byte is missing."""
    for pieces in ([], [BODY[:10]]):
        answer = await soon(
            ask(endpoint(OpenStore(), read_timeout=SOON), headers=headers(), chunks=pieces, ends="never")
        )
        check_error(answer, 408, "timeout")


async def test_a_disconnected_sender_gets_no_answer() -> None:
    """Nothing is stored, and the bytes of the request are free again."""
    store = OpenStore()
    app = endpoint(store, max_in_flight=6_000)
    for _ in range(20):
        answer = await ask(app, headers=headers(), chunks=[BODY[:50]], ends="disconnect")
        assert not answer.sent

    assert await store.count_unfinished() == 0
    assert (await ask(app, headers=headers(), chunks=[BODY])).status == 200


async def test_slow_bodies_release_their_bytes() -> None:
    """A thousand slow bodies do not use up the budget."""
    app = endpoint(OpenStore(), read_timeout=SOON, max_in_flight=6_000)
    for _ in range(20):
        assert (await soon(ask(app, headers=headers(), chunks=[BODY[:50]], ends="never"))).status == 408

    answer = await ask(endpoint(OpenStore(), max_in_flight=6_000), headers=headers(), chunks=[BODY])
    assert answer.status == 200


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        ([], 401, "unauthenticated"),
        (headers(b"other"), 401, "unauthenticated"),
        ([(b"x-firecrawl-signature", b"\xff\x00")], 401, "unauthenticated"),
        (headers(content_length=b"1001"), 413, "too_large"),
    ],
    ids=str,
)
async def test_an_error_that_a_retry_cannot_repair_is_answered_4xx(
    sent: list[tuple[bytes, bytes]], status: int, code: str
) -> None:
    """Nothing is stored."""
    store = OpenStore()

    check_error(await ask(endpoint(store), headers=sent, chunks=[BODY]), status, code)
    assert await store.count_unfinished() == 0
    assert not store.state.quarantined


async def test_a_refusal_by_headers_does_not_wait_for_the_body() -> None:
    """The endpoint does not read the body of an unknown sender."""
    answer = await soon(ask(endpoint(OpenStore()), headers=[], chunks=[], ends="never"))

    check_error(answer, 401, "unauthenticated")


async def test_a_chunked_body_is_limited_too() -> None:
    """A chunked body does not announce its length."""
    pieces = [b" " * 100] * 11

    check_error(await ask(endpoint(OpenStore()), headers=headers(), chunks=pieces), 413, "too_large")


@pytest.mark.parametrize("length", [b"", b"-1", b"abc", b"1.5", b"9" * 30, b"\xb2", b"0", b"17"])
async def test_a_strange_announced_length_is_ignored(length: bytes) -> None:
    """Only the bytes that arrive count."""
    answer = await ask(endpoint(OpenStore()), headers=headers(content_length=length), chunks=[BODY])

    assert answer.status == 200


async def test_a_malformed_body_is_answered_400_and_kept() -> None:
    """P7: the body is kept in quarantine."""
    store = OpenStore()

    check_error(await ask(endpoint(store), headers=headers(b"[]"), chunks=[b"[]"]), 400, "malformed")
    assert [kept.body for kept in store.state.quarantined.values()] == [b"[]"]


async def test_too_many_bytes_in_flight_are_answered_503() -> None:
    """P9: the process answers and does not run out of memory."""
    body = body_of(x="y" * 800)

    answer = await ask(endpoint(OpenStore(), max_in_flight=500), headers=headers(body), chunks=[body])

    check_error(answer, 503, "unavailable")


@pytest.mark.parametrize(
    "error", [StoreError("the database is locked"), RuntimeError("bug"), OSError(28, "No space"), TimeoutError("x")]
)
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("body", [BODY, b"no envelope"])
async def test_every_internal_error_is_answered_503(error: Exception, at_once: bool, body: bytes) -> None:
    """P6: the answer is never 500, and the server never gets an exception."""
    answer = await ask(endpoint(BrokenLog(error, at_once=at_once)), headers=headers(body), chunks=[body])

    check_error(answer, 503, "unavailable")
    assert b"locked" not in answer.body


async def test_a_cancelled_write_is_answered_503() -> None:
    """The task of the store is cancelled here, not the request."""
    log = SlowLog()
    answering = asyncio.create_task(ask(endpoint(log), headers=headers(), chunks=[BODY]))
    await turns()
    log.release(asyncio.CancelledError())
    await asyncio.wait([answering])

    assert not answering.cancelled()
    check_error(await answering, 503, "unavailable")


async def test_a_cancelled_request_is_not_answered() -> None:
    """The server cancels requests when it stops. The write continues."""
    log = SlowLog()
    answering = asyncio.create_task(ask(endpoint(log), headers=headers(), chunks=[BODY]))
    await turns()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    log.release()

    assert await log.store.count_unfinished() == 1


async def test_an_exception_of_receive_is_answered_503() -> None:
    """A server or a middleware may raise it."""
    sent: list[Any] = []

    async def receive() -> Any:
        raise RuntimeError("broken middleware")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "headers": headers()}
    await endpoint(OpenStore())(scope, receive, send)

    check_error(Answer(sent), 503, "unavailable")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "get", ""])
async def test_only_post_is_allowed(method: str) -> None:
    """Other methods are answered 405."""
    answer = await ask(endpoint(OpenStore()), method, headers=headers(), chunks=[BODY])

    check_error(answer, 405, "method_not_allowed")
    assert answer.headers[b"allow"] == b"POST"


async def test_a_flood_of_refusals_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Anybody can send it. One line sums up what is above the rate."""
    taken_in = intake(OpenStore())
    app = WebhookEndpoint(taken_in, read_timeout=LATE, ack_deadline=LATE)
    for _ in range(MAX_LINES):
        taken_in.refusal_rate.allows("unauthenticated")
    for _ in range(50):
        assert (await ask(app)).status == 401
    taken_in.close()

    [*written, last] = caplog.records
    assert event_of(last) == "deliveries_refused"
    assert len(written) + vars(last)["count"] == 50


async def test_a_store_that_fails_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Every request fails then. One line sums up what is above the rate."""
    taken_in = intake(BrokenLog(StoreError("the disk is full")))
    app = WebhookEndpoint(taken_in, read_timeout=LATE, ack_deadline=LATE)
    for _ in range(MAX_LINES + 5):
        assert (await ask(app, headers=headers(), chunks=[BODY])).status == 503
    taken_in.close()

    [*written, last] = caplog.records
    assert (event_of(last), vars(last)["kinds"]) == (
        "deliveries_not_stored",
        f"store_error {vars(last)['count']:,}",
    )
    assert len(written) + vars(last)["count"] == MAX_LINES + 5


async def test_refusals_are_logged_without_signature_and_body(caplog: pytest.LogCaptureFixture) -> None:
    """P10: the log line has only the reason."""
    caplog.set_level(logging.DEBUG)
    app = endpoint(OpenStore())
    for sent, body in ((headers(b"other"), b"hidden-body"), (headers(b"[1]"), b"[1]"), ([], b"")):
        await ask(app, headers=sent, chunks=[body])

    assert [event_of(record) for record in caplog.records if record.name == "receiver.web.intake"] == [
        "delivery_refused"
    ] * 3
    logged = repr([vars(record) for record in caplog.records])
    assert "sha256=" not in logged
    assert "hidden-body" not in logged
    assert SECRET not in logged


async def test_a_refused_request_is_logged_with_its_sender(caplog: pytest.LogCaptureFixture) -> None:
    """Address, path and user agent, each cut to 200 characters: they come from outside."""
    app = endpoint(OpenStore())
    sent = [(b"user-agent", b"curl\x1b[2J/8" + b"x" * 10_000), *headers(b"other")]
    await ask(app, headers=sent, chunks=[BODY])

    (record,) = [record for record in caplog.records if record.name == "receiver.web.intake"]
    fields = vars(record)
    assert fields["client"] == "127.0.0.1"
    assert fields["path"] == "/webhooks"
    assert fields["user_agent"].startswith("curl\x1b[2J/8xxx")
    assert len(fields["user_agent"]) == 201
    assert "from 127.0.0.1 to /webhooks by 'curl\\x1b[2J/8xxx" in record.getMessage()
    assert len(record.getMessage()) < 500


# --- who watches


@pytest.mark.parametrize(
    ("log", "sent", "status", "reason"),
    [
        (OpenStore(), {"headers": [], "chunks": [BODY]}, 401, "unauthenticated"),
        (OpenStore(), {"headers": headers(b"x"), "chunks": [b"x"]}, 400, "malformed"),
        (OpenStore(), {"headers": headers(), "chunks": [BODY], "ends": "never"}, 408, "timeout"),
        (OpenStore(), {"headers": headers(), "chunks": [b"x" * 1_001]}, 413, "too_large"),
        (BrokenLog(StoreError("full")), {"headers": headers(), "chunks": [BODY]}, 503, "store_error"),
        (BrokenLog(ValueError("ours")), {"headers": headers(), "chunks": [BODY]}, 503, "fault"),
        (BrokenLog(MemoryError()), {"headers": headers(), "chunks": [BODY]}, 503, "overloaded"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
async def test_subscribers_are_notified_of_every_refusal(
    log: DeliveryLog, sent: dict[str, Any], status: int, reason: str
) -> None:
    """They get it once, with the status of the answer and without a secret."""
    read_timeout = SOON if reason == "timeout" else LATE
    with watching(delivery_refused, delivery_accepted) as records:
        answer = await soon(ask(endpoint(log, read_timeout=read_timeout), **sent))

    [refusal] = records
    assert isinstance(refusal, DeliveryRefused)
    assert (refusal.status, refusal.reason) == (answer.status, reason) == (status, reason)
    assert refusal.detail
    assert SECRET not in refusal.detail
    assert refusal.at == NOON


async def test_subscribers_are_notified_of_an_overload() -> None:
    """Its reason differs from the reason for a failed store."""
    with watching(delivery_refused) as records:
        await ask(endpoint(OpenStore(), max_in_flight=10), headers=headers(), chunks=[BODY])

    assert [(record.status, record.reason) for record in records] == [(503, "overloaded")]


async def test_subscribers_are_notified_of_a_late_commit() -> None:
    """They also got the refusal with 503; both are true, and the sender tries again."""
    log = SlowLog()
    with watching(delivery_refused, delivery_accepted, delivery_duplicated) as records:
        await soon(ask(endpoint(log, ack_deadline=SOON), headers=headers(), chunks=[BODY]))
        log.release()
        await turns()

    refusal, accepted = records
    assert (refusal.status, refusal.reason) == (503, "deadline")
    assert accepted.key == "w-1"


async def test_a_request_without_an_answer_is_not_reported_as_a_refusal() -> None:
    """The sender has disconnected."""
    with watching(delivery_refused) as records:
        await ask(endpoint(OpenStore()), headers=headers(), chunks=[BODY[:3]], ends="disconnect")

    assert records == []


async def test_a_stopwatch_runs_from_the_headers_to_the_answer() -> None:
    """It gets the status. How long a sender takes to read the answer does not count."""
    told: list[object] = []

    def stopwatch() -> Callable[[int], None]:
        told.append("headers")
        return told.append

    async def receive_and_tell(scope: Any, receive: Any, send: Any) -> None:
        async def telling(message: Any) -> None:
            told.append(message["type"])
            await send(message)

        await endpoint(OpenStore(), stopwatch=stopwatch)(scope, receive, telling)

    await ask(receive_and_tell, headers=headers(), chunks=[BODY])
    await ask(receive_and_tell, headers=[], chunks=[BODY])
    await ask(receive_and_tell, headers=headers(), chunks=[b"x"], ends="disconnect")

    sent = ["http.response.start", "http.response.body"]
    assert told == ["headers", 200, *sent, "headers", 401, *sent, "headers"]
