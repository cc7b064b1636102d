"""The browser, put together for an emulator. Only this module's user knows whether the extra is there."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from receiver.core.clock import Clock
from receiver.service.emulator.activity import Activity
from receiver.service.emulator.browser.chromium import ChromiumStarter
from receiver.service.emulator.browser.finding import FoundBrowser
from receiver.service.emulator.browser.parts import BrowserParts
from receiver.service.emulator.browser.profiles import ProfileStore
from receiver.service.emulator.browser.remote import RemoteBrowsers
from receiver.service.emulator.browser.rendering import ChromiumRenderer
from receiver.service.emulator.browser.room import BrowserRoom
from receiver.service.emulator.browser.sessions import BrowserSessions
from receiver.service.emulator.contracts import Account
from receiver.service.emulator.fetching.fetcher import Fetcher
from receiver.service.emulator.ids import IdSource
from receiver.service.emulator.options import EmulatorOptions
from receiver.service.emulator.state.database import StateDatabase


@asynccontextmanager
async def open_browser(
    found: FoundBrowser,
    options: EmulatorOptions,
    fetcher: Fetcher,
    *,
    clock: Clock,
    ids: IdSource,
    account: Account,
    activity: Activity,
    state: StateDatabase,
) -> AsyncIterator[BrowserParts]:
    """Have a browser for as long as the block lasts. It starts when something needs it."""
    async with AsyncExitStack() as stack:
        starter = await stack.enter_async_context(ChromiumStarter(found, memory=options.browser_memory))
        room = await stack.enter_async_context(BrowserRoom(starter, most=options.browser_pages))
        sessions = await stack.enter_async_context(
            BrowserSessions(
                starter,
                fetcher,
                clock=clock,
                ids=ids,
                account=account,
                activity=activity,
                profiles=ProfileStore(state, clock),
                most=options.browser_pages,
            )
        )
        renderer = ChromiumRenderer(room, fetcher, clock, max_bytes=options.max_page_bytes)
        remote = RemoteBrowsers(sessions)
        yield BrowserParts(renderer.render, sessions, remote.sockets(), remote.views())
