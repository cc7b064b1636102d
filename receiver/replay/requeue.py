"""New work items, or new deliveries, from stored deliveries."""

import json
import random
import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime

from receiver.core.deliveries import StoredDelivery
from receiver.core.envelope import NotJson, load_json
from receiver.core.types import Trigger
from receiver.core.work import NewWork
from receiver.replay.selection import Chosen
from receiver.routing import Handler, Router
from receiver.service.samples import encode
from receiver.worker.events import lane_of, read_to_route, wanting
from receiver.worker.routing import hold_for


def new_work(chosen: Chosen, handlers: Iterable[Handler], router: Router, now: datetime) -> Sequence[NewWork]:
    """Return the work items that replay a delivery, also for handlers that have succeeded with it."""
    stored = chosen.stored
    routed = read_to_route(stored)
    return [
        NewWork(
            stored.seq,
            handler.name,
            claim=False,
            lane=lane_of(handler, routed.event),
            hold=hold_for(handler, router, stored, now),
            trigger=Trigger.REPLAY,
        )
        for handler in wanting(handlers, routed)
        if chosen.only is None or handler.name in chosen.only
    ]


def with_new_id(stored: StoredDelivery, rng: random.Random) -> bytes:
    """Return a body with another `webhookId`, so that every receiver takes it for a new delivery.

    If the old id occurs once in the body, only the id is replaced. Otherwise the body is written anew as JSON.
    """
    body, old = stored.delivery.body, stored.delivery.webhook_id
    new = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    if old:
        written = json.dumps(old, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if body.count(written) == 1:
            return body.replace(written, f'"{new}"'.encode())
    try:
        payload = load_json(body)
    except NotJson:
        return body
    return encode(payload | {"webhookId": new}) if isinstance(payload, dict) else body
