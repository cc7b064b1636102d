"""What has arrived of a job, and what of its production has not."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from tempfile import SpooledTemporaryFile
from typing import Any, Self

from receiver.core.batching import BatchSize
from receiver.core.bulk import Cursor, Imported
from receiver.core.clock import Clock
from receiver.core.deliveries import DeliveryFilter
from receiver.core.envelope import read_envelope
from receiver.core.jobs import family_of
from receiver.core.ports.reports import DeliveryReader
from receiver.core.types import DeliveryKey, Headers, Origin
from receiver.errors import KeyRefused, Malformed, NotComparable, RateLimited, ServiceUnreachable
from receiver.events import EVENT_CLASSES, Event, MonitorCheckCompleted, MonitorPage, parse_event
from receiver.events.identity import subject_key
from receiver.replay.backfill.payloads import Payload, body

FOR_ALL = (KeyRefused, RateLimited, ServiceUnreachable)
"""Errors that asking about the next job would end with too."""
_IN_MEMORY = 8 * 1024 * 1024
MAX_ITEMS = 500
MAX_BYTES = 4 * 1024 * 1024
"""Deliveries and bytes of bodies that are handed to the store together."""


@dataclass(slots=True)
class Delivered:
    """What has arrived of a job: the keys of what its events are about, and what is said in them of the job.

    `through` is the seq up to which has been read. `metadata` is None when no event has any.
    """

    job_id: str
    keys: set[DeliveryKey] = field(default_factory=set)
    family: str | None = None
    monitor_id: str | None = None
    metadata: Mapping[str, Any] | None = None
    through: int = 0


async def delivered(reports: DeliveryReader, job_id: str, *, after: int = 0, partly: bool = False) -> Delivered:
    """Return what has arrived of a job behind a seq.

    Raises NotComparable when the bodies of some of it were pruned; `partly` passes over those.
    """
    wanted = DeliveryFilter(job_id=job_id)
    pruned = (await reports.plan(wanted)).without_body
    if pruned and not partly:
        raise NotComparable(
            f"the bodies of {pruned:,} of its deliveries were pruned, so nobody knows what they were"
        )
    found = Delivered(job_id, through=after)
    async for stored in reports.iter_deliveries(wanted, after=Cursor(after)):
        await asyncio.sleep(0)  # others in this event loop go on
        found.through = stored.seq
        try:
            _take(found, parse_event(stored.delivery.body))
        except Malformed:  # a bundle may bring what no sender sends
            continue
    return found


def _take(found: Delivered, event: Event) -> None:
    if event.v0_job_id is not None:
        raise NotComparable("it is of version 0 of the service, whose events have another form")
    found.family = found.family or family_of(event.type)
    if (key := subject_key(event)) is not None:
        found.keys.add(key)
    if event.metadata:
        found.metadata = event.metadata
    match event:
        case MonitorPage():
            found.monitor_id = event.page.monitor_id or found.monitor_id
        case MonitorCheckCompleted():
            found.monitor_id = event.check.monitor_id or found.monitor_id


class Spool:
    """Bodies that are to be brought in, in a temporary file once they are many. Use it in `with`."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - it lives as long as the spool

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def end(self) -> int:
        """Return where the next body will begin."""
        return self._file.seek(0, 2)

    def add(self, one: bytes) -> None:
        """Keep a body. JSON as we write it has no line breaks."""
        self._file.write(one + b"\n")

    def cut(self, place: int) -> None:
        """Forget what begins here or later."""
        self._file.truncate(place)

    def read(self, begin: int, count: int) -> Iterator[bytes]:
        """Yield so many bodies from a place on."""
        for _ in range(count):
            self._file.seek(begin)
            line = self._file.readline()
            begin += len(line)
            yield line[:-1]


@dataclass(frozen=True, slots=True)
class Missing:
    """What of a job's production has not arrived, by type of event; its bodies lie in a spool from `begin` on.

    `produced` is how many events the service tells of, and `unclear` how many more of them have nothing to be told
    apart by, so that they are left out.
    """

    job_id: str
    produced: int
    unclear: int
    counts: Mapping[str, int]
    begin: int
    through: int

    @property
    def count(self) -> int:
        """How many events are missing."""
        return sum(self.counts.values())


async def compare(
    found: Delivered, events: AsyncIterator[Payload], spool: Spool, *, wanted: str | None = None
) -> Missing:
    """Put into the spool what has not arrived of these events, of the wanted types (a glob) only.

    Raises what asking for them raises; the spool is as before then.
    """
    begin = spool.end()
    known = set(found.keys)
    produced = unclear = 0
    counts: Counter[str] = Counter()
    try:
        async for payload in events:
            await asyncio.sleep(0)  # as above
            kind: str = payload["type"]
            key = subject_key(EVENT_CLASSES[kind].read(payload))
            produced, unclear = produced + 1, unclear + (key is None)
            if key is None or key in known or (wanted is not None and not fnmatchcase(kind, wanted)):
                continue
            known.add(key)
            spool.add(body(payload, key, found.metadata))
            counts[kind] += 1
    except BaseException:
        spool.cut(begin)
        raise
    return Missing(found.job_id, produced, unclear, counts, begin, found.through)


async def to_bring_in(
    missing: Missing, spool: Spool, reports: DeliveryReader, clock: Clock, *, origin: Origin
) -> AsyncIterator[list[Imported]]:
    """Yield what is missing in parts that a store takes at one time, without what has arrived since.

    Workers handle what is of the origin BACKFILL, and leave an IMPORT alone.
    """
    since = await delivered(reports, missing.job_id, after=missing.through)
    part: list[Imported] = []
    taken = BatchSize(MAX_ITEMS, MAX_BYTES)
    for one in spool.read(missing.begin, missing.count):
        await asyncio.sleep(0)  # as above
        delivery = read_envelope(_headers(origin), one, received_at=clock.now())
        if delivery.key in since.keys:
            continue
        part.append(Imported(delivery, origin=origin))
        taken.add(len(one))
        if taken.is_full:
            yield part
            part, taken = [], BatchSize(MAX_ITEMS, MAX_BYTES)
    if part:
        yield part


def _headers(origin: Origin) -> Headers:
    """Return those of a delivery that is made here; the second one is what people see of it."""
    return ("content-type", "application/json"), ("x-receiver-origin", origin.value)
