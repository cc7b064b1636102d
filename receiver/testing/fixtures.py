"""The fixtures of the plugin."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from receiver.routing import Router
from receiver.settings import Settings
from receiver.testing.clock import SteppedClock
from receiver.testing.work import Work

if TYPE_CHECKING:  # they bring a store and an HTTP client, which few tests need
    from receiver.testing.application import RunningReceiver
    from receiver.testing.sender import ScheduledSender


@pytest.fixture
def clock() -> SteppedClock:
    """The time of the test, for the service and the receiver; move it with `await clock.advance(minutes=6)`."""
    return SteppedClock()


@pytest.fixture
def router() -> Router:
    """The handlers under test: write a fixture of this name that returns your router. This one is empty."""
    return Router()


@pytest.fixture
def receiver_settings(tmp_path: Path) -> Settings:
    """The settings of `receiver_app`; for others, return `settings_for_test(tmp_path, ...)` in your own fixture."""
    from receiver.testing.application import settings_for_test

    return settings_for_test(tmp_path)


@pytest.fixture
def resources() -> dict[Any, object]:
    """Resources by type that replace those of the router. There are none: write a fixture of this name."""
    return {}


@pytest.fixture
async def receiver_app(
    router: Router, receiver_settings: Settings, clock: SteppedClock, resources: dict[Any, object]
) -> "AsyncIterator[RunningReceiver]":
    """The receiver as an ASGI app, with a store of its own, and a worker that runs the handlers of `router`."""
    from receiver.testing.application import open_receiver

    async with open_receiver(router, receiver_settings, clock, resources=resources) as app:
        yield app


@pytest.fixture
async def sender(receiver_app: "RunningReceiver", clock: SteppedClock) -> "AsyncIterator[ScheduledSender]":
    """The service: `await sender.send(sample("crawl.page"))` posts to `receiver_app`, signed, with its retries."""
    from receiver.testing.sender import open_sender

    settings = receiver_app.settings
    [secret, *_] = [*settings.plain_secrets(), None]
    token = (settings.token_header, settings.plain_tokens()[0]) if settings.token_header else None
    async with open_sender(
        receiver_app,
        clock,
        path=settings.path,
        secret=secret,
        signature_header=settings.signature_header,
        token=token,
    ) as opened:
        yield opened


@pytest.fixture
def work_items(receiver_app: "RunningReceiver") -> Callable[..., Awaitable[list[Work]]]:
    """The work items of `receiver_app`: `assert_handled(await work_items())`."""
    return receiver_app.work_items


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: "pytest.FixtureDef[Any]", request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Let pytest-asyncio run our async fixtures in its strict mode too, where it runs only fixtures with its mark.

    For tests that anyio's plugin runs, nothing is changed.
    """
    function: Any = fixturedef.func
    if function.__module__ == __name__ and inspect.isasyncgenfunction(function):
        function._force_asyncio_fixture = "anyio_backend" not in request.fixturenames
    return (yield)
