"""Hands payloads to a router's handlers as the worker does."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from receiver import Router
from receiver.service.samples import encode, load_sample, set_value
from receiver.testing import HandlerRun, deliver, record_calls

NOON = datetime(2026, 8, 4, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)


def payload(name: str, **values: Any) -> dict[str, Any]:
    """Return a sample with the ids it was recorded with; `data__0__markdown` sets the path `data.0.markdown`."""
    changed = load_sample(name)
    for path, value in values.items():
        set_value(changed, path.replace("__", "."), value)
    return changed


def page_of(url: str, **values: Any) -> dict[str, Any]:
    """Return the event of a good page of this URL. Its delivery is named after the URL."""
    return payload("crawl.page", data__0__metadata__sourceURL=url, webhookId=None, **values)


def wanted_by(router: Router, content: dict[str, Any]) -> list[str]:
    """Return the names of the functions that a payload would be handed to."""
    recorded = record_calls(router, run=False)
    deliver(encode(content), recorded.router)
    return [call.handler.rpartition(".")[2] for call in recorded.calls]


def handle(
    router: Router, content: dict[str, Any] | bytes, *, at: datetime = NOON, attempt: int = 1
) -> Sequence[HandlerRun]:
    """Run all handlers of the router that want this payload; what one of them raises comes out."""
    body = content if isinstance(content, bytes) else encode(content)
    return deliver(body, router, now=at, attempt=attempt)


@contextmanager
def fresh_output() -> Iterator[Path]:
    """An output folder for one of many examples inside a test."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTPUT_DIR", name)
        yield Path(name)
