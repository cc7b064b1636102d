"""Events of extract jobs."""

from typing import ClassVar

from pydantic import Field

from receiver.events.base import Data, Event, TerminalEvent
from receiver.events.documents.results import ExtractResult


class ExtractEvent(Event):
    """Any event of an extract job."""


class ExtractStarted(ExtractEvent):
    """An extract job began."""

    type_name: ClassVar[str] = "extract.started"
    type: str = type_name


class ExtractCompleted(TerminalEvent, ExtractEvent):
    """An extract job found its data."""

    type_name: ClassVar[str] = "extract.completed"
    type: str = type_name
    data: Data[ExtractResult] = Field(default_factory=list)
    """One item: what the job found."""

    @property
    def result(self) -> ExtractResult:
        """The result. The sender always gives one; without one this is an empty result."""
        return self.data[0] if self.data else ExtractResult()


class ExtractFailed(TerminalEvent, ExtractEvent):
    """An extract job failed; `error` says why."""

    type_name: ClassVar[str] = "extract.failed"
    type: str = type_name
