"""Tests of the health checks, called directly as ASGI apps."""

import asyncio
import gc
from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from receiver.core.batches import Then
from receiver.core.deliveries import Delivery, Quarantined, Receipt
from receiver.core.signing import sign
from receiver.errors import Malformed, StoreError
from receiver.web.health import Liveness, Readiness
from receiver.web.intake import Intake
from tests.doubles import LONG, SECRET, BrokenLog, OpenStore, SlowLog, accepted, ask, soon, turns
from tests.web.parts import check_error, intake

SOON = timedelta(milliseconds=1)
LATE = timedelta(seconds=LONG)


async def test_the_liveness_check_answers_200() -> None:
    """It accepts GET and HEAD."""
    for method in ("GET", "HEAD"):
        answer = await ask(Liveness(), method)
        assert (answer.status, answer.content) == (200, {"status": "alive"})
    check_error(await ask(Liveness(), "POST"), 405, "method_not_allowed")


async def test_the_readiness_check_tests_a_write() -> None:
    """The answer is 503 if the write fails, for any reason."""
    answer = await ask(Readiness(intake(OpenStore()), deadline=LATE), "GET")
    assert (answer.status, answer.content) == (200, {"status": "ready"})

    for error in (StoreError("the disk is full"), RuntimeError("bug")):
        for at_once in (True, False):
            answer = await ask(Readiness(intake(BrokenLog(error, at_once=at_once)), deadline=LATE), "GET")
            check_error(answer, 503, "unavailable")
    check_error(await ask(Readiness(intake(OpenStore()), deadline=LATE), "POST"), 405, "method_not_allowed")


async def test_the_readiness_check_can_include_the_worker() -> None:
    """The answer is 200 while the worker is alive. It is 503 between two workers, and in a process without one."""
    taking = intake(OpenStore())
    for lives, status in ((lambda: True, 200), (lambda: False, 503), (None, 503)):
        app = Readiness(taking, deadline=LATE, worker_lives=lives)

        assert (await ask(app, "GET", query=b"worker=1")).status == status
        assert (await ask(app, "GET", query=b"worker=0")).status == 200
        assert (await ask(app, "GET")).status == 200


async def test_a_store_that_hangs_is_reported_as_not_ready() -> None:
    """The answer comes within the deadline. When the store works again, the answer is 200."""
    log = SlowLog()
    app = Readiness(intake(log), deadline=SOON)
    check_error(await soon(ask(app, "GET")), 503, "unavailable")
    check_error(await soon(ask(app, "GET")), 503, "unavailable")
    assert len(log.withheld) == 1
    log.release()
    await turns()

    patient = Readiness(intake(OpenStore()), deadline=LATE)
    assert (await ask(patient, "GET")).status == 200


async def test_readiness_checks_at_the_same_time_share_one_write() -> None:
    """Many load balancers do not cause more writes."""
    log = SlowLog()
    app = Readiness(intake(log), deadline=LATE)
    asking = [asyncio.create_task(ask(app, "GET")) for _ in range(20)]
    await turns()
    assert len(log.withheld) == 1
    log.release()

    assert {answer.status for answer in await soon(asyncio.gather(*asking))} == {200}


async def test_a_probe_that_fails_late_is_not_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """The check is answered already; asyncio must not log an exception that nobody retrieved."""
    log = SlowLog()
    app = Readiness(intake(log), deadline=SOON)
    await soon(ask(app, "GET"))
    log.release(StoreError("full"))
    await turns()
    await soon(ask(app, "GET"))
    gc.collect()
    log.release()
    await turns()

    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


class FullLog:
    """A DeliveryLog that keeps bodies in memory, on a disk with room for so many bytes at one time."""

    def __init__(self, room: int) -> None:
        self._store = OpenStore()
        self._full = BrokenLog(StoreError("the disk is full"))
        self.room = room

    def append(self, delivery: Delivery, then: Then[Receipt]) -> None:
        """Fail if the body does not fit."""
        (self._full if len(delivery.body) > self.room else self._store).append(delivery, then)

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Fail if the body does not fit."""
        return (self._full if len(request.body) > self.room else self._store).quarantine(request)

    def probe(self, now: datetime, size: int = 0) -> asyncio.Future[None]:
        """Fail if so many bytes do not fit."""
        return (self._full if size > self.room else self._store).probe(now, size)


LARGE = b'{"type": "crawl.page", "id": "a-large-one", "webhookId": "1", "success": true, "data": []}'
SMALL = b'{"type": "crawl.page"}'
BROKEN = b"not JSON, and larger than there is room"


async def deliver(taker: Intake, body: bytes) -> None:
    """Send a body to the intake; whether it is stored does not matter here."""
    headers = [(b"x-firecrawl-signature", sign(body, SECRET).encode())]
    admission = taker.admit(dict(headers), len(body))
    admission.grow(len(body))
    with suppress(StoreError, Malformed):
        await accepted(taker, headers, body, admission)


@pytest.mark.parametrize("refused", [LARGE, BROKEN])
async def test_after_a_refused_delivery_a_write_of_its_size_has_to_succeed(refused: bytes) -> None:
    """On a full disk a small write may still fit. A smaller delivery does not show that there is room either."""
    log = FullLog(room=30)
    taker = intake(log)
    app = Readiness(taker, deadline=LATE)
    assert (await ask(app, "GET")).status == 200

    await deliver(taker, refused)

    check_error(await ask(app, "GET"), 503, "unavailable")
    await deliver(taker, SMALL)
    check_error(await ask(app, "GET"), 503, "unavailable")
    log.room = 1_000
    assert (await ask(app, "GET")).status == 200
    log.room = 30
    assert (await ask(app, "GET")).status == 200


async def test_a_delivery_of_the_same_size_shows_that_there_is_room_again() -> None:
    """Then the readiness check writes its small mark only."""
    log = FullLog(room=30)
    taker = intake(log)
    await deliver(taker, LARGE)

    log.room = len(LARGE)
    await deliver(taker, LARGE)

    log.room = 0
    assert (await ask(Readiness(taker, deadline=LATE), "GET")).status == 200
