"""The lane of an event."""

from receiver.core.log_lines import event_log
from receiver.core.text import storable
from receiver.events import Event
from receiver.routing import Handler

log = event_log(__name__)


def lane_of(handler: Handler, event: Event) -> str | None:
    """Return the event's lane for this handler, or None if it may run beside any other event.

    If the handler's `lane` function raises, the event goes to the lane of its job, so that it is neither lost nor
    handled too early.
    """
    if handler.lane is None:
        return None
    try:
        key: object = handler.lane.key(event)
        return None if key is None else storable(str(key))
    except (Exception, SystemExit):
        instead = "without order, since it has no job" if event.job_id is None else "in the lane of its job"
        fields = {"handler": handler.name, "type": event.type, "job_id": event.job_id}
        log.exception("lane_unknown", extra={**fields, "advice": f"`lane` raised; the event runs {instead}"})
        return None if event.job_id is None else storable(event.job_id)
