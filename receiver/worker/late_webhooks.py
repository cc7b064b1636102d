"""Webhooks that arrive after a backfill has already imported the same event: they are not handled again."""

from collections.abc import Sequence

from receiver.core.deliveries import StoredDelivery
from receiver.core.log_lines import event_log
from receiver.core.ports.queue import RoutingQueue
from receiver.core.types import Origin
from receiver.events import Event
from receiver.events.identity import subject_key

log = event_log(__name__)


async def find_repeats(queue: RoutingQueue, read: Sequence[tuple[StoredDelivery, Event]]) -> frozenset[int]:
    """Return the seqs of the sender's deliveries whose event a backfill has imported before."""
    keys = {
        stored.seq: key
        for stored, event in read
        if stored.delivery.origin is Origin.SENDER
        and (key := subject_key(event)) is not None
        and key != stored.delivery.key
    }
    if not keys or not (known := await queue.backfilled(set(keys.values()))):
        return frozenset()
    repeats = {stored.seq: stored.delivery for stored, _ in read if keys.get(stored.seq) in known}
    for seq, delivery in repeats.items():
        log.info("late_webhook_skipped", extra={"id": delivery.key, "type": delivery.type, "as": keys[seq]})
    return frozenset(repeats)
