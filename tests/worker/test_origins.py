"""The origin of a delivery decides whether a worker makes work for it, and with which trigger."""

from datetime import timedelta

from receiver.core.bulk import Imported
from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import DeliveryState, Origin, Trigger, WorkState
from receiver.events import Event
from receiver.routing import Router
from receiver.routing.context import Context
from tests.doubles import delivery
from tests.workbench import bench


async def test_imported_deliveries_are_routed_without_work() -> None:
    """No handler runs for them, and later deliveries are handled."""
    router = Router()
    ran: list[str] = []

    @router.on("*")
    async def run(event: Event, ctx: Context) -> None:
        ran.append(ctx.delivery.id)

    async with bench(router) as at:
        await at.store.import_deliveries([Imported(delivery("imported"))])
        await at.add(delivery("sent"))

        assert ran == ["sent"]
        states = {one.key: one.state async for one in at.store.deliveries(DeliveryFilter())}
        assert states == {"imported": DeliveryState.DONE, "sent": DeliveryState.DONE}
        assert len(await at.states()) == 1


async def test_backfilled_deliveries_run_with_the_trigger_backfill() -> None:
    """A later attempt is a retry."""
    router = Router()
    failures = [ValueError("once")]

    @router.on("*", attempts=2)
    async def run(event: Event, ctx: Context) -> None:
        if failures:
            raise failures.pop()

    async with bench(router) as at:
        await at.store.import_deliveries([Imported(delivery("fetched"), origin=Origin.BACKFILL)])
        await at.after(timedelta(seconds=5))

        assert await at.states() == [WorkState.DONE]
        history = (await at.store.work_item(1)).attempts
        assert [one.trigger for one in history] == [Trigger.BACKFILL, Trigger.RETRY]
