"""Work that takes long: in a thread, so that other pages do not wait, and one piece at a time."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SlowWork:
    """Runs one function at a time: hostile pages in many tabs take no more than one processor and one thread."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread and return its result."""
        async with self._turn:
            return await asyncio.to_thread(work, *args, **kwargs)
