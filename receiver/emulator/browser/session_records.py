"""The browser and its sessions as the rest of the emulator knows them, without loading what drives it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from starlette.types import ASGIApp

from receiver.emulator.scrapes import RenderPage

Language = Literal["python", "node", "bash"]
CREDITS_PER_MINUTE = 2
"""What a session costs for each minute that it has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """How a session is opened."""

    ttl: timedelta = timedelta(minutes=10)
    """How long it lasts at most, on the emulator's clock."""
    activity_ttl: timedelta = timedelta(minutes=5)
    """How long it lasts without a call, on the emulator's clock."""
    country: str = "US"
    """Whose languages and time zone its pages see."""
    stream_web_view: bool = True
    """Kept for the list of sessions."""
    block_ads: bool = True
    """Whether what serves advertisements and cookie pop-ups is refused."""
    profile: str | None = None
    """Name of the cookies and the local storage that it begins with; None begins without any."""
    saves: bool = True
    """Whether these are kept under that name when it ends."""
    url: str | None = None
    """The page that it begins with."""
    scrape_id: str | None = None
    """The scrape that it belongs to."""


@dataclass(slots=True, kw_only=True)
class SessionRecord:
    """One session, which may have ended."""

    id: str
    team: str
    token: str
    """In the session's own addresses: who has it needs no API key."""
    plan: SessionPlan
    created_at: datetime
    """On the emulator's clock."""
    last_activity: datetime
    """When it was last called, on the emulator's clock."""
    ended_at: datetime | None = None
    """On the emulator's clock; None while it lasts."""

    @property
    def expires_at(self) -> datetime:
        """The latest end."""
        return self.created_at + self.plan.ttl

    def duration(self, now: datetime) -> timedelta:
        """Return how long it has lasted."""
        return (self.ended_at or now) - self.created_at

    def credits(self, now: datetime) -> int:
        """Return what it costs: each minute that has begun, and at least one."""
        return CREDITS_PER_MINUTE * max(1, -(-self.duration(now) // timedelta(minutes=1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeOutcome:
    """What came of running code."""

    stdout: str
    stderr: str
    result: str | None
    """The value of its last expression; None without one."""
    exit_code: int
    """137 if it was killed."""
    killed: bool
    """Whether its time was over."""
    truncated: bool
    """Whether some of the output was dropped."""


class SessionHost(Protocol):
    """Opens and ends sessions. CallRefused is the answer to a call for one that is not there."""

    async def open(self, team: str, plan: SessionPlan) -> SessionRecord:
        """Open a session."""

    def find(self, team: str, session_id: str) -> SessionRecord:
        """Return an open session."""

    def of_scrape(self, team: str, scrape_id: str) -> SessionRecord | None:
        """Return the open session of a scrape, if there is one."""

    def listed(self, team: str) -> Sequence[SessionRecord]:
        """Return all sessions of a team, the newest first."""

    async def execute(self, record: SessionRecord, language: Language, code: str, seconds: float) -> CodeOutcome:
        """Run code on the page of a session."""

    async def page_text(self, record: SessionRecord) -> str:
        """Return the page of a session in words, for a model."""

    async def end(self, record: SessionRecord) -> None:
        """End a session and charge for it."""

    async def reset(self) -> None:
        """End all sessions without charging for them, and forget them."""


@dataclass(frozen=True, slots=True)
class BrowserParts:
    """What a browser adds to the emulator."""

    render: RenderPage
    sessions: SessionHost
    sockets: ASGIApp
    """Relays connections to sessions."""
    views: ASGIApp
    """Shows the pages of sessions."""
