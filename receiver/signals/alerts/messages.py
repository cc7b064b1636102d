"""What an alert says: a text for a chat, and the same as fields for programs."""

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from receiver.core.attention import Concern, ConcernKind
from receiver.core.clock import iso
from receiver.core.text import counted, escape_controls

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
    """One thing that an alert tells: what needs somebody, or that it is well again."""

    kind: str
    """What is wrong, as `ConcernKind` has it; `test` for somebody who tries."""
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
    """What is posted. A second try posts the same, so that the other side can tell that it has it."""

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
    """Return an entry for somebody who tries whether alerts arrive."""
    return AlertEntry("test", "", RESOLVED, f"This is a test: alerts reach {url_host}. All is well.")


def message_of(entries: Sequence[AlertEntry], *, machine: str, now: datetime) -> AlertMessage:
    """Return the message that tells these."""
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
    Other chats notify people by an @, which the invisible character behind it prevents.
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "@\u200b")
