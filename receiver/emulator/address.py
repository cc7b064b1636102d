"""Where callers reach the emulator, for the addresses of what it keeps for them."""

from dataclasses import dataclass


@dataclass(slots=True)
class PublicAddress:
    """Scheme, host and port, as the last caller wrote them."""

    url: str = "http://127.0.0.1:3002"
    """Without a slash at its end."""
