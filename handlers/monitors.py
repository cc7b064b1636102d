"""Messages about what monitors find: in a chat if CHAT_WEBHOOK_URL is set, otherwise in the log.

There is a message for each new or changed page (unless the monitor's judge found the change meaningless), for each
page that could not be checked, and for each check with differences. A message can come twice if the worker dies
right after sending it.
"""

import json
import logging
import os
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx

from handlers.files import one_line
from receiver import Context, GiveUp, Retry, Router
from receiver.events import MonitorCheckCompleted, MonitorPage

ATTEMPTS = 20
"""More attempts than usual: a chat refuses most of many messages for a while."""
CHAT_TIMEOUT_SECONDS = 10
LONGEST_PAUSE = timedelta(hours=1)
CHANGES_SHOWN = 20
LONGEST_TEXT = 300

router = Router()

# At INFO httpx logs every address that it calls, and whoever knows the address of the chat can write to it.
logging.getLogger("httpx").setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Message:
    """A message: a headline, a reason, and the changes of the page. All texts are printable and short."""

    headline: str
    reason: str | None = None
    changes: tuple[str, ...] = ()


def page_is_news(event: MonitorPage) -> bool:
    """Return whether this page needs a message."""
    return event.page.status in {"new", "changed", "error"} and event.page.is_meaningful is not False


def check_is_news(event: MonitorCheckCompleted) -> bool:
    """Return whether the check found any difference, or could not do its work."""
    found = event.check.summary
    return event.check.status != "completed" or any((found.changed, found.new, found.removed, found.error))


@router.on(MonitorPage, where=page_is_news, attempts=ATTEMPTS)
def tell_of_page(event: MonitorPage, ctx: Context) -> None:
    """Send a message about a page that changed, is new, or could not be checked."""
    send(page_message(event), ctx)


@router.on(MonitorCheckCompleted, where=check_is_news, attempts=ATTEMPTS)
def tell_of_check(event: MonitorCheckCompleted, ctx: Context) -> None:
    """Send a message about a check."""
    send(check_message(event), ctx)


def send(message: Message, ctx: Context) -> None:
    """Send the message to the chat, or log it when there is none."""
    address = os.environ.get("CHAT_WEBHOOK_URL")
    if address:
        post(address, as_chat(message), ctx)
    else:
        ctx.log.info("%s", as_line(message))


def page_message(event: MonitorPage) -> Message:
    """Return the message about a page."""
    page = event.page
    news = {"new": "New page", "changed": "Page changed"}.get(page.status or "", "Page could not be checked")
    reason = event.error or page.error or (page.judgment.reason if page.judgment else None)
    return Message(
        headline=f"{news}: {one_line(page.url or 'no URL given', LONGEST_TEXT)}",
        reason=reason and one_line(reason, LONGEST_TEXT),
        changes=changes(event),
    )


def check_message(event: MonitorCheckCompleted) -> Message:
    """Return the message about a check."""
    check, found = event.check, event.check.summary
    named = {"changed": found.changed, "new": found.new, "removed": found.removed, "failed": found.error}
    counts = ", ".join(f"{number} {name}" for name, number in named.items() if number) or "no differences"
    pages = "1 page" if found.total_pages == 1 else f"{found.total_pages} pages"
    return Message(
        headline=f"Check {one_line(check.status or 'ended', 40)}: {pages}, {counts}"
        f" (monitor {one_line(check.monitor_id or 'not named', 60)})",
        reason=event.error and one_line(event.error, LONGEST_TEXT),
    )


def changes(event: MonitorPage) -> tuple[str, ...]:
    """Return the first few lines or values that changed."""
    diff = event.page.diff
    if diff is None:
        return ()
    if diff.text:
        lines = diff.text.split("\n")
        start = next((number for number, line in enumerate(lines) if line.startswith("@@")), 0)
        found = [f"{line[0]} {line[1:]}" for line in lines[start:] if line.startswith(("+", "-"))]
    else:
        found = [f"{path}: {_value(one.previous)} → {_value(one.current)}" for path, one in diff.json_.items()]
    shown = [one_line(line, LONGEST_TEXT) for line in found[:CHANGES_SHOWN]]
    more = len(found) - len(shown)
    return (*shown, f"… and {more} more") if more else tuple(shown)


def as_line(message: Message) -> str:
    """Return the message for a log, which shows the end of a line within a message as two characters."""
    reason = [message.reason.rstrip(".")] if message.reason else []
    return "; ".join([message.headline, *reason, *message.changes])


def as_chat(message: Message) -> str:
    """Return the message for a chat of Slack's kind: nothing in it is a mention, a link text or a format."""
    lines = [message.headline]
    if message.reason:
        lines.append(message.reason)
    if message.changes:
        lines += ["```", *(line.replace("```", "'''") for line in message.changes), "```"]
    # The three characters that mean something to Slack: https://api.slack.com/reference/surfaces/formatting
    return "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def post(address: str, text: str, ctx: Context, *, timeout_seconds: float = CHAT_TIMEOUT_SECONDS) -> None:
    """Send a text to a chat webhook. Raises Retry or GiveUp; neither has the address, which is a secret."""
    try:
        answer = httpx.post(address, json={"text": text}, timeout=timeout_seconds)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise GiveUp("CHAT_WEBHOOK_URL is not the address of a webhook") from None
    except httpx.HTTPError as exc:
        raise Retry(f"the chat webhook cannot be reached ({type(exc).__name__})") from None
    status = answer.status_code
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        asked = pause(answer.headers.get("Retry-After", ""), ctx.now)
        # Chats accept about one message per second, so later attempts of a burst wait longer.
        raise Retry(f"the chat webhook answered {status}", after=asked * ctx.attempt if asked else None)
    if not answer.is_success:
        raise GiveUp(f"the chat webhook answered {status}: check CHAT_WEBHOOK_URL")


def pause(retry_after: str, now: datetime) -> timedelta | None:
    """Return how long to wait by a Retry-After header, seconds or a date (RFC 9110, 10.2.3), at most an hour."""
    if re.fullmatch(r"[0-9]{1,9}", retry_after):
        wanted = timedelta(seconds=int(retry_after))
    else:
        try:
            wanted = parsedate_to_datetime(retry_after) - now
        except (ValueError, TypeError):  # no date, or one without an offset
            return None
    return max(timedelta(0), min(wanted, LONGEST_PAUSE))


def _value(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
