"""What every WorkQueue promises about what a handler must not do twice."""

import asyncio
from datetime import timedelta

from receiver.ports import Store, WorkQueue
from receiver.types import HandlerName
from tests.doubles import NOON, soon
from tests.stores.conftest import open_all
from tests.stores.opened import DAY, ONE, TWO, Opened, after_noon


async def test_once_is_once(opened: Opened) -> None:
    """True the first time, whichever worker asks, and never again, however much later."""
    assert await opened.queue.once(ONE, "mail", now=NOON) is True

    assert await opened.queue.once(ONE, "mail", now=NOON) is False
    assert await opened.other.once(ONE, "mail", now=after_noon(DAY)) is False
    assert await opened.queue.once(ONE, "mail", now=after_noon(timedelta(days=3_650))) is False


async def test_a_clock_that_is_set_back_makes_nothing_happen_twice(opened: Opened) -> None:
    """The moment is only noted."""
    await opened.queue.once(ONE, "mail", now=NOON)

    assert await opened.queue.once(ONE, "mail", now=after_noon(-DAY)) is False


async def test_each_handler_has_its_own_keys(opened: Opened) -> None:
    """What one has done does not stop another. Nor do handler and key run into each other."""
    assert await opened.queue.once(ONE, "mail", now=NOON)
    assert await opened.queue.once(TWO, "mail", now=NOON)
    assert await opened.queue.once(HandlerName("a"), "b.c", now=NOON)
    assert await opened.queue.once(HandlerName("a.b"), "c", now=NOON)


async def test_any_text_is_a_key(opened: Opened) -> None:
    """And another text is another key."""
    keys = ["", " ", "1", "1.0", "01", "Mail", "mail", "é", "e\u0301", "🚲", "'", '"', "%", "x" * 10_000]

    assert [await opened.queue.once(ONE, key, now=NOON) for key in keys * 2] == [True] * 14 + [False] * 14


async def test_of_many_who_ask_at_one_time_one_is_the_first(opened: Opened) -> None:
    """On two connections, for several keys."""

    async def ask(queue: WorkQueue, key: str) -> bool:
        return await queue.once(ONE, key, now=NOON)

    for key in ("a", "b", "c"):
        answers = await soon(asyncio.gather(*[ask(queue, key) for queue in (opened.queue, opened.other) * 10]))
        assert sorted(answers) == [False] * 19 + [True]


async def test_a_restart_does_not_forget_it(store: Store) -> None:
    """It is kept in the store."""
    for expected in (True, False):
        async with open_all(store) as opened:
            assert await opened.queue.once(ONE, "mail", now=NOON) is expected
