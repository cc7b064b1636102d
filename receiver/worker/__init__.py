"""From stored deliveries to handlers: routing, running, settling."""

from receiver.worker.assembly import ask_store, open_processes, open_runner
from receiver.worker.limits import WorkerLimits
from receiver.worker.retention import Retention
from receiver.worker.runner import Runner
from receiver.worker.worker import Worker

__all__ = ["Retention", "Runner", "Worker", "WorkerLimits", "ask_store", "open_processes", "open_runner"]
