"""Attacks on what the receiver stands on: the database is locked, and the disk is full."""

import asyncio
from collections import Counter
from functools import partial

from tests.process.faults import locked, without_room
from tests.process.harness import until
from tests.proofs.attacks import Site


async def locked_database(site: Site) -> None:
    """Another process locks the database for 3 s, 10 s and a minute."""
    await site.start()
    for seconds in (3,) if site.is_short else (3, 10, 60):
        for how in ("IMMEDIATE",) if site.is_short else ("IMMEDIATE", "EXCLUSIVE"):
            async with locked(site.deployment.database, how):
                await asyncio.sleep(seconds)  # the length of the attack
            await site.more_honest(50)


async def full_disk(site: Site) -> None:
    """No file of the writer can grow, and then it can again."""
    await site.start()
    for _ in range(1 if site.is_short else 20):
        refused = site.honest.answers.copy()
        with without_room(await site.serving.writer()):
            await until(partial(_more_refused, site, refused), "deliveries to be refused")
        await site.more_honest(50)


def _more_refused(site: Site, before: Counter[int]) -> bool:
    return (site.honest.answers - before)[503] >= 20


ATTACKS = (locked_database, full_disk)
