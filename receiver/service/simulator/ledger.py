"""The account of a live run: what was sent, and so what the receiver's store must and must not hold."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from receiver.core.bulk import Cursor
from receiver.core.deliveries import DeliveryFilter, Quarantined, QuarantineFilter, StoredDelivery
from receiver.core.envelope import read_envelope
from receiver.core.ports.reports import Reports
from receiver.core.types import DeliveryKey
from receiver.errors import UnreadableBody
from receiver.service.schedule import State
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.faults import REFUSABLE, FaultKind
from receiver.service.simulator.live import EndpointReply, LiveSent

_MALFORMED, _UNAUTHENTICATED = 400, 401


class Wrong(StrEnum):
    """What can be wrong with a receiver after a live run."""

    MISSING = "missing"
    """Acknowledged, but not in the store."""
    LOST = "lost"
    """Sent whole at least once, then given up by the sender, and not in the store."""
    ALTERED = "altered"
    """In the store with another body."""
    MISCOUNTED = "miscounted"
    """In the store with fewer duplicates than were acknowledged, or with more than can have arrived."""
    TAKEN = "taken"
    """Forged or cut short, but acknowledged or in the store."""
    NOT_IN_QUARANTINE = "not in quarantine"
    """Refused as malformed, but not in quarantine."""
    IN_QUARANTINE = "in quarantine"
    """Refused as not authentic, but in quarantine; or a delivery that was stored as a conflict."""
    UNKNOWN = "unknown"
    """In the store, with a job of this run, but never sent."""


class Mark(NamedTuple):
    """What a store held last before a run."""

    seq: int
    """Number of the store's last delivery."""
    request_id: int
    """Number of the store's last request in quarantine."""


@dataclass(slots=True)
class Findings:
    """What a store holds of a run, and what is wrong with it."""

    stored: int = 0
    """Deliveries of the run in the store."""
    duplicates: int = 0
    """How often the store counted one of them again."""
    unanswered: int = 0
    """Deliveries of the run in the store that were never acknowledged."""
    quarantined: int = 0
    """Requests of the run in quarantine."""
    others: int = 0
    """Deliveries that other senders sent meanwhile."""
    wrong: dict[Wrong, list[str]] = field(default_factory=dict)
    """Ids of the deliveries that break a rule, by the rule."""

    def add(self, kind: Wrong, ids: Iterable[str]) -> None:
        """Add ids that break a rule."""
        for one in ids:
            self.wrong.setdefault(kind, []).append(one)


@dataclass(slots=True)
class _Entry:
    """What the ledger keeps of a delivery."""

    digest: bytes
    """Digest of its body."""
    acknowledged: int = 0
    """How often it was answered 2xx."""
    arrived: int = 0
    """How often it can have arrived at most."""
    whole: bool = False
    """Whether the whole of it was ever sent."""
    given_up: bool = False
    """Whether the sender has given it up."""


@dataclass(slots=True)
class _Refusable:
    """A request that no receiver may accept."""

    key: DeliveryKey
    """An id for people."""
    replies: list[EndpointReply] = field(default_factory=list)
    """The replies to it, one for each time that it was sent."""

    def was_answered(self, status: int) -> bool:
        return any(reply.status == status for reply in self.replies)

    @property
    def acknowledged(self) -> bool:
        return any(reply.outcome is ResponseKind.OK for reply in self.replies)


