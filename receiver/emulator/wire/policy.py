"""What the emulator's options say about requests: which are allowed, and how answers look."""

from dataclasses import dataclass
from typing import Literal, Self
from urllib.parse import urlsplit

from receiver.emulator.options import EmulatorOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPolicy:
    """The part of the options that the readers of requests need."""

    threat_protection: Literal["off", "on", "mandatory"] = "off"
    """Whether requests may carry threatProtection, and turn it off."""
    diff: Literal["auto", "string", "object"] = "auto"
    """The form of `changeTracking.diff`."""
    plain_hosts: frozenset[str] | None = frozenset({"localhost"})
    """Host names without a dot that URLs may have; None allows every name."""

    @classmethod
    def of(cls, options: EmulatorOptions) -> Self:
        """Return the policy of an emulator."""
        named = {urlsplit(origin).hostname or "" for origin in options.sites}
        return cls(
            threat_protection=options.threat_protection,
            diff=options.diff,
            plain_hosts=None if options.allow_private else frozenset({"localhost", *named}),
        )
