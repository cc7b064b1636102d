"""From stored deliveries to events and the handlers that want them."""

import ast
import logging
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from receiver.dispatch.fanout import Unhandled, read_event, stub, wanting
from receiver.events import EVENT_CLASSES, CrawlPage, Event, UnknownEvent
from receiver.records import StoredDelivery
from receiver.routing import Router
from tests.doubles import body_of, delivery


def stored(body: bytes, kind: str = "crawl.page") -> StoredDelivery:
    return StoredDelivery(1, 0, delivery("k", body=body, kind=kind))


def test_a_delivery_is_read_as_its_event() -> None:
    """By the class of its type."""
    event = read_event(stored(body_of(id="j")))

    assert isinstance(event, CrawlPage)
    assert event.job_id == "j"


@pytest.mark.parametrize("body", [b"not json", b"", b"[]", b"\xff\0"])
def test_an_unreadable_delivery_is_an_unknown_event(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """With what the envelope said when it came; the fault is logged, the event is never lost."""
    event = read_event(stored(body))

    assert isinstance(event, UnknownEvent)
    assert (event.type, event.job_id, event.webhook_id, event.success) == ("crawl.page", "job", "k", True)
    assert [record.getMessage() for record in caplog.records] == ["event_unreadable"]


def test_handlers_that_want_an_event_come_in_their_order() -> None:
    """One whose `where` raises is among them: its attempt fails where it can be seen."""
    router = Router()

    def handler(event: Any) -> None: ...

    router.add(handler, CrawlPage, name="no", where=lambda event: False)
    router.add(handler, CrawlPage, name="broken", where=lambda event: event.nothing)
    router.add(handler, "crawl.*", name="yes")
    router.add(handler, "agent.*", name="other")

    assert [one.name for one in wanting(router, CrawlPage())] == ["broken", "yes"]


def test_an_unhandled_type_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """With a handler to paste."""
    caplog.set_level(logging.INFO)
    unhandled = Unhandled()
    for event in (CrawlPage(), CrawlPage(), UnknownEvent(type="new.thing"), CrawlPage()):
        unhandled.tell(event)

    assert [(record.getMessage(), vars(record)["type"]) for record in caplog.records] == [
        ("event_unhandled", "crawl.page"),
        ("event_unhandled", "new.thing"),
    ]


@pytest.mark.parametrize("event_class", EVENT_CLASSES.values(), ids=lambda cls: cls.type_name)
def test_a_stub_is_for_the_class_of_its_event(event_class: type[Event]) -> None:
    """Ready to paste under the usual imports."""
    text = stub(event_class())  # type: ignore[call-arg]

    assert f"@router.on({event_class.__name__})\n" in text
    assert f"(event: {event_class.__name__}, ctx: Context)" in text


@given(st.text(min_size=1, max_size=40))
@example("threat_protection.check_batch")
@example("quote\"and'quote")
@example("new\nline")
@example("m\xb2.\xbd")
@example("\ud800")
def test_every_stub_is_python(kind: str) -> None:
    """Whatever characters a new type is made of, what is pasted compiles."""
    (function,) = ast.parse(stub(UnknownEvent(type=kind))).body

    assert isinstance(function, ast.AsyncFunctionDef)
    (decorator,) = function.decorator_list
    assert isinstance(decorator, ast.Call)
    assert ast.literal_eval(decorator.args[0]) == kind