class Ledger:
    """Keeps about 300 bytes for each delivery of a run, and no body."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._entries: dict[DeliveryKey, _Entry] = {}
        self._jobs: set[str] = set()
        self._refusable: dict[bytes, _Refusable] = {}

    def note(self, sent: LiveSent) -> DeliveryKey:
        """Record a request, and return the id of its delivery."""
        request, reply, attempt = sent
        delivery = read_envelope((), request.body, received_at=self._now)
        key = delivery.key
        if reply is not None and request.way in REFUSABLE:
            # The first halves of two deliveries can be equal, because they differ only in the second half.
            self._refusable.setdefault(_digest(request.payload), _Refusable(key)).replies.append(reply)
        if request.way is FaultKind.FORGED:
            return key
        if delivery.job_id is not None:
            self._jobs.add(delivery.job_id)
        entry = self._entries.setdefault(key, _Entry(_digest(request.body)))
        entry.given_up |= attempt is not None and attempt.state is State.FAILED
        if reply is not None and request.way not in REFUSABLE:
            entry.whole |= request.way is FaultKind.WHOLE
            entry.acknowledged += reply.outcome is ResponseKind.OK
            entry.arrived += reply.outcome is not ResponseKind.REFUSED
        return key

    def unchecked(self) -> Findings:
        """Return what the answers alone show to be wrong."""
        findings = Findings()
        findings.add(Wrong.TAKEN, self._taken())
        findings.add(Wrong.LOST, (key for key, entry in self._entries.items() if _is_lost(entry)))
        return findings

    async def check(self, reports: Reports, since: Mark) -> Findings:
        """Return what a store holds that was added after `since`. It is read without keeping it in memory."""
        findings = Findings()
        findings.add(Wrong.TAKEN, self._taken())
        seen: set[DeliveryKey] = set()
        async for stored in reports.iter_deliveries(DeliveryFilter(), after=Cursor(since.seq)):
            if stored.unreadable:
                raise UnreadableBody(stored.unreadable)
            self._judge(stored, findings)
            seen.add(stored.delivery.key)
        for key, entry in self._entries.items():
            if key not in seen and entry.acknowledged:
                findings.add(Wrong.MISSING, [key])
            elif key not in seen and _is_lost(entry):
                findings.add(Wrong.LOST, [key])
        await self._check_quarantine(reports, since, findings)
        return findings

    def _judge(self, stored: StoredDelivery, findings: Findings) -> None:
        key, digest = stored.delivery.key, _digest(stored.delivery.body)
        entry = self._entries.get(key)
        if refusable := self._refusable.get(digest):
            if not refusable.acknowledged:  # otherwise it is reported already
                findings.add(Wrong.TAKEN, [refusable.key])
        elif entry is None and stored.delivery.job_id in self._jobs:
            findings.add(Wrong.UNKNOWN, [key])
        elif entry is None:
            findings.others += 1
        else:
            findings.stored += 1
            findings.duplicates += stored.duplicates
            findings.unanswered += not entry.acknowledged
            if digest != entry.digest:
                findings.add(Wrong.ALTERED, [key])
            elif not entry.acknowledged - 1 <= stored.duplicates < max(1, entry.arrived):
                findings.add(Wrong.MISCOUNTED, [key])

    async def _check_quarantine(self, reports: Reports, since: Mark, findings: Findings) -> None:
        kept: set[bytes] = set()
        wanted = reports.quarantined_requests(QuarantineFilter())
        for number in [one.id async for one in wanted if one.id > since.request_id]:
            request = await reports.quarantined_request(number)
            digest = _digest(request.body)
            kept.add(digest)
            self._judge_refused(request, self._refusable.get(digest), findings)
        for digest, refusable in self._refusable.items():
            if refusable.was_answered(_MALFORMED) and digest not in kept:
                findings.add(Wrong.NOT_IN_QUARANTINE, [refusable.key])

    def _judge_refused(self, request: Quarantined, refusable: _Refusable | None, findings: Findings) -> None:
        if refusable is not None:
            findings.quarantined += 1
            if all(reply.status == _UNAUTHENTICATED for reply in refusable.replies):
                findings.add(Wrong.IN_QUARANTINE, [refusable.key])
        elif request.key in self._entries:
            findings.add(Wrong.IN_QUARANTINE, [str(request.key)])

    def _taken(self) -> list[str]:
        return [one.key for one in self._refusable.values() if one.acknowledged]


async def mark(reports: Reports) -> Mark:
    """Return what a store holds last."""
    seqs = [one.seq async for one in reports.deliveries(DeliveryFilter(limit=1))]
    refused = [one.id async for one in reports.quarantined_requests(QuarantineFilter(limit=1))]
    return Mark(max(seqs, default=0), max(refused, default=0))


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def _is_lost(entry: _Entry) -> bool:
    return entry.given_up and entry.whole and not entry.acknowledged
