"""The store in memory as users of `receiver.testing` meet it."""

from pathlib import Path

from receiver import Router
from receiver.events import CrawlPage
from receiver.stores import open_store
from receiver.testing import (
    MemoryStore,
    SteppedClock,
    assert_handled,
    open_receiver,
    open_sender,
    sample,
    settings_for_test,
)


async def test_a_test_can_run_the_receiver_on_a_store_in_memory(tmp_path: Path) -> None:
    """The intake and the worker share it, and no file is left."""
    router, clock = Router(), SteppedClock()

    @router.on(CrawlPage)
    async def save(event: CrawlPage) -> None: ...

    settings = settings_for_test(tmp_path, store="memory://")
    async with (
        open_receiver(router, settings, clock) as app,
        open_sender(app, clock, path=settings.path, secret=settings.plain_secrets()[0]) as sender,
    ):
        await sender.send(sample("crawl.page"))

        assert_handled(await app.work_items(), times=1)
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240 - a few names


def test_each_address_in_memory_is_a_new_store() -> None:
    """Two tests share nothing."""
    one, two = open_store("memory://", in_process=True), open_store("memory://", in_process=True)

    assert isinstance(one, MemoryStore)
    assert isinstance(two, MemoryStore)
    assert one.state is not two.state
