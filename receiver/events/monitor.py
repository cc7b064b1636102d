"""Events of monitors. Their `job_id` is the check's id."""

from typing import ClassVar

from pydantic import Field

from receiver.events.base import Data, Event, TerminalEvent
from receiver.events.documents.monitors import CheckedPage, MonitorCheck


class MonitorEvent(Event):
    """Any event of a monitor."""


class MonitorPage(MonitorEvent):
    """A check compared a page. It can come after the check's own event, and an error before the page."""

    type_name: ClassVar[str] = "monitor.page"
    type: str = type_name
    data: Data[CheckedPage] = Field(default_factory=list)
    """One item: the page as the check saw it."""

    @property
    def page(self) -> CheckedPage:
        """The page as the check saw it. The sender always gives one; an event without has an empty page."""
        return self.data[0] if self.data else CheckedPage()


class MonitorCheckCompleted(TerminalEvent, MonitorEvent):
    """A check is over. `success` is true only when no page failed, and false without `error` is common."""

    type_name: ClassVar[str] = "monitor.check.completed"
    type: str = type_name
    data: Data[MonitorCheck] = Field(default_factory=list)
    """One item: the check."""

    @property
    def check(self) -> MonitorCheck:
        """The check. The sender always gives one; an event without has an empty check, its counts 0."""
        return self.data[0] if self.data else MonitorCheck()
