"""The lane of an event."""

from hashlib import blake2b

from receiver.core.log_lines import event_log
from receiver.core.text import storable
from receiver.events import Event
from receiver.routing import Handler

log = event_log(__name__)

MAX_LENGTH = 200
"""Characters of a lane's name. Stores have it in indexes, and the pages of those hold a few entries each."""


def lane_of(handler: Handler, event: Event) -> str | None:
    """Return the event's lane for this handler, or None if it may run beside any other event.

    If the handler's `lane` function raises, the event goes to the lane of its job, so that it is neither lost nor
    handled too early.
    """
    if handler.lane is None:
        return None
    try:
        key: object = handler.lane.key(event)
        return None if key is None else _name(str(key))
    except (Exception, SystemExit):
        instead = "without order, since it has no job" if event.job_id is None else "in the lane of its job"
        fields = {"handler": handler.name, "type": event.type, "job_id": event.job_id}
        log.exception("lane_unknown", extra={**fields, "advice": f"`lane` raised; the event runs {instead}"})
        return lane_of_job(event.job_id)


def lane_of_job(job_id: str | None) -> str | None:
    """Return the lane of a job's events under `ordered=True`; None for events without a job."""
    return None if job_id is None else _name(job_id)


def _name(key: str) -> str:
    """Return the name of a lane: the key, or its beginning and a hash of all of it where it is long."""
    name = storable(key)
    if len(name) <= MAX_LENGTH:
        return name
    digest = blake2b(name.encode(), digest_size=16).hexdigest()
    return f"{name[: MAX_LENGTH - len(digest) - 1]}…{digest}"
