"""From stored deliveries to handlers: routing, running, settling."""

from receiver.dispatch.dispatcher import Dispatcher
from receiver.dispatch.processes import Processes
from receiver.dispatch.retention import Retention
from receiver.dispatch.runner import Runner

__all__ = ["Dispatcher", "Processes", "Retention", "Runner"]
