"""Monitors as the service keeps them: schedule, targets, and who is told (interface specification, Monitor)."""

from typing import Any

from pydantic import Field, StrictBool, StrictInt

from receiver.events.documents.monitors import CheckSummary
from receiver.events.documents.shape import Items, JsonObject, Moment, Number, ServiceModel


class MonitorSchedule(ServiceModel):
    """When checks run."""

    repr_fields = ("cron", "timezone")

    cron: str | None = None
    """Also of a monitor that was made with words."""
    timezone: str | None = None


class EmailSettings(ServiceModel):
    """Mails about checks."""

    repr_fields = ("enabled",)

    enabled: StrictBool | None = None
    include_diffs: StrictBool | None = None
    recipients: Items[str] = Field(default_factory=list)


class SlackSettings(ServiceModel):
    """Messages about checks."""

    repr_fields = ("enabled", "channel_name")

    enabled: StrictBool | None = None
    channel_id: str | None = None
    channel_name: str | None = None


class NotificationSettings(ServiceModel):
    """Who is told about checks, beside the webhook."""

    email: EmailSettings | None = None
    slack: SlackSettings | None = None


class EmailSubscription(ServiceModel):
    """Whether a recipient has agreed to be sent mails."""

    repr_fields = ("status",)

    email: str | None = None
    status: str | None = None
    """`pending`, `confirmed` or `unsubscribed`."""
    source: str | None = None
    confirmation_email_sent: StrictBool | None = None


class WebhookSettings(ServiceModel):
    """Where a monitor's events go."""

    repr_fields = ("events",)

    url: str | None = None
    headers: JsonObject = Field(default_factory=dict)
    metadata: JsonObject = Field(default_factory=dict)
    events: Items[str] = Field(default_factory=list)


class TargetOptions(ServiceModel):
    """How the pages of a target are scraped. Times are in milliseconds."""

    repr_fields = ("formats",)

    actions: Items[Any] = Field(default_factory=list)
    audit_metadata: JsonObject = Field(default_factory=dict)
    block_ads: StrictBool | None = None
    exclude_tags: Items[str] = Field(default_factory=list)
    include_tags: Items[str] = Field(default_factory=list)
    formats: Items[Any] = Field(default_factory=list)
    """Names, or objects whose `type` is the name."""
    headers: JsonObject = Field(default_factory=dict)
    location: JsonObject = Field(default_factory=dict)
    lockdown: StrictBool | None = None
    max_age: StrictInt | None = None
    min_age: StrictInt | None = None
    mobile: StrictBool | None = None
    only_clean_content: StrictBool | None = None
    only_main_content: StrictBool | None = None
    parsers: Items[Any] = Field(default_factory=list)
    profile: JsonObject = Field(default_factory=dict)
    proxy: str | None = None
    redact_pii: StrictBool | None = Field(None, alias="redactPII")
    remove_base64_images: StrictBool | None = None
    skip_tls_verification: StrictBool | None = None
    store_in_cache: StrictBool | None = None
    threat_protection: JsonObject = Field(default_factory=dict)
    timeout: StrictInt | None = None
    wait_for: StrictInt | None = None


class MonitorTarget(ServiceModel):
    """What a monitor looks at: pages, a site, or searches. The fields of the other kinds are empty."""

    repr_fields = ("type", "id")

    id: str | None = None
    type: str | None = None
    """`scrape`, `crawl` or `search`."""
    urls: Items[str] = Field(default_factory=list)
    url: str | None = None
    queries: Items[str] = Field(default_factory=list)
    search_window: str | None = None
    max_results: StrictInt | None = None
    include_domains: Items[str] = Field(default_factory=list)
    exclude_domains: Items[str] = Field(default_factory=list)
    scrape_options: TargetOptions | None = None
    crawl_options: JsonObject = Field(default_factory=dict)


class Monitor(ServiceModel):
    """A monitor. None of these fields has to be there: the service leaves out or nulls what does not apply yet."""

    repr_fields = ("id", "name", "status")

    id: str | None = None
    name: str | None = None
    status: str | None = None
    """`active`, `paused` or `deleted`."""
    goal: str | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None
    last_run_at: Moment | None = None
    next_run_at: Moment | None = None
    current_check_id: str | None = None
    estimated_credits_per_month: Number | None = None
    judge_enabled: StrictBool | None = None
    retention_days: StrictInt | None = None
    last_check_summary: CheckSummary | None = None
    schedule: MonitorSchedule | None = None
    notification: NotificationSettings | None = None
    targets: Items[MonitorTarget] = Field(default_factory=list)
    webhook: WebhookSettings | None = None
    unchanged_pages_free: StrictBool | None = None
    email_recipient_subscriptions: Items[EmailSubscription] = Field(default_factory=list)
