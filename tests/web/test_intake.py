"""Tests of authentication, and of the path of a body to the store."""

import asyncio
import base64
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.deliveries import DeliveryFilter, Receipt
from receiver.core.ports.log import DeliveryLog
from receiver.core.signing import sign
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.errors import Malformed, Overloaded, StoreError, Unauthenticated
from receiver.runtime.log_lines import LineRate
from receiver.signals import (
    DeliveryAccepted,
    DeliveryDuplicated,
    DeliveryRefused,
    delivery_accepted,
    delivery_duplicated,
    delivery_refused,
    flush,
)
from receiver.web.intake import Authenticator, Intake
from tests.doubles import (
    LONG,
    NOON,
    SECRET,
    BrokenLog,
    OpenStore,
    SlowLog,
    accepted,
    body_of,
    event_of,
    soon,
    told,
    turns,
    watching,
)

BODY = body_of(webhookId="w-1")
SIGNATURE = b"x-firecrawl-signature"
RawHeaders = Sequence[tuple[bytes, bytes]]


def gate(
    secrets: Sequence[str] = (SECRET,), *, token_header: str | None = None, tokens: Sequence[str] = ()
) -> Authenticator:
    return Authenticator(
        signature_header="X-Firecrawl-Signature", secrets=secrets, token_header=token_header, tokens=tokens
    )


def signed(body: bytes = BODY, secret: str = SECRET) -> RawHeaders:
    return [(SIGNATURE, sign(body, secret).encode())]


def intake(
    log: DeliveryLog, of: Authenticator | None = None, *, max_body: int = 10_000, max_in_flight: int = 100_000
) -> Intake:
    return Intake(log, of or gate(), VirtualClock(NOON), max_body=max_body, max_in_flight=max_in_flight)


# --- Gate


def is_authentic(of: Authenticator, headers: RawHeaders, body: bytes = BODY) -> bool:
    """Tell whether a request with these headers and this body is authentic."""
    said = ""
    try:
        of.check_headers(dict(headers))
        of.check_body(dict(headers), body)
    except Unauthenticated as exc:
        said = str(exc)
    assert SECRET not in said
    assert "tok-1" not in said
    return not said


TOKEN = [(b"x-token", b"tok-1")]
BOTH = gate(token_header="X-Token", tokens=["tok-1"])


@pytest.mark.parametrize(
    ("of", "headers", "opened"),
    [
        (gate(), signed(), True),
        (gate(["old", SECRET]), signed(), True),
        (gate(["old", "new"]), signed(), False),
        (gate(), signed(BODY + b" "), False),
        (gate(), [], False),
        (gate(), [(SIGNATURE, b"")], False),
        (gate(), [(SIGNATURE, b"\xff\xfe")], False),
        (gate(), [(SIGNATURE, sign(BODY, SECRET).upper().encode())], False),
        (gate(), [(b"x-signature", sign(BODY, SECRET).encode())], False),
        (gate(), TOKEN, False),
        (gate([]), [], True),
        (gate([]), [(SIGNATURE, b"garbage")], True),
        (gate([], token_header="X-Token", tokens=["tok-1"]), TOKEN, True),
        (gate([], token_header="X-Token", tokens=["tok-0", "tok-1"]), TOKEN, True),
        (gate([], token_header="X-Token", tokens=["tok-2"]), TOKEN, False),
        (gate([], token_header="X-Token", tokens=["tok-1"]), [], False),
        (gate([], token_header="X-Token", tokens=["tok-1"]), [(b"x-token", b"")], False),
        (gate([], token_header="X-Token", tokens=["tok-1"]), [*TOKEN, (SIGNATURE, b"garbage")], True),
        (BOTH, signed(), True),
        (BOTH, TOKEN, True),
        (BOTH, [], False),
        (BOTH, [(b"x-token", b"wrong")], False),
        (BOTH, [*signed(), (b"x-token", b"wrong")], True),
        (BOTH, [*TOKEN, (SIGNATURE, b"garbage")], False),
        (BOTH, [*TOKEN, *signed(b"other")], False),
    ],
    ids=told,
)
def test_the_signature_counts_if_there_are_secrets_else_the_token(
    of: Authenticator, headers: RawHeaders, opened: bool
) -> None:
    """Without secrets and tokens every request is authentic."""
    assert is_authentic(of, headers) is opened


