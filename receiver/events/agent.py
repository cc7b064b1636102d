"""Events of agents."""

from typing import ClassVar

from pydantic import Field

from receiver.events.base import Data, Event, TerminalEvent
from receiver.events.documents.results import AgentResult, AgentStep


class AgentEvent(Event):
    """Any event of an agent's job."""


class AgentStarted(AgentEvent):
    """An agent began."""

    type_name: ClassVar[str] = "agent.started"
    type: str = type_name


class AgentAction(AgentEvent):
    """An agent did one action. Two actions of a job may differ only in their `webhook_id`."""

    type_name: ClassVar[str] = "agent.action"
    type: str = type_name
    data: Data[AgentStep] = Field(default_factory=list)
    """One item: the action."""

    @property
    def action(self) -> AgentStep:
        """The action. The sender always gives one; without one this is an empty step."""
        return self.data[0] if self.data else AgentStep()


class AgentEnded(TerminalEvent, AgentEvent):
    """An agent's job is over: completed, failed or cancelled."""

    data: Data[AgentResult] = Field(default_factory=list)
    """One item: what the job cost and found."""

    @property
    def result(self) -> AgentResult:
        """Cost and result of the job. The sender always gives them; without them this is empty."""
        return self.data[0] if self.data else AgentResult()


class AgentCompleted(AgentEnded):
    """An agent found its data."""

    type_name: ClassVar[str] = "agent.completed"
    type: str = type_name


class AgentFailed(AgentEnded):
    """An agent gave up; `error` says why."""

    type_name: ClassVar[str] = "agent.failed"
    type: str = type_name


class AgentCancelled(AgentEnded):
    """An agent was cancelled. `success` is false, and there is no error."""

    type_name: ClassVar[str] = "agent.cancelled"
    type: str = type_name
