"""The tools of a context: `once`, heartbeats and clients, in async and in plain code."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from receiver.core.claims import WorkItem
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import Refused, Succeeded
from receiver.core.types import HandlerName, Trigger
from receiver.errors import StoreError
from receiver.events import Event
from receiver.routing import Router
from receiver.routing.context import Context
from receiver.service.client import AsyncClient, Client
from receiver.service.client.clients import ServiceClients
from receiver.worker.attempts import Claimed, Ended
from receiver.worker.calls.runner import Runner
from tests.doubles import NOON, Inline, delivery, soon


class Asked:
    """The store's side of `once`: remembers every question."""

    def __init__(self, error: Exception | None = None) -> None:
        self.questions: list[tuple[str, str, datetime]] = []
        self._error = error

    async def __call__(self, handler: HandlerName, key: str, now: datetime) -> bool:
        """Answer like a store."""
        await asyncio.sleep(0)
        self.questions.append((handler, key, now))
        if self._error is not None:
            raise self._error
        return [asked[:2] for asked in self.questions].count((handler, key)) == 1


async def run(function: Callable[..., Any], **lent: Any) -> Ended:
    """Run an attempt of a handler, a plain one in a real thread."""
    router = Router()
    router.add(function, "*", name="h")
    item = WorkItem(1, HandlerName("h"), 1, 0, 0, Trigger.DELIVERY, StoredDelivery(1, 0, delivery("k")))
    with ThreadPoolExecutor(1) as threads:
        runner = Runner(VirtualClock(NOON), threads, **lent)
        ended: Ended = await soon(runner.run(Claimed(item, router[HandlerName("h")])))
    return ended


# --- once


async def test_once_is_awaited_in_async_code() -> None:
    """The store gets the handler, the key and the current time."""
    asked, answers = Asked(), []

    async def handler(event: Event, ctx: Context) -> None:
        answers.append(await ctx.once("mail"))
        answers.append(await ctx.once("mail"))
        answers.append(await ctx.once("other"))

    assert (await run(handler, ask_once=asked)).attempt.error is None
    assert answers == [True, False, True]
    assert asked.questions[0] == ("h", "mail", NOON)


async def test_once_is_true_or_false_in_plain_code() -> None:
    """The thread waits for the store."""
    answers: list[bool] = []

    def handler(event: Event, ctx: Context) -> None:
        answers.append(bool(ctx.once("mail")))
        answers.append(not ctx.once("mail"))

    assert (await run(handler, ask_once=Asked())).attempt.error is None
    assert answers == [True, True]


async def test_a_forgotten_await_is_an_error() -> None:
    """Without the error the condition would always be true. The store is not asked."""
    asked, sent = Asked(), []

    async def handler(event: Event, ctx: Context) -> None:
        if ctx.once("mail"):
            sent.append("mail")

    ended = await run(handler, ask_once=asked)

    assert "has to be awaited" in str(ended.attempt.error)
    assert (asked.questions, sent) == ([], [])


async def test_an_answer_stays_the_answer() -> None:
    """The store is asked once, even if the answer is used twice."""
    asked, answers = Asked(), []

    async def handler(event: Event, ctx: Context) -> None:
        once = ctx.once("mail")
        answers.extend([await once, await once, bool(once)])

    def plain(event: Event, ctx: Context) -> None:
        once = ctx.once("letter")
        answers.extend([bool(once), bool(once)])

    await run(handler, ask_once=asked)
    await run(plain, ask_once=asked)

    assert answers == [True] * 5
    assert len(asked.questions) == 2


async def test_a_plain_handler_may_run_its_own_event_loop() -> None:
    """The store is still asked in the event loop of the worker."""
    answers: list[bool] = []

    def handler(event: Event, ctx: Context) -> None:
        async def inner() -> None:
            answers.append(await ctx.once("mail"))

        asyncio.run(inner())

    assert (await run(handler, ask_once=Asked())).attempt.error is None
    assert answers == [True]


