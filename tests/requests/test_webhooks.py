"""Webhooks in requests: addresses, headers, metadata, and the two names of every event."""

from typing import Any

import pytest
from pydantic import ValidationError

from receiver.app import Receiver
from receiver.errors import ConfigurationError, NoApiKey
from receiver.requests import (
    EVENT_KINDS,
    AgentRequest,
    BatchScrapeRequest,
    CrawlRequest,
    ExtractRequest,
    MonitorChanges,
    Operation,
    Request,
    WebhookConfig,
    to_event_type,
    to_filter_value,
)
from receiver.settings import Settings, load_settings
from tests.cases import for_each

pytestmark = pytest.mark.usefixtures("bare_environment")

HOOK = "https://hooks.example.com/webhooks"
REQUESTS: dict[Operation, tuple[type[Request], dict[str, Any]]] = {
    Operation.CRAWL: (CrawlRequest, {"url": "https://example.com"}),
    Operation.BATCH_SCRAPE: (BatchScrapeRequest, {"urls": ["https://example.com"]}),
    Operation.EXTRACT: (ExtractRequest, {"prompt": "p"}),
    Operation.AGENT: (AgentRequest, {"prompt": "p"}),
    Operation.MONITOR: (MonitorChanges, {}),
}
# What the service takes in `events`, and the type that it then sends.
TAKEN = {
    Operation.CRAWL: {"started": "crawl.started", "page": "crawl.page", "completed": "crawl.completed"}
    | {"failed": "crawl.failed"},
    Operation.BATCH_SCRAPE: {"started": "batch_scrape.started", "page": "batch_scrape.page"}
    | {"completed": "batch_scrape.completed", "failed": "batch_scrape.failed"},
    Operation.EXTRACT: {"started": "extract.started", "page": "extract.page", "completed": "extract.completed"}
    | {"failed": "extract.failed"},
    Operation.AGENT: {"started": "agent.started", "action": "agent.action", "completed": "agent.completed"}
    | {"failed": "agent.failed", "cancelled": "agent.cancelled"},
    Operation.MONITOR: {
        "monitor.page": "monitor.page",
        "monitor.check.completed": "monitor.check.completed",
    },
}
EVERY_NAME = [(operation, value, kind) for operation, taken in TAKEN.items() for value, kind in taken.items()]


@for_each(("operation", "value", "event_type"), EVERY_NAME)
def test_each_event_has_a_short_and_a_full_name(operation: Operation, value: str, event_type: str) -> None:
    """The service takes one of them in requests, and sends the other in deliveries."""
    short = event_type.removeprefix(f"{operation}.")
    for name in (short, event_type):
        assert to_filter_value(name, operation) == value
        assert to_event_type(name, operation) == event_type


def test_no_operation_has_other_events() -> None:
    """The list is complete."""
    assert {operation: len(kinds) for operation, kinds in EVENT_KINDS.items()} == {
        operation: len(taken) for operation, taken in TAKEN.items()
    }


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (Operation.CRAWL, "batch_scrape.page"),
        (Operation.CRAWL, "cancelled"),
        (Operation.AGENT, "page"),
        (Operation.MONITOR, "completed"),
        (Operation.MONITOR, "crawl.page"),
        (Operation.EXTRACT, ""),
    ],
)
def test_an_event_of_another_operation_is_refused(operation: Operation, name: str) -> None:
    """The error names the field and the events of the operation."""
    with pytest.raises(ValueError, match=f"{operation} has no event '{name}'; it has "):
        to_filter_value(name, operation)
    model, values = REQUESTS[operation]
    with pytest.raises(ValidationError, match=r"webhook\n.*events: "):
        model.model_validate({**values, "webhook": {"url": HOOK, "events": [name]}})


@for_each(("operation", "value", "event_type"), EVERY_NAME)
def test_a_request_sends_the_name_that_the_service_takes(operation: Operation, value: str, event_type: str) -> None:
    """Either name may be given, also when a request is read back."""
    model, values = REQUESTS[operation]
    request = model.model_validate({**values, "webhook": WebhookConfig(url=HOOK, events=[event_type])})

    assert request.wire()["webhook"] == {"url": HOOK, "events": [value]}
    assert model.model_validate(request.wire()) == request


