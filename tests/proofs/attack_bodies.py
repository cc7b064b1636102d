"""Attacks with bodies that are within all limits and cost as much as they can."""

import asyncio
import json
from collections.abc import Iterator

from tests.process.harness import connection, post
from tests.proofs.attacks import Site
from tests.proofs.resources import MIB

_LONGEST = 32 * MIB - 1_000
_FITTING = 107_000
"""Objects of which an event still fits into the memory of one event."""
_CHEAP = 420
"""Objects of which an event costs a little less than one MiB."""


def _page(name: str, data: bytes) -> bytes:
    return b'{"type":"crawl.page","id":"attack","webhookId":"%b","data":[%b]}' % (name.encode(), data)


def _costly() -> Iterator[bytes]:
    """Bodies that no worker reads as an event."""
    objects = b"{}," * (_LONGEST // 3)
    yield _page("objects", objects + b"{}")
    yield _page("objects-and-a-lone-surrogate", objects + rb'"\ud83d"')
    yield _page("texts-and-no-numbers", b'"",NaN,' * (_LONGEST // 7) + b"NaN")


def _heavy() -> Iterator[bytes]:
    """Bodies that a worker reads, and that take most of the memory that one event may take."""
    change = b'{"changeTracking":{"diff":{"json":{"files":[{"chunks":[{"changes":[%b{}]}]}]}}}}'
    yield _page("documents", b"{}," * _FITTING + b"{}")
    yield _page("changes", change % (b"{}," * _FITTING))
    yield _page("wide-text", b'{"markdown":"%b"}' % ("😀" + "x" * _LONGEST).encode()[: _LONGEST - 200])
    yield _page("surrogates", b'{"markdown":"%b"}' % (rb"\ud83d" * (_LONGEST // 6)))


async def costly_bodies(site: Site) -> None:
    """Authentic bodies of 32 MiB of small values, whose events would take gigabytes, are stored and end as dead."""
    await site.start()
    bodies = list(_costly())
    await _send(site, bodies[1:2] if site.is_short else bodies, costly=True)


async def heavy_bodies(site: Site) -> None:
    """Bodies whose events take as much memory as an event may, all at once."""
    await site.start()
    bodies = list(_heavy())
    await _send(site, bodies[:1] if site.is_short else bodies, costly=False)


async def crowded_worker(site: Site) -> None:
    """Thousands of bodies whose events are just too cheap to wait for memory, so that many are read at once."""
    await site.start()
    page = b"{}," * (_CHEAP - 1) + b"{}"
    bodies = [_page(f"crowd-{number}", page) for number in range(300 if site.is_short else 2_000)]
    async with connection(site.serving.port) as line:
        for body in bodies:
            await line.post(body)


async def _send(site: Site, bodies: list[bytes], *, costly: bool) -> None:
    """Send these bodies together, each until it is stored, and return when nothing waits for a worker.

    On a slow machine the answer is 503 each time, since the body takes longer than the deadline.
    """

    async def send(body: bytes) -> None:
        key = json.loads(body[: body.index(b',"data"')] + b"}")["webhookId"]
        while not site.deployment.rows("SELECT 1 FROM deliveries WHERE key = ?", key):
            assert (await post(site.serving.port, body)).status in {200, 408, 503}

    await asyncio.gather(*map(send, bodies))
    await site.end_traffic()
    await site.deployment.all_ended()
    dead = site.deployment.rows("SELECT id, last_error FROM work_items WHERE state = 'dead'")
    assert len(dead) == (len(bodies) if costly else 0), dead
    assert all("more than 256 MiB" in error for _, error in dead), dead
    site.expected_dead = len(dead)


ATTACKS = (costly_bodies, heavy_bodies, crowded_worker)
