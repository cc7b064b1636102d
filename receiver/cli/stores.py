"""One question or one decision, put to the configured store."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from receiver.configured import open_controls, open_reports, open_upkeep
from receiver.ports import Controls, Reports, Upkeep
from receiver.settings import Settings

T = TypeVar("T")


def read(settings: Settings, report: Callable[[Reports], Awaitable[T]]) -> T:
    """Run one report."""

    async def run() -> T:
        async with open_reports(settings) as reports:
            return await report(reports)

    return asyncio.run(run())


def maintain(settings: Settings, upkeep: Callable[[Upkeep], Awaitable[T]]) -> T:
    """Carry some upkeep out."""

    async def run() -> T:
        async with open_upkeep(settings) as opened:
            return await upkeep(opened)

    return asyncio.run(run())


def decide(settings: Settings, decision: Callable[[Controls], Awaitable[T]], *, create: bool = False) -> T:
    """Carry one decision out, in a new store if there is none and `create` says so."""

    async def run() -> T:
        async with open_controls(settings, create=create) as controls:
            return await decision(controls)

    return asyncio.run(run())


def decide_reading(settings: Settings, decision: Callable[[Reports, Controls], Awaitable[T]]) -> T:
    """Carry one decision out that is made from what reports say meanwhile."""

    async def run() -> T:
        # In this order, as the last connection to close has to be one that may empty the log of a database.
        async with open_controls(settings) as controls, open_reports(settings) as reports:
            return await decision(reports, controls)

    return asyncio.run(run())
