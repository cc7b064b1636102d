"""Send what your handlers raise to Sentry, with the handler and the delivery. Needs `pip install sentry-sdk`.

Set SENTRY_DSN, and put what is below the handler where your router is:

    receiver serve --handlers examples.errors_to_sentry:router
"""

import sentry_sdk

from receiver import Router, signals
from receiver.events import PageEvent

router = Router()


@router.on(PageEvent, attempts=1)
async def save(event: PageEvent) -> None:
    """Stands for your handlers."""
    if event.failed:
        raise ValueError(f"{event.url}: {event.error}")


sentry_sdk.init()  # reads SENTRY_DSN


@signals.work_dead.connect
def tell_sentry(dead: signals.WorkDead) -> None:
    """Only what is not tried again by itself; for every failed attempt connect `attempt_failed`.

    A subscriber runs in a thread of its own: a slow Sentry delays no handler.
    """
    with sentry_sdk.new_scope() as scope:
        scope.set_tag("handler", dead.handler)
        scope.set_tag("event_type", dead.type)
        scope.set_context("delivery", {"id": dead.id, "job_id": dead.job_id, "attempt": dead.attempt})
        if dead.exception is not None:
            scope.capture_exception(dead.exception)
        else:
            scope.capture_message(dead.error, level="error")
