"""What all running extractions and agents share."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol

from receiver.core.clock import Clock
from receiver.service.emulator.contracts import Account, JobAccount
from receiver.service.emulator.ids import IdSource
from receiver.service.emulator.scrapes import Scraper
from receiver.service.emulator.state.database import StateDatabase
from receiver.service.emulator.webhooks.outbox import Outbox


class ListSite(Protocol):
    """Lists the URLs of a site."""

    def __call__(self, url: str, *, team: str, limit: int) -> Awaitable[Sequence[str]]:
        """Return URLs below this one. It raises ScrapeFailed if the address is blocked."""


class PageSearch(Protocol):
    """Searches for pages."""

    def __call__(self, query: str, *, team: str, limit: int) -> Awaitable[Sequence[str]]:
        """Return the URLs of the hits, the best first."""


class ResearchAccount(Account, JobAccount, Protocol):
    """The credits of a team, also as a part of a transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchContext:
    """The parts of the emulator that a running extraction or agent uses."""

    database: StateDatabase
    """Where jobs are kept."""
    scraper: Scraper
    """Scrapes pages, and extracts data from them."""
    outbox: Outbox
    """Sends events."""
    account: ResearchAccount
    """Pays, in the transaction that notes a page."""
    clock: Clock
    """The emulator's time."""
    ids: IdSource
    """Makes ids."""
    list_site: ListSite
    """Finds the pages below a URL."""
    search: PageSearch | None
    """Finds pages by words; None if nothing can."""
    width: int
    """How many pages of one extraction are scraped at one time."""
