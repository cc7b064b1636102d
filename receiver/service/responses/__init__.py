"""The service's answers: jobs, monitors, and the load of the account.

They read as leniently as `receiver.events.documents`, whose pages and checks they contain.
"""

from receiver.service.responses.jobs import (
    ActiveCrawl,
    AgentStatus,
    ExtractStatus,
    JobError,
    JobErrors,
    JobStarted,
    JobStatus,
    QueueStatus,
    ScrapeResponse,
)
from receiver.service.responses.monitors import (
    EmailSettings,
    EmailSubscription,
    Monitor,
    MonitorSchedule,
    MonitorTarget,
    NotificationSettings,
    SlackSettings,
    TargetOptions,
    WebhookSettings,
)
from receiver.service.responses.searches import (
    ImageHit,
    MapLink,
    MapResponse,
    NewsHit,
    SearchHits,
    SearchResponse,
    WebHit,
)

__all__ = [
    "ActiveCrawl",
    "AgentStatus",
    "EmailSettings",
    "EmailSubscription",
    "ExtractStatus",
    "ImageHit",
    "JobError",
    "JobErrors",
    "JobStarted",
    "JobStatus",
    "MapLink",
    "MapResponse",
    "Monitor",
    "MonitorSchedule",
    "MonitorTarget",
    "NewsHit",
    "NotificationSettings",
    "QueueStatus",
    "ScrapeResponse",
    "SearchHits",
    "SearchResponse",
    "SlackSettings",
    "TargetOptions",
    "WebHit",
    "WebhookSettings",
]
