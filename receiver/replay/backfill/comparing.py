"""Compares the events of a job that have arrived with those that the job produced."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from tempfile import SpooledTemporaryFile
from typing import Any, Self

from receiver.core.batches import BatchSize
from receiver.core.bulk import Cursor, Imported
from receiver.core.clock import Clock
from receiver.core.deliveries import DeliveryFilter
from receiver.core.envelope import read_envelope
from receiver.core.jobs import family_of
from receiver.core.ports.reports import DeliveryReader
from receiver.core.types import DeliveryKey, Headers, Origin
from receiver.errors import KeyRefused, Malformed, NotComparable, RateLimited, ServiceUnreachable, UnreadableBody
from receiver.events import EVENT_CLASSES, Event, MonitorCheckCompleted, MonitorPage, parse_event
from receiver.events.identity import subject_key
from receiver.replay.backfill.payloads import Payload, body

FOR_ALL = (KeyRefused, RateLimited, ServiceUnreachable)
"""Errors that a request about the next job would end with too."""
_IN_MEMORY = 8 * 1024 * 1024
MAX_ITEMS = 500
MAX_BYTES = 4 * 1024 * 1024
"""The most deliveries, and bytes of bodies, that are imported together."""


@dataclass(slots=True)
class Delivered:
    """The events of a job that have arrived: the subjects of its events, and the facts in them about the job.

    `keys` are the subject keys. `through` is the seq of the last delivery that was read. `metadata` is None if no
    event has any.
    """

    job_id: str
    keys: set[DeliveryKey] = field(default_factory=set)
    family: str | None = None
    monitor_id: str | None = None
    metadata: Mapping[str, Any] | None = None
    through: int = 0


async def delivered(reports: DeliveryReader, job_id: str, *, after: int = 0, partly: bool = False) -> Delivered:
    """Return the events of a job that have arrived after a seq.

    Raises NotComparable if the bodies of some were pruned; `partly` skips these.
    """
    wanted = DeliveryFilter(job_id=job_id)
    pruned = (await reports.plan(wanted)).without_body
    if pruned and not partly:
        raise NotComparable(
            f"the bodies of {pruned:,} of its deliveries were pruned, so their events are not known"
        )
    found = Delivered(job_id, through=after)
    async for stored in reports.iter_deliveries(wanted, after=Cursor(after)):
        await asyncio.sleep(0)  # let the event loop do other work
        if stored.unreadable:
            raise UnreadableBody(stored.unreadable)
        found.through = stored.seq
        try:
            _take(found, parse_event(stored.delivery.body))
        except Malformed:  # a bundle may contain bodies that no sender sends
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
    """Bodies to import, in memory or, if they are many, in a temporary file. Use it in `with`."""

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
        """Add a body. JSON that this program writes has no line breaks."""
        self._file.write(one + b"\n")

    def cut(self, place: int) -> None:
        """Remove all bodies from this place on."""
        self._file.truncate(place)

    def read(self, begin: int, count: int) -> Iterator[bytes]:
        """Yield this many bodies, from a place on."""
        for _ in range(count):
            self._file.seek(begin)
            line = self._file.readline()
            begin += len(line)
            yield line[:-1]


@dataclass(frozen=True, slots=True)
class Missing:
    """The events of a job that have not arrived, counted by type. Their bodies are in a spool, from `begin` on.

    `produced` is how many events the service knows. `unclear` is how many of them have no subject key, so that they
    cannot be compared and are left out.
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
    """Put the events that have not arrived into the spool; `wanted` is a glob of types.

    If `events` raises, the spool is restored and the error is raised.
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


async def to_import(
    missing: Missing, spool: Spool, reports: DeliveryReader, clock: Clock, *, origin: Origin
) -> AsyncIterator[list[Imported]]:
    """Yield the missing events in parts for the store, without those that have arrived since the comparison.

    Workers handle deliveries of the origin BACKFILL. They do not handle those of the origin IMPORT.
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
    """Return the headers of a delivery that is made here. The second one names its origin."""
    return ("content-type", "application/json"), ("x-receiver-origin", origin.value)