def test_a_text_alone_is_the_address_of_a_webhook() -> None:
    """The full object is sent."""
    assert CrawlRequest(url="https://example.com", webhook=HOOK).wire()["webhook"] == {"url": HOOK}


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/webhooks",
        "http://receiver:8000/webhooks",
        "http://10.0.0.5/",
        "http://hooks.internal/",
    ],
)
def test_plain_http_is_allowed_for_private_hosts(url: str) -> None:
    """Only a self-hosted service can reach them."""
    assert WebhookConfig(url=url).wire() == {"url": url}


@for_each(
    ("values", "rule"),
    [
        ({}, "url\n  Field required"),
        ({"url": "hooks.example.com"}, "url\n.*write a whole address, with https:// or http:// and a host"),
        ({"url": "http://hooks.example.com/"}, "url: it has to begin with https://"),
        ({"url": "http://8.8.8.8/"}, "url: it has to begin with https://"),
        ({"url": "https://me:s3cret@hooks.example.com/"}, "url: it must not contain a user and password"),
        ({"url": HOOK, "headers": {"x-FireCrawl-signature": "s3cret"}}, "headers: X-Firecrawl-Signature"),
        ({"url": HOOK, "headers": {"X-Token": 5}}, "headers.X-Token\n.*valid string"),
        ({"url": HOOK, "headers": {"X-Token": None}}, "headers.X-Token\n.*valid string"),
        ({"url": HOOK, "metadata": ["tries"]}, "metadata\n.*valid dictionary"),
        ({"url": HOOK, "metadata": {"tries": object()}}, "metadata.tries\n.*valid JSON"),
        ({"url": HOOK, "secret": "s3cret"}, "secret\n  Extra inputs are not permitted"),
    ],
)
def test_a_webhook_that_the_service_would_refuse_is_refused(values: dict[str, Any], rule: str) -> None:
    """The error names field and rule, and no value."""
    with pytest.raises(ValidationError, match=rule) as caught:
        WebhookConfig.model_validate(values)

    assert "s3cret" not in str(caught.value)


def test_metadata_are_any_object() -> None:
    """The interface specification says: custom data. Each value is sent as it is."""
    metadata = {"order": 17, "parts": ["a", None], "paid": True, "note": None}

    assert WebhookConfig(url=HOOK, metadata=metadata).wire()["metadata"] == metadata


# --- the webhook of this receiver


def test_a_receiver_makes_the_webhook_of_its_own_endpoint() -> None:
    """The address is its path below the public address."""
    receiver = Receiver(Settings(public_url="https://hooks.example.com/", path="/in"))

    assert receiver.webhook() == WebhookConfig(url="https://hooks.example.com/in")
    assert receiver.webhook(events=["page"], metadata={"shop": "7"}).wire() == {
        "url": "https://hooks.example.com/in",
        "events": ["page"],
        "metadata": {"shop": "7"},
    }


def test_the_first_static_token_is_sent_along() -> None:
    """The others are for a change of tokens. No repr contains it."""
    settings = Settings(public_url="https://hooks.example.com", token_header="X-Token", tokens=("s3cret", "older"))

    webhook = settings.webhook()

    assert webhook.headers == {"X-Token": "s3cret"}
    assert "s3cret" not in repr(webhook)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "no RECEIVER_PUBLIC_URL is set: set it to the URL"),
        ({"public_url": "hooks.example.com"}, "RECEIVER_PUBLIC_URL: write a whole address, with https://"),
        ({"public_url": "http://hooks.example.com"}, "RECEIVER_PUBLIC_URL: url: it has to begin with https://"),
    ],
)
def test_a_webhook_needs_a_public_address(values: dict[str, Any], words: str) -> None:
    """The error names the setting."""
    with pytest.raises(ConfigurationError, match=words):
        Settings(**values).webhook()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000/in"),
        ("0.0.0.0", "http://127.0.0.1:9000/in"),
        ("::1", "http://[::1]:9000/in"),
        ("localhost", "http://localhost:9000/in"),
    ],
)
def test_a_service_on_this_machine_needs_no_public_address(host: str, url: str) -> None:
    """Such as the emulator: it reaches the port that the receiver listens on."""
    settings = Settings(base_url="http://127.0.0.1:3002", host=host, port=9000, path="/in", secrets=("a-secret-1",))

    assert settings.webhook().url == url


def test_the_key_of_the_service_comes_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key the error names the setting."""
    with pytest.raises(NoApiKey, match="no RECEIVER_API_KEY is set"):
        load_settings().plain_api_key()

    monkeypatch.setenv("RECEIVER_API_KEY", "fc-1")

    assert load_settings().plain_api_key() == "fc-1"
