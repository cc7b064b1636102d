"""Typed requests to the service: scrapes, jobs, monitors, webhooks, and an estimate of their cost.

`base` has the rules that all requests follow.
"""

from receiver.requests.actions import (
    Action,
    ClickAction,
    ExecuteJavascriptAction,
    PdfAction,
    PressAction,
    ScrapeAction,
    ScreenshotAction,
    ScrollAction,
    WaitAction,
    WriteAction,
)
from receiver.requests.base import Request
from receiver.requests.costs import CreditEstimate, estimate_credits
from receiver.requests.jobs import AgentRequest, BatchScrapeRequest, CrawlRequest, ExtractRequest
from receiver.requests.monitors import (
    CrawlTarget,
    EmailNotification,
    MonitorChanges,
    MonitorRequest,
    Notification,
    ScrapeTarget,
    SearchTarget,
    Target,
)
from receiver.requests.options import (
    AuditMetadata,
    ChangeTrackingOptions,
    JsonOptions,
    Location,
    Profile,
    ThreatProtection,
)
from receiver.requests.pages import ScrapeOptions
from receiver.requests.schedules import Schedule
from receiver.requests.scrape import ScrapeRequest
from receiver.requests.webhooks import EVENT_KINDS, Operation, WebhookConfig, to_event_type, to_filter_value

__all__ = [
    "EVENT_KINDS",
    "Action",
    "AgentRequest",
    "AuditMetadata",
    "BatchScrapeRequest",
    "ChangeTrackingOptions",
    "ClickAction",
    "CrawlRequest",
    "CrawlTarget",
    "CreditEstimate",
    "EmailNotification",
    "ExecuteJavascriptAction",
    "ExtractRequest",
    "JsonOptions",
    "Location",
    "MonitorChanges",
    "MonitorRequest",
    "Notification",
    "Operation",
    "PdfAction",
    "PressAction",
    "Profile",
    "Request",
    "Schedule",
    "ScrapeAction",
    "ScrapeOptions",
    "ScrapeRequest",
    "ScrapeTarget",
    "ScreenshotAction",
    "ScrollAction",
    "SearchTarget",
    "Target",
    "ThreatProtection",
    "WaitAction",
    "WebhookConfig",
    "WriteAction",
    "estimate_credits",
    "to_event_type",
    "to_filter_value",
]
