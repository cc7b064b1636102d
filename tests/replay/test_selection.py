"""Tests of which deliveries are replayed, and of their new work items and new ids."""

import json
import random
import uuid
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.bulk import Cursor
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.types import AttemptOutcome, HandlerName, Trigger, WorkState
from receiver.core.work import Attempt, RecordedRun
from receiver.replay.expressions import compile_expression
from receiver.replay.requeue import new_work, with_new_id
from receiver.replay.selection import Chosen, Selection
from receiver.routing import Router
from tests.doubles import NOON, OpenStore, appended, body_of, delivery

ONE, TWO = HandlerName("one"), HandlerName("two")


def handle(event: Any) -> None: ...


@pytest.fixture
def router() -> Router:
    """Return a router with two handlers for all events, and one for crawls in a lane of their job."""
    router = Router()
    router.add(handle, "*", name=ONE)
    router.add(handle, "*", name=TWO)
    router.add(handle, "crawl.*", name="lane", lane=lambda event: event.job_id)
    return router


@pytest.fixture
async def store() -> OpenStore:
    """Deliveries of two jobs in turn, one without a job, and one that is not JSON."""
    store = OpenStore()
    for key, job in (("a", "j2"), ("b", "j1"), ("c", "j2"), ("d", None)):
        await appended(store, delivery(key, job_id=job))
    await appended(store, delivery("e", job_id="j1", body=b"\xff"))
    return store


async def chosen(store: OpenStore, **choice: Any) -> list[Chosen]:
    """Return the chosen deliveries."""
    choice.setdefault("wanted", DeliveryFilter())
    return [one async for one in Selection(**choice).of(store)]


async def keys(store: OpenStore, **choice: Any) -> str:
    """Return the keys of the deliveries that match."""
    return "".join(one.stored.delivery.key for one in await chosen(store, **choice) if one.fits)


async def test_deliveries_are_replayed_in_order(store: OpenStore) -> None:
    """The order is by arrival or job by job, and may start after a given place."""
    assert await keys(store) == "abcde"
    assert await keys(store, by_job=True) == "beacd"
    assert await keys(store, after=Cursor(2)) == "cde"
    assert await keys(store, by_job=True, after=Cursor(1, "j2")) == "cd"
    assert await keys(store, wanted=DeliveryFilter(job_id="j1")) == "be"


async def test_an_expression_is_tested_for_each_delivery(store: OpenStore) -> None:
    """Deliveries that do not match are given too, to show the progress. A body that is not JSON does not match."""
    found = await chosen(store, where=compile_expression("id == 'j2'"))

    assert [(one.stored.delivery.key, one.fits) for one in found] == [
        ("a", True),
        ("b", False),
        ("c", True),
        ("d", False),
        ("e", False),
    ]
    assert await keys(store, where=compile_expression("not (id == 'j2')")) == "bd"


async def test_failed_deliveries_are_replayed_for_the_failed_handlers(store: OpenStore, router: Router) -> None:
    """Only selected handlers count. Without `failed` all of them run."""
    attempt = Attempt(1, Trigger.DELIVERY, NOON, NOON, AttemptOutcome.FAILED, "no")
    failures = [RecordedRun(seq, name, attempt, WorkState.DEAD) for seq, name in ((2, ONE), (3, ONE), (3, TWO))]
    await store.record(failures, now=NOON)
    handlers = [handler for handler in router if handler.name != ONE]

    async def found(handlers: Any, wanted: DeliveryFilter) -> list[tuple[str, Any]]:
        chosen_now = await chosen(store, wanted=wanted, handlers=handlers)
        return [(one.stored.delivery.key, one.only) for one in chosen_now]

    failed = DeliveryFilter(failed=True)
    assert await found(list(router), failed) == [("b", {ONE}), ("c", {ONE, TWO})]
    assert await found(handlers, failed) == [("b", set()), ("c", {TWO})]
    assert (await found(handlers, DeliveryFilter()))[0] == ("a", None)


# --- as new work


def stored(key: str = "k", **changes: Any) -> StoredDelivery:
    """Return a stored delivery."""
    return StoredDelivery(7, 0, delivery(key, **changes))


def test_new_work_is_made_for_every_matching_handler(router: Router) -> None:
    """It has its lane and the trigger replay, and waits for any worker."""
    made = new_work(Chosen(stored(), None, True), router, router, NOON)

    assert [(one.seq, one.handler, one.claim, one.lane, one.hold, one.trigger) for one in made] == [
        (7, ONE, False, None, None, Trigger.REPLAY),
        (7, TWO, False, None, None, Trigger.REPLAY),
        (7, "lane", False, "job", None, Trigger.REPLAY),
    ]


def test_new_work_is_made_only_for_selected_handlers(router: Router) -> None:
    """They are selected by name."""
    made = new_work(Chosen(stored(), frozenset({TWO}), True), router, router, NOON)

    assert [one.handler for one in made] == [TWO]


def test_new_work_is_held_for_the_pages_of_its_job(router: Router) -> None:
    """It is held as it was at its arrival."""
    router.add(handle, "crawl.completed", name="last", after_pages=timedelta(minutes=1))

    made = new_work(Chosen(stored(kind="crawl.completed"), None, True), list(router)[-1:], router, NOON)

    assert [one.hold is not None for one in made] == [True]


# --- as new deliveries


def renewed(body: bytes, webhook_id: str | None = "k") -> bytes:
    """Return a body with its new id."""
    one = stored(webhook_id or "sha256:x", body=body)
    return with_new_id(one, random.Random(1))


def test_a_new_id_replaces_the_old_one() -> None:
    """No other byte changes."""
    body = b'{ "type" : "crawl.page",\r\n "webhookId":"k", "data": [1.0] }\n'

    found = renewed(body)

    new = json.loads(found)["webhookId"]
    assert uuid.UUID(new).version == 4
    assert found == body.replace(b'"k"', f'"{new}"'.encode())


@pytest.mark.parametrize(
    "body",
    [b'{"type":"t","webhookId":"k","id":"k"}', b'{"type":"t","webhookId":"\\u006b"}', b'{"type":"t"}'],
)
def test_an_id_that_cannot_be_found_in_the_bytes_is_set(body: bytes) -> None:
    """It appears twice, has another form, or is missing in the body."""
    found = json.loads(renewed(body))

    assert found.pop("webhookId") != "k"
    assert found == {name: value for name, value in json.loads(body).items() if name != "webhookId"}


@pytest.mark.parametrize("body", [b"", b"\xff", b"[1]"])
def test_a_body_that_cannot_have_an_id_is_not_changed(body: bytes) -> None:
    """The receiver will report the error."""
    assert renewed(body, None) == body


@given(st.text(min_size=1), st.text())
def test_only_the_id_changes(webhook_id: str, text: str) -> None:
    """This holds for any id and any other text in the body."""
    body = body_of(webhookId=webhook_id, text=text)
    one = StoredDelivery(1, 0, delivery(webhook_id, body=body))

    found = json.loads(with_new_id(one, random.Random(2)))

    assert found == json.loads(body) | {"webhookId": found["webhookId"]}
    assert len(found["webhookId"]) == 36
