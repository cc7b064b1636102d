"""Which lane an event belongs to."""

import logging

from receiver.core.text import storable
from receiver.events import Event
from receiver.routing import Handler

log = logging.getLogger(__name__)


def lane_of(handler: Handler, event: Event) -> str | None:
    """Return the event's lane for this handler, None if it may run beside anything.

    A function for the lane that raises must not lose the event, nor let it overtake another: such events share the
    lane of their job.
    """
    if handler.lane is None:
        return None
    try:
        key: object = handler.lane.key(event)
        return None if key is None else storable(str(key))
    except (Exception, SystemExit):
        log.exception("lane_unknown", extra={"handler": handler.name, "type": event.type, "job_id": event.job_id})
        return None if event.job_id is None else storable(event.job_id)
