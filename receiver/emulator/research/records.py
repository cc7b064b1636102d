"""Extractions and agents as they are kept."""

import dataclasses
import json
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from pydantic import TypeAdapter

from receiver.core.clock import Clock
from receiver.emulator.contracts import Account, JobAccount
from receiver.emulator.ids import IdSource
from receiver.emulator.json_text import to_json
from receiver.emulator.scrapes import Scraper
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks.outbox import Outbox
from receiver.emulator.wire.research import ResearchPlan

Json = dict[str, Any]


class ResearchState(StrEnum):
    """Where an extraction or an agent stands."""

    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ResearchResult:
    """What an extraction or an agent found."""

    data: Any = None
    """Any JSON; None if nothing was found."""
    sources: dict[str, list[str]] = field(default_factory=dict)
    """JSON path of a value to the URLs where it was found."""
    warning: str | None = None
    """What could not be done, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchRecord:
    """An extraction or an agent as it is now."""

    seq: int
    """Its number in the database."""
    id: str
    """UUID of version 7."""
    team: str
    """Whose job it is."""
    plan: ResearchPlan = field(repr=False)
    """What was asked for."""
    state: ResearchState
    """Where it stands."""
    created_at: datetime
    """When it was started."""
    ended_at: datetime | None
    """When it ended."""
    expires_at: datetime
    """When its result is deleted."""
    credits: int
    """What it has cost so far."""
    scraped: int
    """How many pages were scraped for it."""
    prepared: bool
    """Whether the pages to begin with are noted."""
    searched: bool
    """Whether it has searched for pages."""
    result: ResearchResult
    """What it found; empty while it runs."""
    error: str | None
    """Why it failed."""
    thread_id: str
    """UUID of the conversation that it belongs to; empty for an extraction."""
    turn: int
    """Its number in that conversation."""


@dataclass(frozen=True, slots=True)
class CandidatePage:
    """A page that a job may scrape."""

    url: str
    """Its absolute URL."""
    key: str
    """What is equal for URLs that count as one page."""
    score: int
    """Higher ones come first."""
    leads_to: tuple[str, ...] = ()
    """Names of missing properties that it may have, by its words. It is told once and not kept."""


@dataclass(frozen=True, slots=True)
class NextPage:
    """A page that a job scrapes next."""

    number: int
    """The first that was found is 1."""
    url: str
    """Its absolute URL."""
    score: int
    """How much it promises."""


@dataclass(frozen=True, slots=True)
class ResearchStep:
    """A step of an agent."""

    at: datetime
    """When it was done."""
    action: str
    """`search` or `scrape`."""
    input: Json
    """What was searched for, or scraped."""
    outcome: Json
    """What came of it."""


@dataclass(frozen=True, slots=True)
class ResearchedPage:
    """What became of a page."""

    url: str
    """Its absolute URL."""
    data: Any = None
    """What was extracted from it."""
    warning: str | None = None
    """What could not be done there."""
    error: str | None = None
    """Why it could not be scraped."""
    credits: int = 0
    """What it cost."""


_PLAN = TypeAdapter(ResearchPlan)


def plan_to_json(plan: ResearchPlan) -> bytes:
    """Return a plan for the state."""
    return _PLAN.dump_json(plan)


def plan_from_json(text: bytes) -> ResearchPlan:
    """Return the plan that `plan_to_json` wrote."""
    return _PLAN.validate_json(text)


def result_to_json(result: ResearchResult) -> bytes:
    """Return a result for the state. Its texts are those of pages, which may hold anything."""
    return to_json({"data": result.data, "sources": result.sources, "warning": result.warning})


def result_from_json(text: bytes) -> ResearchResult:
    """Return the result that `result_to_json` wrote."""
    return ResearchResult(**json.loads(text))


def page_to_json(page: ResearchedPage) -> bytes:
    """Return what became of a page for the state."""
    return to_json(dataclasses.asdict(page))


def page_from_json(text: bytes) -> ResearchedPage:
    """Return what `page_to_json` wrote."""
    return ResearchedPage(**json.loads(text))


# FOLDED: What all running extractions and agents share.
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