def test_a_request_without_credentials_is_refused_before_its_body_is_read() -> None:
    """It has neither a signature nor a token."""
    for headers in ({}, {b"x-token": b"wrong"}):
        with pytest.raises(Unauthenticated):
            BOTH.check_headers(headers)


def test_another_signature_header_can_be_configured() -> None:
    """Upper and lower case in its name are equal, and its value is masked."""
    of = Authenticator(signature_header="X-Hub-Signature-256", secrets=[SECRET], token_header=None, tokens=())
    headers = [(b"x-hub-signature-256", sign(BODY, SECRET).encode())]

    assert is_authentic(of, headers)
    assert not is_authentic(of, signed())
    assert of.masked(headers) == (("x-hub-signature-256", "***"),)


@pytest.mark.parametrize("before", ["", "u", "us", "use", "user:"])
@pytest.mark.parametrize("after", ["", "x", "xy", ":x"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_every_configured_secret_is_masked_also_in_base64(
    before: str, after: str, encode: Callable[[bytes], bytes]
) -> None:
    """Examples are the password of Basic authentication, and the API key in a forwarded header."""
    of = Authenticator(
        signature_header="S",
        secrets=["first-secret"],
        token_header="T",
        tokens=["second>secret?"],
        other_secrets=["third~secret"],
    )
    for secret in ("first-secret", "second>secret?", "third~secret"):
        text = (before + secret + after).encode()
        kept = of.masked([(b"x-a", text), (b"x-b", b"Basic " + encode(text)), (b"x-c", encode(b"something else"))])

        assert [value for _, value in kept] == ["***", "***", encode(b"something else").decode()]


def test_a_very_short_secret_does_not_mask_other_headers() -> None:
    """Its form in base64 has only one or two letters."""
    assert gate(["s"]).masked([(b"x-b", b"cw==")]) == (("x-b", "cw=="),)


def test_stored_headers_contain_no_credentials() -> None:
    """The configured headers, well-known headers, and secrets in other headers are masked."""
    headers = [
        *signed(),
        *TOKEN,
        (b"authorization", b"Bearer abc"),
        (b"x-copy", b"tok-1"),
        (b"x-secret", SECRET.encode()),
        (b"accept", b"*/*"),
    ]

    kept = BOTH.masked(headers)

    assert [name for name, value in kept if value != "***"] == ["accept"]
    assert len(kept) == len(headers)


# --- Intake


async def test_an_authentic_body_is_stored_with_its_exact_bytes() -> None:
    """The time is the present, and headers are masked."""
    store = OpenStore()
    taker = intake(store)
    headers = [*signed(), (b"x-a", b"\xff")]

    receipt = await accepted(taker, headers, BODY)

    assert (receipt.key, receipt.outcome) == ("w-1", AppendOutcome.ACCEPTED)
    detail = await store.detail(receipt.key)
    assert detail.body == BODY
    assert detail.headers == (("x-firecrawl-signature", "***"), ("x-a", "\xff"))
    assert detail.summary.received_at == NOON


async def test_a_body_that_is_not_authentic_is_not_kept() -> None:
    """It is not a delivery and not in quarantine, and its bytes are released."""
    store = OpenStore()
    taker = intake(store, max_in_flight=10_000)
    headers = signed(b"other")

    for _ in range(5):
        admission = taker.admit(dict(headers), None)
        admission.grow(5_000)
        with pytest.raises(Unauthenticated):
            accepted(taker, headers, BODY, admission)

    assert not store.state.quarantined
    assert await store.count_unfinished() == 0


@pytest.mark.parametrize("body", [b"not json", b"[]", b"{}", b"\xff", b""])
async def test_an_authentic_body_without_an_envelope_is_quarantined(body: bytes) -> None:
    """It is refused after the quarantine has stored it."""
    log = SlowLog()
    taker = intake(log)
    headers = [*signed(body), (b"cookie", b"a=b")]

    answer = accepted(taker, headers, body)
    await turns()
    assert not answer.done()
    log.release()

    with pytest.raises(Malformed) as caught:
        await answer
    (kept,) = log.store.state.quarantined.values()
    assert (kept.reason, kept.detail, kept.body, kept.key) == ("malformed", str(caught.value), body, None)
    assert kept.headers == (("x-firecrawl-signature", "***"), ("cookie", "***"))
    assert kept.received_at == NOON


@pytest.mark.parametrize("body", [BODY, b"not json"])
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_failed_write_is_a_store_error(body: bytes, at_once: bool) -> None:
    """It is never Malformed, because the sender must try again. The bytes are released."""
    taker = intake(BrokenLog(StoreError("full"), at_once=at_once), max_in_flight=10_000)
    headers = signed(body)

    for _ in range(5):
        admission = taker.admit(dict(headers), None)
        admission.grow(5_000)
        with pytest.raises(StoreError, match="full"):
            await accepted(taker, headers, body, admission)
        await turns(3)


@pytest.mark.parametrize("body", [BODY, b"not json"])
async def test_a_request_releases_its_bytes_after_the_write(body: bytes) -> None:
    """It does not release them when its sender disconnects: the bytes are still in memory."""
    log = SlowLog()
    taker = intake(log, max_in_flight=10_000)
    headers = signed(body)
    admission = taker.admit(dict(headers), None)
    admission.grow(5_000)
    answer = accepted(taker, headers, body, admission)
    waiting = asyncio.shield(answer)
    waiting.cancel()
    await turns()

    with pytest.raises(Overloaded):
        taker.admit(dict(headers), None).grow(5_000)

    log.release()
    await turns()
    assert answer.done()
    answer.exception()


LONG_BODY = BODY + b" " * 256 * 1024


class HeldGate(Authenticator):
    """A gate that looks at a long body for as long as the test wants."""

    def __init__(self) -> None:
        super().__init__(signature_header="X-Firecrawl-Signature", secrets=[SECRET], token_header=None, tokens=())
        self.begun, self.released = threading.Event(), threading.Event()

    def check_body(self, headers: Mapping[bytes, bytes], body: bytes) -> None:
        """Look at it."""
        if len(body) > len(BODY):
            self.begun.set()
            assert self.released.wait(LONG)
        super().check_body(headers, body)


async def test_other_deliveries_do_not_wait_for_a_long_body() -> None:
    """A thread examines the long body, so the event loop can answer other requests."""
    gate, store = HeldGate(), OpenStore()
    taker = intake(store, gate, max_body=10**6, max_in_flight=10**6)
    long_headers, short_headers = signed(LONG_BODY), signed()
    long_one = accepted(taker, long_headers, LONG_BODY)
    assert await asyncio.to_thread(gate.begun.wait, LONG)

    short_one = accepted(taker, short_headers, BODY)
    assert (await soon(short_one)).outcome is AppendOutcome.ACCEPTED
    assert not long_one.done()

    gate.released.set()
    assert (await soon(long_one)).outcome is AppendOutcome.CONFLICT
    taker.close()


@pytest.mark.parametrize(
    ("body", "secret", "error"),
    [
        (LONG_BODY, SECRET, None),
        (LONG_BODY, "another", Unauthenticated),
        (b"x" + LONG_BODY, SECRET, Malformed),
        (b"[" + LONG_BODY + b"]", SECRET, Malformed),
    ],
    ids=["accepted", "not authentic", "not JSON", "no object"],
)
async def test_a_long_body_has_the_same_result_as_a_short_one(
    body: bytes, secret: str, error: type[Exception] | None
) -> None:
    """Its bytes are released in each case."""
    store = OpenStore()
    taker = intake(store, max_body=10**6, max_in_flight=10**6)
    headers = signed(body, secret)
    admission = taker.admit(dict(headers), None)
    admission.grow(len(body))
    answer = accepted(taker, headers, body, admission)

    if error is None:
        assert (await soon(answer)).outcome is AppendOutcome.ACCEPTED
    else:
        with pytest.raises(error):
            await soon(answer)
    await turns()
    assert taker.bytes_in_flight == 0
    assert len(store.state.quarantined) == (error is Malformed)
    taker.close()


async def test_a_long_body_that_no_thread_takes_releases_its_bytes() -> None:
    """The endpoint was closed meanwhile, or the system starts no more threads."""
    taker = intake(OpenStore(), max_body=10**6, max_in_flight=10**6)
    taker.close()
    headers = signed(LONG_BODY)
    admission = taker.admit(dict(headers), None)
    admission.grow(len(LONG_BODY))

    with pytest.raises(RuntimeError):
        accepted(taker, headers, LONG_BODY, admission)
    assert taker.bytes_in_flight == 0


async def test_a_long_body_that_waits_when_the_endpoint_closes_is_given_up() -> None:
    """Its sender is told so, and its bytes are released."""
    gate = HeldGate()
    taker = intake(OpenStore(), gate, max_body=10**6, max_in_flight=10**6)
    headers = signed(LONG_BODY)
    first, waiting = accepted(taker, headers, LONG_BODY), accepted(taker, headers, LONG_BODY)
    assert await asyncio.to_thread(gate.begun.wait, LONG)
    taker.close()
    await turns(5)
    assert waiting.cancelled()

    gate.released.set()
    assert (await soon(first)).outcome is AppendOutcome.ACCEPTED
    assert taker.bytes_in_flight == 0


@pytest.mark.parametrize("body", [BODY, b"not json"])
async def test_a_write_that_is_cancelled_releases_its_bytes(body: bytes) -> None:
    """The store was closed first."""
    log = SlowLog()
    taker = intake(log)
    answer = accepted(taker, signed(body), body)
    log.release(asyncio.CancelledError())
    await turns(3)

    assert answer.cancelled()
    assert taker.bytes_in_flight == taker.quarantined == 0


async def test_a_fault_in_the_report_of_a_delivery_does_not_keep_its_sender_waiting(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delivery is stored, and the event loop's handler of exceptions is told of the fault."""
    caplog.set_level(logging.INFO)
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    fault = ValueError("a bug")

    def fail(*_: object) -> bool:
        raise fault

    taker = intake(OpenStore())
    monkeypatch.setattr(LineRate, "allows", fail)

    assert (await soon(accepted(taker, signed(), BODY))).outcome is AppendOutcome.ACCEPTED
    assert [one["exception"] for one in reported] == [fault]


async def test_a_refused_request_releases_its_first_bytes() -> None:
    """Thousands of refused requests must not use up the budget."""
    taker = intake(OpenStore(), max_in_flight=5_000)
    for _ in range(100):
        admission = taker.admit(dict(signed()), None)
        with pytest.raises(Overloaded):
            admission.grow(5_001)
        admission.release()

    taker.admit(dict(signed()), None).grow(1_000)


async def test_a_probe_writes_to_the_store() -> None:
    """It raises the same errors as a write."""
    await intake(OpenStore()).probe()
    with pytest.raises(StoreError, match="locked"):
        await intake(BrokenLog(StoreError("locked"))).probe()


async def test_each_outcome_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The line identifies the delivery. For a conflict it is an error."""
    caplog.set_level(logging.INFO)
    taker = intake(OpenStore())
    other = body_of(webhookId="w-1", more=1)
    for body in (BODY, BODY, other):
        headers = signed(body)
        await accepted(taker, headers, body)
    await turns(3)

    assert [(record.levelname, event_of(record)) for record in caplog.records] == [
        ("INFO", "delivery_accepted"),
        ("INFO", "delivery_duplicate"),
        ("ERROR", "delivery_conflict"),
    ]
    assert vars(caplog.records[0])["id"] == "w-1"


async def test_a_conflict_is_logged_at_every_log_level(caplog: pytest.LogCaptureFixture) -> None:
    """P5: it is shown even if accepted deliveries are not."""
    caplog.set_level(logging.WARNING)
    taker = intake(OpenStore())
    for body in (BODY, body_of(webhookId="w-1", more=1)):
        headers = signed(body)
        await accepted(taker, headers, body)
    await turns(3)

    assert [event_of(record) for record in caplog.records] == ["delivery_conflict"]


async def test_accepted_deliveries_are_in_the_memory_store() -> None:
    """The listing has the fields of the envelope."""
    store = OpenStore()
    taker = intake(store, gate([]))
    body = body_of("batch_scrape.page", jobId="j", success=False)
    await accepted(taker, [], body, taker.admit({}, len(body)))

    (summary,) = [one async for one in store.deliveries(DeliveryFilter())]
    assert (summary.type, summary.job_id, summary.success) == ("batch_scrape.page", "j", False)
    assert summary.key.startswith("sha256:")


# --- who watches


def accept(taker: Intake, headers: RawHeaders, body: bytes) -> asyncio.Future[Receipt]:
    """Pass a request to intake as the endpoint does."""
    admission = taker.admit(dict(headers), None)
    admission.grow(len(body))
    return accepted(taker, headers, body, admission)


async def test_subscribers_are_notified_of_durable_deliveries() -> None:
    """Each delivery is reported once, after it is stored, by its outcome."""
    log = SlowLog()
    taker = intake(log)
    conflict = BODY + b" "
    with watching(delivery_accepted, delivery_duplicated) as records:
        for body in (BODY, BODY, conflict):
            accept(taker, signed(body), body)
        await turns()
        assert records == []
        log.release()
        await turns()

    common: dict[str, Any] = {
        "id": DeliveryKey("w-1"),
        "type": "crawl.page",
        "job_id": None,
        "received_at": NOON,
    }
    assert records == [
        DeliveryAccepted(**common, size=len(BODY)),
        DeliveryDuplicated(**common, size=len(BODY), conflict=False),
        DeliveryDuplicated(**common, size=len(conflict), conflict=True),
    ]


@pytest.mark.parametrize("error", [StoreError("full"), asyncio.CancelledError()])
async def test_subscribers_are_not_notified_of_deliveries_that_are_not_stored(error: BaseException) -> None:
    """The service sends them again."""
    log = SlowLog()
    taker = intake(log)
    with watching(delivery_accepted, delivery_duplicated) as records:
        accept(taker, signed(), BODY)
        log.release(error)
        await turns()

    assert records == []


async def test_a_subscriber_that_raises_or_blocks_does_not_affect_receipts() -> None:
    """Each subscriber runs in its own thread."""
    end = threading.Event()

    def block(delivery: DeliveryAccepted) -> None:
        end.wait(LONG)
        raise ValueError("no")

    with delivery_accepted.connected_to(block):
        receipt = await soon(accept(intake(OpenStore()), signed(), BODY))
        assert receipt.outcome is AppendOutcome.ACCEPTED
        end.set()
    assert flush(timedelta(seconds=LONG))


async def test_bytes_and_quarantined_bodies_are_counted() -> None:
    """They count with every outcome, and the bytes in flight return to zero."""
    taker = intake(OpenStore())
    not_json = b"[}"
    held = taker.bytes_in_flight
    await accept(taker, signed(), BODY)
    with pytest.raises(Malformed):
        await accept(taker, signed(not_json), not_json)
    with pytest.raises(Unauthenticated):
        accept(taker, signed(b"another"), BODY)
    await turns()

    assert taker.received_bytes == 2 * len(BODY) + len(not_json)
    assert taker.quarantined == 1
    assert taker.bytes_in_flight == held == 0


async def test_a_failed_write_to_quarantine_is_not_counted() -> None:
    """The service sends the request again."""
    taker = intake(BrokenLog(StoreError("full")))
    with pytest.raises(StoreError):
        await accept(taker, signed(b"[}"), b"[}")

    assert taker.quarantined == 0


def test_subscribers_are_notified_of_refusals() -> None:
    """They get status, reason, detail and time."""
    with watching(delivery_refused) as records:
        intake(OpenStore()).emit_refused(413, "too_large", "longer than 5 bytes")

    assert records == [DeliveryRefused(at=NOON, status=413, reason="too_large", detail="longer than 5 bytes")]
