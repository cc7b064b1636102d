"""The event of a scheduled run. The service does not send it: a worker makes it when the run is due."""

from typing import ClassVar

from receiver.core.schedules import RUN_TYPE
from receiver.events.base import Event
from receiver.events.documents.shape import Moment


class ScheduledRun(Event):
    """A run of a handler that was registered with `router.every`. Only that handler gets it.

    It has no job and no items. A request from outside never becomes such an event, whatever its `type` is.
    """

    repr_fields = ("type", "name", "due_at", "success")

    type_name: ClassVar[str] = RUN_TYPE
    type: str = type_name
    name: str
    """The name of the handler."""
    due_at: Moment
    """When the run was due, in UTC. It starts a little later; much later if no worker ran at that time."""
