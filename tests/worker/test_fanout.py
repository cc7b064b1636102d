"""Events of stored deliveries, the handlers that want them, and stubs for unhandled types."""

import ast
import json
import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from receiver.core.bulk import Imported
from receiver.core.claims import WorkItem
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.types import DeliveryState, Origin, Trigger, WorkState
from receiver.errors import UnreadableBody
from receiver.events import EVENT_CLASSES, CrawlPage, Event, UnknownEvent, parse_event
from receiver.routing import Handler, Router
from receiver.routing.context import Context
from receiver.service.samples import load_sample, sample_names
from receiver.worker.attempts import Claimed
from receiver.worker.calls.runner import Runner
from receiver.worker.events import RoutedEvent, Unhandled, handler_stub, read_event, read_to_route, wanting
from tests.doubles import COSTLY, NOON, Inline, body_of, delivery, event_of
from tests.workbench import bench


def stored(body: bytes, kind: str = "crawl.page") -> StoredDelivery:
    return StoredDelivery(1, 0, delivery("k", body=body, kind=kind))


def test_a_delivery_is_read_as_its_event() -> None:
    """Its class is that of its type."""
    event = read_event(stored(body_of(id="j")))

    assert isinstance(event, CrawlPage)
    assert event.job_id == "j"


@pytest.mark.parametrize("body", [b"not json", b"", b"[]", b"\xff\0"])
def test_an_unreadable_delivery_is_an_unknown_event(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It has the fields of the envelope, and the error is logged."""
    event = read_event(stored(body))

    assert isinstance(event, UnknownEvent)
    assert (event.type, event.job_id, event.webhook_id, event.success) == ("crawl.page", "job", "k", True)
    assert [event_of(record) for record in caplog.records] == ["event_unreadable"]


def test_handlers_that_want_an_event_are_in_order_of_registration() -> None:
    """A handler whose `where` raises is among them: its attempt fails, and the store keeps the error."""
    router = Router()

    def handler(event: Any) -> None: ...

    router.add(handler, CrawlPage, name="no", where=lambda event: False)
    router.add(handler, CrawlPage, name="broken", where=lambda event: event.nothing)
    router.add(handler, "crawl.*", name="yes")
    router.add(handler, "agent.*", name="other")

    assert [one.name for one in wanting(router, RoutedEvent(CrawlPage()))] == ["broken", "yes"]


def test_a_costly_body_is_routed_by_its_envelope() -> None:
    """Every handler of its class gets work, and `where` is not asked, because there is no data to look at."""
    router = Router()

    def handler(event: Any) -> None: ...

    router.add(handler, CrawlPage, name="choosy", where=lambda event: event.page is not None)
    router.add(handler, "agent.*", name="other")
    routed = read_to_route(stored(COSTLY))

    assert isinstance(routed.event, CrawlPage)
    assert (routed.event.job_id, routed.event.data, routed.whole_event) == ("job", [], None)
    assert [one.name for one in wanting(router, routed)] == ["choosy"]


def test_an_event_whose_body_is_away_is_routed_by_its_envelope() -> None:
    """Its attempts fail with the reason until the body is back."""
    router = Router()
    router.add(lambda event: None, CrawlPage, name="choosy", where=lambda event: event.page is not None)
    away = StoredDelivery(1, 0, delivery("k", body=b""), unreadable="its file is away")

    routed = read_to_route(away)

    assert [one.name for one in wanting(router, routed)] == ["choosy"]
    assert routed.whole_event is None
    with pytest.raises(UnreadableBody, match="its file is away"):
        read_event(away)


def test_an_unhandled_type_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """In one short line, without code."""
    caplog.set_level(logging.INFO)
    unhandled = Unhandled()
    for event in (CrawlPage(), CrawlPage(), UnknownEvent(type="new.thing"), CrawlPage()):
        unhandled.log_new(event, Router())

    assert [(event_of(record), vars(record)["type"]) for record in caplog.records] == [
        ("event_unhandled", "crawl.page"),
        ("event_unhandled", "new.thing"),
    ]
    assert "\n" not in "".join(record.getMessage() for record in caplog.records)
    assert not any("stub" in vars(record) for record in caplog.records)


def test_a_developer_gets_a_handler_to_paste(caplog: pytest.LogCaptureFixture) -> None:
    """It is short, begins at the left, and has nothing to fill in."""
    caplog.set_level(logging.INFO)
    Unhandled(stubs=True).log_new(CrawlPage(), Router())

    (record,) = caplog.records
    assert record.getMessage().splitlines() == [
        "· crawl.page no handler wants it. One to paste:",
        "from receiver import Context",
        "from receiver.events import CrawlPage",
        "",
        "@router.on(CrawlPage)",
        "async def on_crawl_page(event: CrawlPage, ctx: Context) -> None:",
        '    ctx.log.info("seen", extra={"page": event.page, "url": event.url, "status_code": event.status_code})',
    ]


def test_a_type_with_a_handler_that_refuses_the_event_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody needs a handler to paste."""
    caplog.set_level(logging.INFO)
    router = Router()
    router.add(lambda event: None, CrawlPage, name="h", where=lambda event: False)

    Unhandled().log_new(CrawlPage(), router)

    assert caplog.records == []


def test_a_very_long_type_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    """It comes from outside, and people have to read the log line."""
    caplog.set_level(logging.INFO)
    unhandled = Unhandled(stubs=True)
    for ending in "ab":
        unhandled.log_new(UnknownEvent(type="x" * 100_000 + ending), Router())

    (record,) = caplog.records
    assert len(vars(record)["type"]) == 200
    assert len(vars(record)["stub"]) < 1_000


# --- stubs


def pasted(text: str) -> Handler:
    """Return the handler that a stub registers in a module with a router."""
    names: dict[str, Any] = {"__name__": "handlers", "router": Router()}
    exec(compile(text, "handlers.py", "exec"), names)
    (handler,) = names["router"]
    assert isinstance(handler, Handler)
    return handler


@pytest.mark.parametrize("name", sample_names())
async def test_a_stub_handles_its_event(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Pasted into a module with a router, it is registered for the type, runs, and logs the fields."""
    caplog.set_level(logging.INFO)
    body = json.dumps(load_sample(name)).encode()
    event = parse_event(body)
    handler = pasted(handler_stub(event))
    assert handler.wants(event)

    item = WorkItem(1, handler.name, 1, 0, 0, Trigger.DELIVERY, stored(body))
    ended = await Runner(VirtualClock(NOON), Inline()).run(Claimed(item, handler, event))

    assert ended.attempt.error is None
    (record,) = [record for record in caplog.records if record.name == handler.name]
    assert record.getMessage() == "seen"


@pytest.mark.parametrize("event_class", EVENT_CLASSES.values(), ids=lambda cls: cls.type_name)
def test_a_stub_is_for_the_class_of_its_event(event_class: type[Event]) -> None:
    """With the import of the class."""
    text = handler_stub(event_class())  # type: ignore[call-arg]

    assert pasted(text).wanted == (event_class,)
    assert f"from receiver.events import {event_class.__name__}\n" in text
    assert f"(event: {event_class.__name__}, ctx: Context)" in text


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("crawl.page", ["page", "url", "status_code"]),
        ("batch_scrape.page", ["page", "url", "status_code"]),
        ("crawl.completed", ["success", "error"]),
        ("crawl.started", ["metadata"]),
        ("extract.completed", ["success", "error", "result"]),
        ("agent.action", ["action"]),
        ("agent.cancelled", ["success", "error", "result"]),
        ("monitor.page", ["page"]),
        ("monitor.check.completed", ["success", "error", "check"]),
        ("new.thing", ["data", "model_extra"]),
    ],
)
def test_a_stub_logs_the_first_attributes_of_the_class(kind: str, fields: list[str]) -> None:
    """And no others. The line names job and delivery by itself."""
    text = handler_stub(EVENT_CLASSES.get(kind, UnknownEvent)(type=kind))

    assert re.findall(r"event\.(\w+)", text.partition("extra=")[2]) == fields


def test_an_unreadable_event_of_a_known_type_gets_the_stub_of_its_class() -> None:
    """The next event may be readable."""
    assert pasted(handler_stub(UnknownEvent(type="crawl.page"))).wanted == (CrawlPage,)


@given(st.text(min_size=1, max_size=300).filter(lambda kind: kind not in EVENT_CLASSES))
@example("threat_protection.check_batch")
@example("quote\"and'quote")
@example("new\nline")
@example("m\xb2.\xbd")
@example("\ud800")
def test_every_stub_compiles(kind: str) -> None:
    """Whatever characters a new type has."""
    *imports, function = ast.parse(handler_stub(UnknownEvent(type=kind))).body

    assert all(isinstance(one, ast.ImportFrom) for one in imports)
    assert isinstance(function, ast.AsyncFunctionDef)
    (decorator,) = function.decorator_list
    assert isinstance(decorator, ast.Call)
    assert ast.literal_eval(decorator.args[0]) == kind[:200]


async def test_imported_deliveries_are_routed_without_work() -> None:
    """No handler runs for them, and later deliveries are handled."""
    router = Router()
    ran: list[str] = []

    @router.on("*")
    async def run(event: Event, ctx: Context) -> None:
        ran.append(ctx.delivery.id)

    async with bench(router) as at:
        await at.store.import_deliveries([Imported(delivery("imported"))])
        await at.add(delivery("sent"))

        assert ran == ["sent"]
        states = {one.key: one.state async for one in at.store.deliveries(DeliveryFilter())}
        assert states == {"imported": DeliveryState.DONE, "sent": DeliveryState.DONE}
        assert len(await at.states()) == 1


async def test_backfilled_deliveries_run_with_the_trigger_backfill() -> None:
    """A later attempt is a retry."""
    router = Router()
    failures = [ValueError("once")]

    @router.on("*", attempts=2)
    async def run(event: Event, ctx: Context) -> None:
        if failures:
            raise failures.pop()

    async with bench(router) as at:
        await at.store.import_deliveries([Imported(delivery("fetched"), origin=Origin.BACKFILL)])
        await at.after(timedelta(seconds=5))

        assert await at.states() == [WorkState.DONE]
        history = (await at.store.work_item(1)).attempts
        assert [one.trigger for one in history] == [Trigger.BACKFILL, Trigger.RETRY]
