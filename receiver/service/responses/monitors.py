"""Monitors as the service keeps them: schedule, targets, and who hears of checks (section Monitor).

The fields that requests have too are declared in `receiver.requests.fields`.
"""

from typing import Any

from pydantic import Field, StrictBool

from receiver.events.documents.monitors import CheckSummary
from receiver.events.documents.shape import Items, JsonObject, Moment, Number, ServiceModel
from receiver.requests.fields import (
    EmailFields,
    MonitorFields,
    PageFields,
    PagesTargetFields,
    ScheduleFields,
    SearchTargetFields,
    SiteTargetFields,
    WebhookFields,
)


class MonitorSchedule(ServiceModel, ScheduleFields):
    """When checks run. `cron` is also there for a monitor that was made with a schedule in words."""

    repr_fields = ("cron", "timezone")


class EmailSettings(ServiceModel, EmailFields):
    """Mails about checks."""

    repr_fields = ("enabled",)

    recipients: Items[str] = Field(default_factory=list)


class SlackSettings(ServiceModel):
    """Messages about checks."""

    repr_fields = ("enabled", "channel_name")

    enabled: StrictBool | None = None
    """Whether messages are sent."""
    channel_id: str | None = None
    """Slack's id of the channel that they go to."""
    channel_name: str | None = None
    """Name of that channel."""


class NotificationSettings(ServiceModel):
    """Who hears of checks, beside the webhook."""

    email: EmailSettings | None = None
    """Mails about checks."""
    slack: SlackSettings | None = None
    """Messages about checks."""


class EmailSubscription(ServiceModel):
    """Whether a recipient has agreed to get mails."""

    repr_fields = ("status",)

    email: str | None = None
    """The recipient's address."""
    status: str | None = None
    """`pending`, `confirmed` or `unsubscribed`."""
    source: str | None = None
    """How the address came to the service: `team`, `opt_in` or `legacy`."""
    confirmation_email_sent: StrictBool | None = None
    """Whether the mail that asks for agreement has been sent."""


class WebhookSettings(ServiceModel, WebhookFields):
    """Where a monitor's events go."""

    repr_fields = ("events",)

    headers: JsonObject = Field(default_factory=dict)
    metadata: JsonObject = Field(default_factory=dict)
    events: Items[str] = Field(default_factory=list)


class TargetOptions(ServiceModel, PageFields):
    """How the pages of a target are scraped. Times are in milliseconds."""

    repr_fields = ("formats",)

    actions: Items[Any] = Field(default_factory=list)
    audit_metadata: JsonObject = Field(default_factory=dict)
    exclude_tags: Items[str] = Field(default_factory=list)
    include_tags: Items[str] = Field(default_factory=list)
    formats: Items[Any] = Field(default_factory=list)
    headers: JsonObject = Field(default_factory=dict)
    location: JsonObject = Field(default_factory=dict)
    parsers: Items[Any] = Field(default_factory=list)
    profile: JsonObject = Field(default_factory=dict)
    threat_protection: JsonObject = Field(default_factory=dict)


class MonitorTarget(ServiceModel, PagesTargetFields, SiteTargetFields, SearchTargetFields):
    """What a check looks at: pages, a site, or searches. The fields of the other kinds are empty."""

    repr_fields = ("type", "id")

    urls: Items[str] = Field(default_factory=list)
    queries: Items[str] = Field(default_factory=list)
    include_domains: Items[str] = Field(default_factory=list)
    exclude_domains: Items[str] = Field(default_factory=list)
    scrape_options: TargetOptions | None = None
    crawl_options: JsonObject = Field(default_factory=dict)


class Monitor(ServiceModel, MonitorFields):
    """A monitor. Every field may be missing: the service leaves out or nulls what does not apply yet."""

    repr_fields = ("id", "name", "status")

    id: str | None = None
    """UUID of the monitor."""
    status: str | None = None
    """`active`, `paused` or `deleted`."""
    created_at: Moment | None = None
    """When it was made, in UTC."""
    updated_at: Moment | None = None
    """When it was changed last, in UTC."""
    last_run_at: Moment | None = None
    """When its last check ran, in UTC; None before the first."""
    next_run_at: Moment | None = None
    """When its next check is due, in UTC; None if none is planned."""
    current_check_id: str | None = None
    """UUID of the check that runs now; None between checks."""
    estimated_credits_per_month: Number | None = None
    """Credits that its schedule will cost in a month, by the service's estimate."""
    last_check_summary: CheckSummary | None = None
    """How many pages the last check saw, by their status."""
    schedule: MonitorSchedule | None = None
    notification: NotificationSettings | None = None
    targets: Items[MonitorTarget] = Field(default_factory=list)
    webhook: WebhookSettings | None = None
    unchanged_pages_free: StrictBool | None = None
    """Whether pages without changes cost no credits."""
    email_recipient_subscriptions: Items[EmailSubscription] = Field(default_factory=list)
    """Whether each recipient has agreed to get mails."""
