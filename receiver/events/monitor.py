"""Events of monitors. Their `job_id` is the check's id."""

from typing import ClassVar

from pydantic import Field

from receiver.events.base import Data, Event, TerminalEvent
from receiver.events.documents.monitors import CheckedPage, MonitorCheck


class MonitorEvent(Event):
    """Any event of a monitor."""


class MonitorPage(MonitorEvent):
    """A check compared a page. This event can come after that of the check, and an error before a good result."""

    type_name: ClassVar[str] = "monitor.page"
    type: str = type_name
    data: Data[CheckedPage] = Field(default_factory=list)
    """One item: the page as the check saw it."""

    @property
    def page(self) -> CheckedPage:
        """The page. The sender always gives one; without one this is an empty page."""
        return self.data[0] if self.data else CheckedPage()


class MonitorCheckCompleted(TerminalEvent, MonitorEvent):
    """A check is over. `success` is true only if no page failed; false without `error` is common."""

    type_name: ClassVar[str] = "monitor.check.completed"
    type: str = type_name
    data: Data[MonitorCheck] = Field(default_factory=list)
    """One item: the check."""

    @property
    def check(self) -> MonitorCheck:
        """The check. The sender always gives one; without one this is an empty check with counts of 0."""
        return self.data[0] if self.data else MonitorCheck()
