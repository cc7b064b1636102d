"""Watches for problems, and posts them: once for all processes, in one message, and again when they are over.

One process at a time reads the store for that. What has been reported is noted in the store, as keys that expire,
like those of `ctx.once`: a process that starts, or that takes over, does not repeat it.
"""

import hashlib
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.attention import AttentionLimits, Concern, ConcernKind, concerns, read_attention
from receiver.core.clock import Clock
from receiver.core.ports.queue import OnceKeys
from receiver.core.ports.reports import Reports
from receiver.core.types import HandlerName
from receiver.errors import AlertNotSent, ReceiverError, StoreError
from receiver.runtime.log_lines import event_log
from receiver.signals.alerts.posting import (
    AlertEntry,
    AlertMessage,
    AlertPoster,
    entry_key,
    firing,
    message_of,
    resolved,
)

log = event_log(__name__)

EVERY = timedelta(seconds=30)
"""How often to check."""
LASTS = timedelta(minutes=1)
"""How long a problem lasts before it is reported, and how long it has to be over. Failures then share a message."""
_DUTY = timedelta(minutes=2)
"""After this time without a check by the process that has the duty, another one takes it."""
_AGAIN = timedelta(days=1)
"""A problem that lasts is reported again after this time."""
_REFUSED_AGAIN = timedelta(hours=1)
"""No process knows what the others refuse, and what they reported expires soon."""
_PAUSE = timedelta(minutes=10)
"""Between two messages about the same thing, unless there is ten times as much of it."""
_CLAIM = timedelta(minutes=30)
"""If the process ends before its message is posted, another one reports it after this time."""
_TRIES = 6
_FIRST_RETRY = timedelta(seconds=30)
_MOST_REASONS = 20
_MOST_DIGITS = 9
_KEYS = HandlerName("receiver alerts")
"""Stands where the handler stands in other keys; no handler has this name, which has a space."""
_STORE_KINDS = (ConcernKind.BACKLOG, ConcernKind.NO_DELIVERY, ConcernKind.QUARANTINED)


@dataclass(slots=True)
class _Pending:
    """A message that is not posted yet."""

    message: AlertMessage
    """It."""
    expiries: dict[str, datetime | None]
    """What to note in the store when it is posted: when each key expires."""
    try_at: datetime
    """When to try it next, on the steady clock."""
    tries: int = 0
    """How often it could not be posted."""


