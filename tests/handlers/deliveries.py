"""Hands payloads to a router's handlers as the worker does."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from receiver import Context, Router, parse_event
from receiver.context import DeliveryInfo
from receiver.samples import encode, load_sample, set_value
from receiver.types import DeliveryKey, HandlerName, Trigger

NOON = datetime(2026, 8, 4, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)


def payload(name: str, **values: Any) -> dict[str, Any]:
    """Return a sample with some values set; `data__0__markdown` stands for the path `data.0.markdown`."""
    changed = load_sample(name)
    for path, value in values.items():
        set_value(changed, path.replace("__", "."), value)
    return changed


def page_of(url: str, **values: Any) -> dict[str, Any]:
    """Return the event of a good page of this URL. Its delivery is named after the URL."""
    return payload("crawl.page", data__0__metadata__sourceURL=url, webhookId=None, **values)


def wanted_by(router: Router, content: dict[str, Any]) -> list[str]:
    """Return the names of the functions that a payload would be handed to."""
    event = parse_event(encode(content))
    return [handler.function.__name__ for handler in router if handler.wants(event)]


def handle(router: Router, content: dict[str, Any] | bytes, *, at: datetime = NOON, attempt: int = 1) -> Context:
    """Run all handlers of the router that want this payload, and return what they were told beside it."""
    body = content if isinstance(content, bytes) else encode(content)
    event = parse_event(body)
    key = DeliveryKey(event.webhook_id or f"sha256:{hashlib.sha256(body).hexdigest()}")
    ctx = Context(
        handler=HandlerName("a.handler"),
        attempt=attempt,
        trigger=Trigger.DELIVERY,
        delivery=DeliveryInfo(key=key, received_at=at, headers=(), duplicates=0, size=len(body)),
        now=at,
        log=logging.LoggerAdapter(logging.getLogger("a.handler"), {}),
    )
    for handler in router:
        if handler.wants(event):
            handler.function(event, ctx)
    return ctx


@contextmanager
def fresh_output() -> Iterator[Path]:
    """An output folder for one of many examples inside a test."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTPUT_DIR", name)
        yield Path(name)
