"""Open an incident when work of a handler is dead, and close it when the handler works again.

Written for PagerDuty's Events API v2; other services take something similar. Set PAGERDUTY_ROUTING_KEY, and
PAGERDUTY_URL for another address, and put what is below the handler where your router is:

    receiver serve --handlers examples.incidents_to_pagerduty:router
"""

import os
import socket

import httpx

from receiver import Router, signals
from receiver.events import PageEvent

router = Router()


@router.on(PageEvent, attempts=1)
async def save(event: PageEvent) -> None:
    """Stands for your handlers."""
    if event.failed:
        raise ValueError(f"{event.url}: {event.error}")


URL = os.environ.get("PAGERDUTY_URL", "https://events.pagerduty.com/v2/enqueue")
KEY = os.environ["PAGERDUTY_ROUTING_KEY"]
_open: set[str] = set()


# All records of one subscriber come in their order, so one function takes both kinds.
@signals.work_done.connect
@signals.work_dead.connect
def tell(work: signals.WorkDead | signals.WorkDone) -> None:
    """One incident for each handler, however much of its work dies: the other side joins equal keys.

    This worker closes what it has opened itself. RECEIVER_ALERT_URL knows more, since it looks into the store.
    """
    key = f"receiver/{work.handler}"
    if isinstance(work, signals.WorkDead):
        _open.add(key)
        summary = f"dead in {work.handler}: {work.error}"
        post("trigger", key, {"summary": summary, "source": socket.gethostname(), "severity": "error"})
    elif key in _open:
        post("resolve", key)
        _open.discard(key)


def post(action: str, key: str, payload: dict[str, str] | None = None) -> None:
    """Send an event. What this raises is logged as `subscriber_failed`, and changes nothing else."""
    event = {"routing_key": KEY, "event_action": action, "dedup_key": key}
    httpx.post(URL, json=event | ({"payload": payload} if payload else {}), timeout=10).raise_for_status()
