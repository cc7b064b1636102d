"""From stored deliveries to handlers: routing, running, settling."""

from receiver.worker.process_pool import Processes
from receiver.worker.retention import Retention
from receiver.worker.runner import Runner
from receiver.worker.worker import Worker

__all__ = ["Processes", "Retention", "Runner", "Worker"]
