"""The contexts that handlers of a worker are given."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from receiver.core.deliveries import StoredDelivery
from receiver.core.signing import as_sent
from receiver.routing import Handler
from receiver.routing.context import (
    AskLater,
    AskOnce,
    BatchContext,
    Clients,
    Context,
    DeliveryInfo,
    HandlerLog,
    Services,
)
from receiver.worker.attempts import Claimed, log_fields


class ContextFactory:
    """Makes a context for each call. `now` is the time that handlers see."""

    def __init__(self, now: Callable[[], datetime], ask_once: AskOnce | None, clients: Clients | None) -> None:
        self._now = now
        self._ask_once = ask_once
        self._clients = clients
        self._services: Services | None = None

    def make(
        self, handler: Handler, claimed: Sequence[Claimed], heartbeat: Callable[[], None], later: AskLater
    ) -> Context | BatchContext:
        """Return the context of a call with these work items. It has to be called in the event loop."""
        if self._services is None:
            self._services = Services(asyncio.get_running_loop(), self._now, self._ask_once, self._clients)
        now, log = self._now(), HandlerLog(logging.getLogger(handler.name), log_fields(claimed))
        if handler.batch is not None:
            return BatchContext(
                handler=handler.name,
                now=now,
                log=log,
                attempt=max([one.item.attempt for one in claimed]),
                deliveries=tuple([_info(one.item.source) for one in claimed]),
                triggers=tuple([one.item.trigger for one in claimed]),
                _services=self._services,
                _beat=heartbeat,
                _later=later,
            )
        item = claimed[0].item
        return Context(
            handler=handler.name,
            now=now,
            log=log,
            attempt=item.attempt,
            trigger=item.trigger,
            delivery=_info(item.source),
            job_id=item.source.delivery.job_id,
            _services=self._services,
            _beat=heartbeat,
            _later=later,
        )


def _info(stored: StoredDelivery) -> DeliveryInfo:
    delivery = stored.delivery
    return DeliveryInfo(
        id=delivery.key,
        received_at=delivery.received_at,
        headers=as_sent(delivery.headers),
        duplicates=stored.duplicates,
        size=len(delivery.body),
    )
