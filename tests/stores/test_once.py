"""The contract of once keys."""

import asyncio
from datetime import timedelta

from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.store import Store
from receiver.core.types import HandlerName
from tests.doubles import NOON, soon
from tests.stores.conftest import open_all
from tests.stores.opened import DAY, ONE, SECOND, TWO, Opened, after_noon


async def test_once_is_once(opened: Opened) -> None:
    """The first call returns True, from whichever worker, and no later call does."""
    assert await opened.queue.once(ONE, "mail", now=NOON) is True

    assert await opened.queue.once(ONE, "mail", now=NOON) is False
    assert await opened.other.once(ONE, "mail", now=after_noon(DAY)) is False
    assert await opened.queue.once(ONE, "mail", now=after_noon(timedelta(days=3_650))) is False


async def test_an_expired_key_can_be_used_again(opened: Opened) -> None:
    """One caller gets True, and says for how long; without that it is for ever."""
    assert await opened.queue.once(ONE, "job", now=NOON, until=after_noon(SECOND))
    assert not await opened.other.once(ONE, "job", now=NOON, until=after_noon(DAY))

    assert await opened.other.once(ONE, "job", now=after_noon(SECOND), until=after_noon(2 * SECOND))
    assert not await opened.queue.once(ONE, "job", now=after_noon(SECOND), until=after_noon(DAY))
    assert await opened.queue.once(ONE, "job", now=after_noon(DAY))
    assert not await opened.other.once(ONE, "job", now=after_noon(3 * DAY), until=after_noon(DAY))


async def test_many_keys_can_be_read_without_using_them(opened: Opened) -> None:
    """The result has the keys for which a call would return True now."""
    await opened.queue.once(ONE, "for ever", now=NOON)
    await opened.queue.once(ONE, "taken", now=NOON, until=after_noon(2 * SECOND))
    await opened.queue.once(ONE, "lapsed", now=NOON, until=after_noon(SECOND))
    await opened.queue.once(TWO, "another's", now=NOON)
    keys = ["for ever", "taken", "lapsed", "another's", "é'\"", "lapsed"]

    for _ in range(2):
        assert await opened.other.available_once_keys(ONE, keys, now=after_noon(SECOND)) == {
            "lapsed",
            "another's",
            "é'\"",
        }
    assert await opened.other.available_once_keys(ONE, (), now=NOON) == frozenset()


async def test_the_expiry_can_be_changed(opened: Opened) -> None:
    """It changes to later, to now and to never. A key that nobody used does not change."""
    await opened.queue.once(ONE, "job", now=NOON, until=after_noon(SECOND))
    await opened.queue.once(ONE, "other", now=NOON)

    await opened.other.set_once_expiry(ONE, "job", until=after_noon(DAY))
    assert not await opened.queue.once(ONE, "job", now=after_noon(SECOND))
    await opened.queue.set_once_expiry(ONE, "job", until=NOON)
    assert await opened.other.once(ONE, "job", now=NOON, until=after_noon(SECOND))
    await opened.queue.set_once_expiry(ONE, "job", until=None)
    await opened.queue.set_once_expiry(ONE, "unknown", until=None)

    assert not await opened.other.once(ONE, "job", now=after_noon(DAY))
    assert not await opened.other.once(ONE, "other", now=after_noon(DAY))
    assert await opened.queue.once(ONE, "unknown", now=NOON)


async def test_a_clock_that_is_set_back_makes_nothing_happen_twice(opened: Opened) -> None:
    """The moment is only noted."""
    await opened.queue.once(ONE, "mail", now=NOON)

    assert await opened.queue.once(ONE, "mail", now=after_noon(-DAY)) is False


async def test_each_handler_has_its_own_keys(opened: Opened) -> None:
    """The keys of one handler do not block another. Handler and key are not joined to one text."""
    assert await opened.queue.once(ONE, "mail", now=NOON)
    assert await opened.queue.once(TWO, "mail", now=NOON)
    assert await opened.queue.once(HandlerName("a"), "b.c", now=NOON)
    assert await opened.queue.once(HandlerName("a.b"), "c", now=NOON)


async def test_any_text_is_a_key(opened: Opened) -> None:
    """Different texts are different keys."""
    keys = ["", " ", "1", "1.0", "01", "Mail", "mail", "é", "e\u0301", "🚲", "'", '"', "%", "x" * 10_000]

    assert [await opened.queue.once(ONE, key, now=NOON) for key in keys * 2] == [True] * 14 + [False] * 14


async def test_of_many_who_ask_at_one_time_one_is_the_first(opened: Opened) -> None:
    """Two connections ask for several keys."""

    async def ask(queue: WorkQueue, key: str) -> bool:
        return await queue.once(ONE, key, now=NOON)

    for key in ("a", "b", "c"):
        answers = await soon(asyncio.gather(*[ask(queue, key) for queue in (opened.queue, opened.other) * 10]))
        assert sorted(answers) == [False] * 19 + [True]


async def test_a_restart_does_not_forget_it(store: Store) -> None:
    """The store keeps the keys."""
    for expected in (True, False):
        async with open_all(store) as opened:
            assert await opened.queue.once(ONE, "mail", now=NOON) is expected
