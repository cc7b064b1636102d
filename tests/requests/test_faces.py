"""Fields that requests and answers share are declared once, and answers read what requests write."""

import pytest
from pydantic import BaseModel

from receiver.events.documents import ServiceModel
from receiver.requests import (
    CrawlTarget,
    EmailNotification,
    MonitorRequest,
    Notification,
    Request,
    Schedule,
    ScrapeOptions,
    ScrapeRequest,
    ScrapeTarget,
    SearchTarget,
    WebhookConfig,
    fields,
)
from receiver.service.responses import (
    EmailSettings,
    Monitor,
    MonitorSchedule,
    MonitorTarget,
    NotificationSettings,
    TargetOptions,
    WebhookSettings,
)

PAGE = "https://example.com/"
TARGET_ID = "019f2c10-0000-7000-8000-000000000001"
OPTIONS = ScrapeOptions(
    actions=[{"type": "wait", "milliseconds": 5}],
    audit_metadata={"username": "team"},
    block_ads=True,
    exclude_tags=["nav"],
    include_tags=["main"],
    formats=["markdown", {"type": "json", "prompt": "prices"}],
    headers={"Cookie": "a=b"},
    location={"country": "DE"},
    lockdown=True,
    max_age=1,
    min_age=1,
    mobile=True,
    only_clean_content=True,
    only_main_content=True,
    parsers=["pdf"],
    profile={"name": "p"},
    proxy="auto",
    redact_pii=True,
    remove_base64_images=True,
    skip_tls_verification=True,
    store_in_cache=True,
    threat_protection={"mode": "normal"},
    timeout=1000,
    wait_for=1,
)
EMAIL = EmailNotification(enabled=True, include_diffs=True, recipients=["a@b.example"])
WEBHOOK = WebhookConfig(
    url="https://hooks.example.com/", headers={"X-A": "b"}, metadata={"a": "b"}, events=["monitor.page"]
)
PAGES = ScrapeTarget(urls=[PAGE], id=TARGET_ID, scrape_options=OPTIONS)
SITE = CrawlTarget(url=PAGE, id=TARGET_ID, crawl_options={"limit": 5}, scrape_options=OPTIONS)
SEARCH = SearchTarget(
    queries=["q"], id=TARGET_ID, search_window="1h", max_results=5, include_domains=["example.com"]
)
WRITTEN: list[tuple[Request, type[ServiceModel]]] = [
    (OPTIONS, TargetOptions),
    (EMAIL, EmailSettings),
    (Notification(email=EMAIL), NotificationSettings),
    (WEBHOOK, WebhookSettings),
    (Schedule(cron="0 * * * *", timezone="UTC"), MonitorSchedule),
    (PAGES, MonitorTarget),
    (SITE, MonitorTarget),
    (SEARCH, MonitorTarget),
    (
        MonitorRequest(
            name="m",
            schedule=Schedule(cron="0 * * * *"),
            targets=[PAGES, SITE, SEARCH],
            webhook=WEBHOOK,
            notification=Notification(email=EMAIL),
            goal="g",
            judge_enabled=True,
            retention_days=5,
        ),
        Monitor,
    ),
]
"""Requests with all their fields, and the models that the service answers them with."""


def unread(model: BaseModel) -> dict[str, object]:
    """Return the values that no field of a model reads, its parts included."""
    found = dict(model.model_extra or {})
    for name in type(model).model_fields:
        value = getattr(model, name)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, BaseModel):
                found |= unread(part)
    return found


@pytest.mark.parametrize(("request_", "answer"), WRITTEN, ids=lambda value: type(value).__name__)
def test_an_answer_reads_every_field_of_the_request(request_: Request, answer: type[ServiceModel]) -> None:
    """So the service, or a stand-in for it, can answer with the fields that it was sent."""
    read = answer.read(request_.wire())

    assert read.model_fields_set == request_.model_fields_set | ({"type"} & set(type(request_).model_fields))
    assert unread(read) == {}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ScrapeOptions, TargetOptions),
        (ScrapeOptions, ScrapeRequest),
        (EmailNotification, EmailSettings),
        (WebhookConfig, WebhookSettings),
        (Schedule, MonitorSchedule),
        (ScrapeTarget, MonitorTarget),
        (CrawlTarget, MonitorTarget),
        (SearchTarget, MonitorTarget),
        (MonitorRequest, Monitor),
    ],
)
def test_a_shared_field_is_declared_in_one_place(first: type[BaseModel], second: type[BaseModel]) -> None:
    """Both classes have it from a class of `receiver.requests.fields`, with the same wire name."""
    common = {base for base in first.__mro__ if base in second.__mro__ and base.__module__ == fields.__name__}
    declared = {name for base in common if issubclass(base, BaseModel) for name in base.model_fields}
    own = {"formats"} if second is ScrapeRequest else set()  # version 1 has formats of its own

    shared = first.model_fields.keys() & second.model_fields.keys()
    assert shared - own <= declared
    assert {name for name in shared if first.model_fields[name].alias != second.model_fields[name].alias} == set()
