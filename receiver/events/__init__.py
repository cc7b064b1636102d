"""A class for every type of event the service sends, one for scheduled runs, and the function that reads them."""

from receiver.events.agent import (
    AgentAction,
    AgentCancelled,
    AgentCompleted,
    AgentEnded,
    AgentEvent,
    AgentFailed,
    AgentStarted,
)
from receiver.events.base import Event, TerminalEvent, UnknownEvent
from receiver.events.batch_scrape import (
    BatchScrapeCompleted,
    BatchScrapeEvent,
    BatchScrapeFailed,
    BatchScrapePage,
    BatchScrapeStarted,
)
from receiver.events.catalog import EVENT_CLASSES, parse_event
from receiver.events.crawl import CrawlCancelled, CrawlCompleted, CrawlEvent, CrawlFailed, CrawlPage, CrawlStarted
from receiver.events.extract import ExtractCompleted, ExtractEvent, ExtractFailed, ExtractStarted
from receiver.events.monitor import MonitorCheckCompleted, MonitorEvent, MonitorPage
from receiver.events.pages import PageEvent
from receiver.events.schedule import ScheduledRun

__all__ = [
    "EVENT_CLASSES",
    "AgentAction",
    "AgentCancelled",
    "AgentCompleted",
    "AgentEnded",
    "AgentEvent",
    "AgentFailed",
    "AgentStarted",
    "BatchScrapeCompleted",
    "BatchScrapeEvent",
    "BatchScrapeFailed",
    "BatchScrapePage",
    "BatchScrapeStarted",
    "CrawlCancelled",
    "CrawlCompleted",
    "CrawlEvent",
    "CrawlFailed",
    "CrawlPage",
    "CrawlStarted",
    "Event",
    "ExtractCompleted",
    "ExtractEvent",
    "ExtractFailed",
    "ExtractStarted",
    "MonitorCheckCompleted",
    "MonitorEvent",
    "MonitorPage",
    "PageEvent",
    "ScheduledRun",
    "TerminalEvent",
    "UnknownEvent",
    "parse_event",
]
