"""What an alert says, as a text for a chat and as fields for programs, and how it is posted.

Posts are signed by Standard Webhooks: https://www.standardwebhooks.com
"""

import asyncio
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from receiver.core.addresses import is_loopback, is_private
from receiver.core.attention import Concern, ConcernKind
from receiver.core.clock import Clock, iso, time_limit
from receiver.core.signing import sign_standard
from receiver.core.text import counted, escape_controls
from receiver.errors import AlertNotSent

FIRING, RESOLVED = "firing", "resolved"

_WELL_AGAIN = {
    ConcernKind.DEAD: "nothing is dead in {} any more",
    ConcernKind.BACKLOG: "no work is overdue any more",
    ConcernKind.NO_DELIVERY: "deliveries come again",
    ConcernKind.REFUSED: "few or no requests are refused now",
    ConcernKind.QUARANTINED: "no request was put in quarantine in the last 24 hours",
}


@dataclass(frozen=True, slots=True)
class AlertEntry:
    """One entry of an alert: a problem, or its end."""

    kind: str
    """What is wrong, as `ConcernKind` has it; `test` for a trial."""
    subject: str
    """Such as a handler; empty if it is about the whole deployment."""
    state: str
    """`firing` or `resolved`."""
    text: str
    """A sentence for people."""
    count: int = 0
    """How many there are of it; 0 if it is well again."""
    reasons: tuple[str, ...] = ()
    """What there is of it, such as errors without their numbers."""

    @property
    def key(self) -> str:
        """What all entries about the same thing have in common."""
        return entry_key(self.kind, self.subject)


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """What is posted. A second try posts the same, which lets the other side recognize it."""

    id: str
    """`webhook-id` of Standard Webhooks."""
    body: bytes
    """A JSON object."""


def entry_key(kind: str, subject: str) -> str:
    """Return the key of an entry."""
    return f"{kind}:{subject}"


def firing(concerns: Iterable[Concern]) -> dict[str, AlertEntry]:
    """Return one entry for all concerns of a kind and a subject, by key. The first of them is the worst."""
    groups: dict[str, list[Concern]] = {}
    for one in concerns:
        groups.setdefault(entry_key(one.kind, one.subject), []).append(one)
    return {key: _entry(group) for key, group in groups.items()}


def _entry(group: Sequence[Concern]) -> AlertEntry:
    worst, others = group[0], sum(one.count for one in group[1:])
    more = f" (and {others:,} with {counted(len(group) - 1, 'other error')})" if others else ""
    reasons = tuple([one.reason for one in group if one.reason])
    return AlertEntry(worst.kind, worst.subject, FIRING, worst.sentence + more, worst.count + others, reasons)


def resolved(kind: ConcernKind, subject: str) -> AlertEntry:
    """Return the entry which says that something is well again."""
    return AlertEntry(kind, subject, RESOLVED, f"Well again: {_WELL_AGAIN[kind].format(subject)}")


def trial(url_host: str) -> AlertEntry:
    """Return the entry of a test message."""
    return AlertEntry("test", "", RESOLVED, f"This is a test: alerts reach {url_host}. All is well.")


def message_of(entries: Sequence[AlertEntry], *, machine: str, now: datetime) -> AlertMessage:
    """Return the message about these entries."""
    lines = [escape_controls(one.text) for one in entries]
    first = f"receiver on {machine}"
    text = f"{first}: {lines[0]}" if len(lines) == 1 else "\n".join([f"{first}:", *(f"• {one}" for one in lines)])
    content = {
        "text": _plain(text),
        "machine": machine,
        "sent_at": iso(now),
        "alerts": [
            {
                "kind": str(one.kind),
                "state": one.state,
                "subject": one.subject,
                "count": one.count,
                "text": one.text,
                "reasons": one.reasons,
            }
            for one in entries
        ],
    }
    return AlertMessage(f"alert_{secrets.token_hex(12)}", json.dumps(content).encode())


def _plain(text: str) -> str:
    """Return a text in which nothing is a link or a mention: the error of a handler may quote a page.

    The three characters are those of Slack: https://api.slack.com/reference/surfaces/formatting
    Other chats notify people by an @, which the invisible character after it prevents.
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "@\u200b")


if TYPE_CHECKING:  # it takes long to load, and few processes post
    import httpx

_WITHIN = timedelta(seconds=15)
_SUCCESS = range(200, 300)


class AlertPoster:
    """Posts messages to one URL. It follows no redirect, and reads no body of an answer.

    The URL is a secret: no error and no log line has more of it than the host.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | None,
        clock: Clock,
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        self._url = url
        self._secret = secret
        self._clock = clock
        self._transport = transport
        self.host = urlsplit(url).hostname or ""
        """Where messages go, for people."""

    async def post(self, message: AlertMessage) -> None:
        """Post a message once. Raises AlertNotSent unless the answer is 2xx."""
        try:
            async with (
                time_limit(self._clock, _WITHIN),
                await self._open() as client,
                client.stream("POST", self._url, content=message.body, headers=self._headers(message)) as answer,
            ):
                status = answer.status_code
        except TimeoutError:
            raise AlertNotSent(f"{self.host} did not answer within {_WITHIN.seconds} s") from None
        except Exception as exc:  # of many kinds, for proxies and certificates too; its text may have the URL
            raise AlertNotSent(f"{self.host} cannot be reached ({type(exc).__name__})") from None
        if status not in _SUCCESS:
            raise AlertNotSent(f"{self.host} answered {status}: check RECEIVER_ALERT_URL")

    async def _open(self) -> "httpx.AsyncClient":
        """Return a client. The library and certificates are loaded in a thread: requests of senders do not wait."""
        return await asyncio.to_thread(self._client) if self._transport is None else self._client()

    def _client(self) -> "httpx.AsyncClient":
        import httpx

        inside = is_loopback(self.host) or is_private(self.host)  # a proxy would look in its own network
        return httpx.AsyncClient(transport=self._transport, timeout=_WITHIN.seconds, trust_env=not inside)

    def _headers(self, message: AlertMessage) -> dict[str, str]:
        timestamp = int(self._clock.now().timestamp())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "crawl-receiver",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
        }
        if self._secret is not None:
            headers["webhook-signature"] = sign_standard(
                message.body, self._secret, message_id=message.id, timestamp=timestamp
            )
        return headers
