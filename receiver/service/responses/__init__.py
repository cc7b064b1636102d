"""What the service answers: jobs, monitors, and how busy it is.

They read as leniently as the shapes of `receiver.events.documents`, which they hold: pages and checks.
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

__all__ = [
    "ActiveCrawl",
    "AgentStatus",
    "EmailSettings",
    "EmailSubscription",
    "ExtractStatus",
    "JobError",
    "JobErrors",
    "JobStarted",
    "JobStatus",
    "Monitor",
    "MonitorSchedule",
    "MonitorTarget",
    "NotificationSettings",
    "QueueStatus",
    "ScrapeResponse",
    "SlackSettings",
    "TargetOptions",
    "WebhookSettings",
]
