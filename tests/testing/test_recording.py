"""Handlers that are called as before, with a note of each call."""

import pytest

from receiver import Router
from receiver.events import CrawlPage, Event
from receiver.testing import Call, deliver, record_calls, sample

PAGE = sample("crawl.page")


def filled() -> tuple[Router, list[str]]:
    """Return a router with a handler of each kind, and the names of those that were called."""
    router, called = Router(), []

    @router.on(CrawlPage, name="shop.index")
    async def index(event: CrawlPage) -> str:
        called.append("index")
        return "indexed"

    @router.on("crawl.*", name="shop.tell")
    def tell(event: Event) -> str:
        called.append("tell")
        return "told"

    return router, called


def test_each_call_is_noted_and_made() -> None:
    """What the handler returns is returned still, and the router it came from is as it was."""
    router, called = filled()
    recorded = record_calls(router)

    runs = deliver(PAGE, recorded.router)
    deliver(PAGE, router)

    assert [run.value for run in runs] == ["indexed", "told"]
    assert [(call.handler, call.event) for call in recorded.calls] == [
        ("shop.index", PAGE.event),
        ("shop.tell", PAGE.event),
    ]
    assert recorded.events("tell") == recorded.events("shop.index") == [PAGE.event]
    assert recorded.events() == [PAGE.event] * 2
    assert called == ["index", "tell"] * 2


def test_the_functions_can_be_left_out() -> None:
    """Calls are noted, and nothing else happens."""
    router, called = filled()
    recorded = record_calls(router, run=False)

    runs = deliver(PAGE, recorded.router)

    assert [run.value for run in runs] == [None, None]
    assert len(recorded.calls) == 2
    assert called == []


def test_a_call_that_fails_is_noted_with_its_error() -> None:
    """And the error comes through."""
    router = Router()
    error = ValueError("no")

    @router.on("*", name="fails")
    def fails(event: Event) -> None:
        raise error

    recorded = record_calls(router)
    with pytest.raises(ValueError, match="no"):
        deliver(PAGE, recorded.router)

    assert [(call.handler, call.error) for call in recorded.calls] == [("fails", error)]
    assert isinstance(recorded.calls[0], Call)