class AlertWatch:
    """Posts problems. Every process of a deployment may run one; together they report each problem once."""

    def __init__(
        self,
        reports: Callable[[], AbstractAsyncContextManager[Reports]],
        keys: OnceKeys,
        clock: Clock,
        poster: AlertPoster,
        *,
        kinds: frozenset[ConcernKind],
        limits: AttentionLimits,
        local: Callable[[datetime], Iterable[Concern]] = lambda _: (),
        machine: str | None = None,
    ) -> None:
        """`kinds` are reported. `local` yields what only this process knows."""
        self._reports = reports
        self._keys = keys
        self._clock = clock
        self._poster = poster
        self._kinds = kinds
        self._limits = limits
        self._local = local
        self._machine = machine or socket.gethostname()
        self._duty_until: datetime | None = None
        self._since: dict[str, datetime] = {}
        self._well_since: dict[str, datetime] = {}
        self._told_here: set[str] = set()
        self._pending: _Pending | None = None
        self._told_alone: list[AlertEntry] = []
        """What was reported while the store could not be reached, and is not noted there yet."""
        self._silent_until = clock.steady()

    async def run(self) -> None:
        """Check again and again until cancelled. Every error is logged."""
        try:
            while True:
                try:
                    await self.check()
                except ReceiverError as exc:
                    log.warning("alerts_not_checked", extra={"reason": str(exc)})
                except Exception:  # a bug of ours: the next check may go well
                    log.exception("alerts_not_checked")
                await self._clock.sleep(EVERY)
        finally:
            await self._leave()

    async def _leave(self) -> None:
        """Let another process take the duty at once."""
        now = self._clock.now()
        if self._duty_until is not None and now < self._duty_until:
            with suppress(ReceiverError):  # another process takes it a little later
                await self._keys.set_once_expiry(_KEYS, "duty", until=now)

    async def check(self) -> None:
        """Check once, and post what is news. Raises StoreError if the store is away."""
        now, steady = self._clock.now(), self._clock.steady()
        try:
            await self._check(now, steady)
        except StoreError:
            await self._check_alone(now, steady)
            raise

    async def _check_alone(self, now: datetime, steady: datetime) -> None:
        """Post what only this process knows: while the store is away every request is refused."""
        found = firing(self._local(now)) if ConcernKind.REFUSED in self._kinds else {}
        if not found:
            self._since.pop(entry_key(ConcernKind.REFUSED, ""), None)
        self._since |= {key: self._since.get(key, steady) for key in found}
        news = [entry for key, entry in found.items() if steady - self._since[key] >= LASTS]
        if self._pending is None and news and steady >= self._silent_until:
            self._pending = _Pending(message_of(news, machine=self._machine, now=now), {}, steady)
            self._silent_until = steady + _REFUSED_AGAIN
            self._told_alone = news
            self._told_here |= found.keys()
        if self._pending is not None:
            await self._post(self._pending, now, steady)

    async def _check(self, now: datetime, steady: datetime) -> None:
        has_duty = await self._has_duty(now)
        for entry in self._told_alone:
            await self._claim(entry, now)
        self._told_alone = []
        if self._pending is not None:
            await self._post(self._pending, now, steady)
            return
        found, known = await self._found(now) if has_duty else ({}, {})
        if ConcernKind.REFUSED in self._kinds:
            found |= firing(self._local(now))
            refused = entry_key(ConcernKind.REFUSED, "")
            if refused in self._told_here:
                known[refused] = ConcernKind.REFUSED, ""
        entries, expiries = await self._news(found, now, steady)
        for entry in await self._recovered(found, known, now, steady):
            entries.append(entry)
            expiries |= dict.fromkeys([entry.key, f"{entry.key}!", *_levels(entry.key, _MOST_DIGITS)], now)
        if entries:
            message = message_of(entries, machine=self._machine, now=now)
            self._pending = _Pending(message, expiries, steady)
            self._told_here |= {one.key for one in entries}
            await self._post(self._pending, now, steady)

    async def _has_duty(self, now: datetime) -> bool:
        """Return whether this process is the one that reads the store; take the duty if no process has it."""
        until = now + _DUTY
        if self._duty_until is not None and now < self._duty_until:
            # It is taken anew: retention forgets keys by when they were taken, and then another process has it.
            await self._keys.set_once_expiry(_KEYS, "duty", until=now)
        taken = await self._keys.once(_KEYS, "duty", now=now, until=until)
        self._duty_until = until if taken else None
        return taken

    async def _found(self, now: datetime) -> tuple[dict[str, AlertEntry], dict[str, tuple[ConcernKind, str]]]:
        """Return the problems that the store shows, and the keys of all that it could show."""
        async with self._reports() as reports:
            attention = await read_attention(reports, now)
            names = await reports.handler_names()
        told = [one for one in concerns(attention, self._limits, now) if one.kind in self._kinds]
        known = [*((kind, "") for kind in _STORE_KINDS), *((ConcernKind.DEAD, name) for name in names)]
        wanted = [one for one in known if one[0] in self._kinds]
        return firing(told), {entry_key(kind, subject): (kind, subject) for kind, subject in wanted}

    async def _news(
        self, found: dict[str, AlertEntry], now: datetime, steady: datetime
    ) -> tuple[list[AlertEntry], dict[str, datetime | None]]:
        """Return what has lasted and is not reported yet, and the keys that note it."""
        self._since = {key: self._since.get(key, steady) for key in found}
        news: list[AlertEntry] = []
        expiries: dict[str, datetime | None] = {}
        for key, entry in found.items():
            self._well_since.pop(key, None)
            if steady - self._since[key] >= LASTS and (claimed := await self._claim(entry, now)):
                again = _REFUSED_AGAIN if entry.kind == ConcernKind.REFUSED else _AGAIN
                expiries |= dict.fromkeys(claimed, now + again)
                expiries |= {key: None, f"{key}!": now + _PAUSE}
                news.append(entry)
        return news, expiries

    async def _claim(self, entry: AlertEntry, now: datetime) -> Sequence[str]:
        """Claim an entry for this process if it is news: a count with one digit more, or a new reason.

        Returns the keys that it has; an empty list if it is no news, or another process reports it.
        """
        levels = _levels(entry.key, len(str(entry.count)))
        reasons = [
            f"{entry.key}?{hashlib.sha256(one.encode()).hexdigest()[:16]}" for one in entry.reasons[:_MOST_REASONS]
        ]
        pause = f"{entry.key}!"
        free = await self._keys.available_once_keys(_KEYS, [levels[-1], pause, *reasons], now=now)
        new_reasons = [one for one in reasons if one in free and pause in free]
        first = next(iter([*([levels[-1]] if levels[-1] in free else []), *new_reasons]), None)
        until = now + _CLAIM
        if first is None or not await self._keys.once(_KEYS, first, now=now, until=until):
            return ()
        claimed = [*levels, *reasons]
        for key in (entry.key, pause, *claimed):
            await self._keys.once(_KEYS, key, now=now, until=until)
        return claimed

    async def _recovered(
        self,
        found: dict[str, AlertEntry],
        known: dict[str, tuple[ConcernKind, str]],
        now: datetime,
        steady: datetime,
    ) -> Sequence[AlertEntry]:
        """Return what was reported and has been over for a while."""
        absent = [key for key in known if key not in found]
        free = await self._keys.available_once_keys(_KEYS, absent, now=now) if absent else frozenset()
        well = {key: self._well_since.get(key, steady) for key in absent if key not in free}
        self._well_since = well
        return [resolved(*known[key]) for key, since in well.items() if steady - since >= LASTS]

    async def _post(self, pending: _Pending, now: datetime, steady: datetime) -> None:
        """Post a message, and note what it reports; try again later if that fails."""
        if steady < pending.try_at:
            return
        try:
            await self._poster.post(pending.message)
        except AlertNotSent as exc:
            await self._postpone(pending, now, steady, str(exc))
            return
        self._pending = None
        for key, until in pending.expiries.items():
            await self._keys.set_once_expiry(_KEYS, key, until=until)
        log.info("alert_sent", extra={"to": self._poster.host, "id": pending.message.id})

    async def _postpone(self, pending: _Pending, now: datetime, steady: datetime, reason: str) -> None:
        pending.tries += 1
        if pending.tries == _TRIES:  # what is still wrong then makes a new message
            self._pending = None
            for key in _claims(pending, now):
                await self._keys.set_once_expiry(_KEYS, key, until=now)
        pause = _FIRST_RETRY * 2 ** (pending.tries - 1)
        pending.try_at = steady + pause
        log.warning("alert_not_sent", extra={"reason": reason, "id": pending.message.id, "retry_at": now + pause})


def _claims(pending: _Pending, now: datetime) -> Iterator[str]:
    """Yield the keys that were claimed for a message; those of what is well again are released by it."""
    for key, until in pending.expiries.items():
        if until is None or until > now:
            yield key


def _levels(key: str, digits: int) -> Sequence[str]:
    return [f"{key}#{number}" for number in range(1, digits + 1)]