async def test_a_store_that_cannot_answer_fails_the_attempt() -> None:
    """In async and in plain handlers. The attempt is made again."""

    async def handler(event: Event, ctx: Context) -> None:
        await ctx.once("mail")

    def plain(event: Event, ctx: Context) -> None:
        assert ctx.once("mail")

    for function in (handler, plain):
        ended = await run(function, ask_once=Asked(StoreError("locked")))
        assert ended.attempt.error == "StoreError: locked"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("", "1 to 200 characters, not of 0"),
        ("x" * 201, "not of 201"),
        (5, "takes a text, not int"),
        (None, "text"),
    ],
    ids=repr,
)
async def test_an_invalid_key_is_an_error(key: Any, words: str) -> None:
    """The store is not asked."""

    async def handler(event: Event, ctx: Context) -> None:
        ctx.once(key)

    assert words in str((await run(handler, ask_once=Asked())).attempt.error)


@pytest.mark.parametrize("key", ["\ud800", "a\0b", "line\nline"])
async def test_a_key_with_characters_that_a_store_refuses_is_kept_as_its_digest(key: str) -> None:
    """Such keys come from the sender. Different keys stay different."""
    asked, answers = Asked(), []

    async def handler(event: Event, ctx: Context) -> None:
        answers.extend([await ctx.once(key), await ctx.once(key), await ctx.once(key + "\0")])

    await run(handler, ask_once=asked)

    assert answers == [True, False, True]
    assert all(question[1].startswith("sha256:") for question in asked.questions)


async def test_without_a_store_once_is_an_error() -> None:
    """It does not answer True."""
    answers: list[bool] = []

    async def handler(event: Event, ctx: Context) -> None:
        answers.append(await ctx.once("mail"))

    assert "needs a worker with a store" in str((await run(handler)).attempt.error)
    assert answers == []


# --- clients


async def test_each_kind_of_handler_has_its_client() -> None:
    """It is the same in all attempts."""
    async with AsyncClient("fc-1") as for_async:
        with Client("fc-1") as for_plain:
            seen: list[object] = []

            async def handler(event: Event, ctx: Context) -> None:
                seen.append(ctx.client)

            def plain(event: Event, ctx: Context) -> None:
                seen.append(ctx.sync_client)

            for function in (handler, plain):
                await run(function, clients=ServiceClients(for_async, for_plain))

    assert seen == [for_async, for_plain]


async def test_the_client_for_the_other_kind_of_handler_is_an_error() -> None:
    """One does not work there, and the other blocks the worker."""

    async def handler(event: Event, ctx: Context) -> None:
        assert ctx.sync_client

    def plain(event: Event, ctx: Context) -> None:
        assert ctx.client

    async with AsyncClient("fc-1") as for_async:
        with Client("fc-1") as for_plain:
            clients = ServiceClients(for_async, for_plain)
            assert "an async handler has ctx.client" in str((await run(handler, clients=clients)).attempt.error)
            assert "a plain function has ctx.sync_client" in str((await run(plain, clients=clients)).attempt.error)


async def test_without_a_key_the_work_item_is_dead_at_once() -> None:
    """A later attempt of this worker cannot succeed. The error says how to fix it."""

    async def handler(event: Event, ctx: Context) -> None:
        assert ctx.client

    def plain(event: Event, ctx: Context) -> None:
        assert ctx.sync_client

    for function in (handler, plain):
        ended = await run(function)
        assert ended.result == Refused()
        assert "no RECEIVER_API_KEY is set" in str(ended.attempt.error)


# --- the context itself


async def test_a_context_hides_its_private_fields() -> None:
    """In its `repr` and in comparisons."""
    seen: list[Context] = []

    async def handler(event: Event, ctx: Context) -> None:
        ctx.heartbeat()
        seen.append(ctx)

    assert (await run(handler, ask_once=Asked())).result == Succeeded()
    assert "_services" not in repr(seen[0])


async def test_a_context_is_made_only_for_handlers_that_take_one() -> None:
    """Most handlers take none, and there are thousands of attempts per second."""
    asked: list[datetime] = []
    router = Router()

    @router.on("*", name="h")
    async def handler(event: Event) -> None: ...

    def now() -> datetime:
        asked.append(NOON)
        return NOON

    runner = Runner(VirtualClock(NOON), Inline(), told_now=now)
    item = WorkItem(1, HandlerName("h"), 1, 0, 0, Trigger.DELIVERY, StoredDelivery(1, 0, delivery("k")))
    await soon(runner.run(Claimed(item, router[HandlerName("h")])))

    assert asked == []
