"""Typed requests to the service: pages, files, maps, searches, jobs, monitors, webhooks, and what they cost.

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
from receiver.requests.formats import (
    AttributeSelector,
    AttributesFormat,
    ChangeTrackingFormat,
    Format,
    HighlightsFormat,
    ImageParser,
    JsonFormat,
    Parser,
    PdfParser,
    PlainFormat,
    QueryFormat,
    QuestionFormat,
    ScreenshotFormat,
)
from receiver.requests.jobs import AgentRequest, BatchScrapeRequest, CrawlRequest, ExtractAgent, ExtractRequest
from receiver.requests.map import MapRequest
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
    Viewport,
)
from receiver.requests.pages import ScrapeOptions
from receiver.requests.parse import ParseRequest
from receiver.requests.schedules import Schedule
from receiver.requests.scrape import ScrapeRequest, ScrapeRequestV2
from receiver.requests.search import SearchRequest
from receiver.requests.webhooks import EVENT_KINDS, Operation, WebhookConfig, to_event_type, to_filter_value

__all__ = [
    "EVENT_KINDS",
    "Action",
    "AgentRequest",
    "AttributeSelector",
    "AttributesFormat",
    "AuditMetadata",
    "BatchScrapeRequest",
    "ChangeTrackingFormat",
    "ChangeTrackingOptions",
    "ClickAction",
    "CrawlRequest",
    "CrawlTarget",
    "CreditEstimate",
    "EmailNotification",
    "ExecuteJavascriptAction",
    "ExtractAgent",
    "ExtractRequest",
    "Format",
    "HighlightsFormat",
    "ImageParser",
    "JsonFormat",
    "JsonOptions",
    "Location",
    "MapRequest",
    "MonitorChanges",
    "MonitorRequest",
    "Notification",
    "Operation",
    "ParseRequest",
    "Parser",
    "PdfAction",
    "PdfParser",
    "PlainFormat",
    "PressAction",
    "Profile",
    "QueryFormat",
    "QuestionFormat",
    "Request",
    "Schedule",
    "ScrapeAction",
    "ScrapeOptions",
    "ScrapeRequest",
    "ScrapeRequestV2",
    "ScrapeTarget",
    "ScreenshotAction",
    "ScreenshotFormat",
    "ScrollAction",
    "SearchRequest",
    "SearchTarget",
    "Target",
    "ThreatProtection",
    "Viewport",
    "WaitAction",
    "WebhookConfig",
    "WriteAction",
    "estimate_credits",
    "to_event_type",
    "to_filter_value",
]
