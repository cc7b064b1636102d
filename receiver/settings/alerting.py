"""Alerts as the settings ask for them: what they are about, and where they are posted."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from receiver.core.clock import Clock, running_beside
from receiver.errors import ConfigurationError
from receiver.settings import PREFIX, Settings

if TYPE_CHECKING:  # few deployments have alerts
    import httpx

    from receiver.core.attention import ConcernKind
    from receiver.core.ports.queue import OnceKeys
    from receiver.core.ports.store import Store
    from receiver.signals.alerts.posting import AlertPoster


def alert_kinds(settings: Settings) -> "frozenset[ConcernKind]":
    """Return what alerts are about."""
    from receiver.core.attention import ConcernKind

    wanted = {
        ConcernKind.DEAD: settings.alert_on_dead,
        ConcernKind.QUARANTINED: settings.alert_quarantined,
        ConcernKind.BACKLOG: True,
        ConcernKind.NO_DELIVERY: settings.alert_no_delivery_for is not None,
        ConcernKind.REFUSED: settings.alert_refused_more_than is not None,
    }
    return frozenset(kind for kind, is_wanted in wanted.items() if is_wanted)


def open_poster(
    settings: Settings, clock: Clock, transport: "httpx.AsyncBaseTransport | None" = None
) -> "AlertPoster":
    """Return a poster of alerts. Raises ConfigurationError without ALERT_URL."""
    from receiver.signals.alerts.posting import AlertPoster

    if settings.alert_url is None:
        raise ConfigurationError(f"no {PREFIX}ALERT_URL is set: set it to the webhook URL of a chat, or any other")
    secret = None if settings.alert_secret is None else settings.alert_secret.get_secret_value()
    return AlertPoster(settings.alert_url.get_secret_value(), secret=secret, clock=clock, transport=transport)


@asynccontextmanager
async def alerting(
    settings: Settings,
    store: "Store",
    clock: Clock,
    *,
    keys: "OnceKeys | None" = None,
    transport: "httpx.AsyncBaseTransport | None" = None,
) -> AsyncIterator[None]:
    """Post alerts for as long as the block lasts, if ALERT_URL is set.

    A worker passes the once keys of its queue. A web process has none, and also watches its own refusals.
    """
    if settings.alert_url is None:
        yield
        return
    from receiver.core.attention import ConcernKind
    from receiver.signals.alerts.refusals import RefusalCount
    from receiver.signals.alerts.watching import AlertWatch

    kinds, most = alert_kinds(settings), settings.alert_refused_more_than
    async with AsyncExitStack() as stack:
        refusals = RefusalCount()
        if keys is not None or most is None:
            kinds -= {ConcernKind.REFUSED}
        else:
            stack.enter_context(refusals.counting())
        if keys is None:
            keys = await stack.enter_async_context(store.queue())
        watch = AlertWatch(
            store.reports,
            keys,
            clock,
            open_poster(settings, clock, transport),
            kinds=kinds,
            limits=settings.attention_limits(),
            local=partial(refusals.concern, more_than=most or 0),
        )
        await stack.enter_async_context(running_beside(watch.run()))
        yield
