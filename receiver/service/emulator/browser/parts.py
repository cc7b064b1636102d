"""What a browser brings to an emulator."""

from dataclasses import dataclass

from starlette.types import ASGIApp

from receiver.service.emulator.browser.session_records import SessionHost
from receiver.service.emulator.renderings import RenderPage


@dataclass(frozen=True, slots=True)
class BrowserParts:
    """A browser that is there."""

    render: RenderPage
    """Renders pages."""
    sessions: SessionHost
    """Keeps sessions."""
    sockets: ASGIApp
    """Relays connections to sessions."""
    views: ASGIApp
    """Shows pages of sessions."""
