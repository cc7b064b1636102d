"""One timer serves many deadlines, whatever happens at one of them."""

import asyncio
from typing import Any

from receiver.web.reception import Deadlines
from tests.doubles import eventually, turns


async def test_an_error_at_one_deadline_leaves_the_others() -> None:
    """It is logged by the event loop, as an error in any timer."""
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    expired: list[str] = []

    def expire(item: str) -> None:
        expired.append(item)
        if item == "a":
            raise RuntimeError("a bug")

    deadlines = Deadlines(0, expire)
    for item in ("a", "b", "c"):
        deadlines.add(item)
    deadlines.discard("b")
    await eventually(lambda: expired == ["a", "c"])

    assert [str(error["exception"]) for error in errors] == ["a bug"]


async def test_a_deadline_may_be_added_while_another_expires() -> None:
    """It has its own time."""
    expired: list[int] = []

    def expire(item: int) -> None:
        expired.append(item)
        if item < 3:
            deadlines.add(item + 1)

    deadlines = Deadlines(0, expire)
    deadlines.add(0)
    await eventually(lambda: expired == [0, 1, 2, 3])

    assert len(deadlines) == 0


async def test_closed_deadlines_do_not_expire() -> None:
    """The server that they belong to has ended."""
    expired: list[str] = []
    deadlines = Deadlines(0, expired.append)
    deadlines.add("a")
    deadlines.close()
    await turns()

    assert expired == []
