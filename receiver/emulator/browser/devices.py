"""What a page sees of the browser: its screen, its languages, its time zone."""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from receiver.emulator.fetching.fetcher import accept_language
from receiver.emulator.scrapes import ScrapePlan

DESKTOP = (1920, 1080)
_PHONE = (390, 844)
_PHONE_SCALE = 2.0
_DESKTOP_AGENT = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{major}.0.0.0 Safari/537.36"
)
_PHONE_AGENT = (
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{major}.0.0.0 "
    "Mobile Safari/537.36"
)
_USUAL_ZONE = "America/New_York"


@dataclass(frozen=True, slots=True)
class Device:
    """A screen in a place."""

    is_phone: bool
    """Whether it is small, and touched."""
    accept_language: str
    """The languages, as in the header."""
    timezone: str
    """An IANA name."""
    user_agent: str | None
    """The caller's own; None is that of the browser."""

    def context(self, version: str) -> dict[str, Any]:
        """Return the options of a context of a browser of this version."""
        width, height = _PHONE if self.is_phone else DESKTOP
        agent = _PHONE_AGENT if self.is_phone else _DESKTOP_AGENT
        options: dict[str, Any] = {
            "viewport": {"width": width, "height": height},
            "user_agent": self.user_agent or agent.format(major=version.partition(".")[0]),
            "timezone_id": self.timezone,
            "accept_downloads": False,
            "service_workers": "block",
            "ignore_https_errors": True,  # no certificate comes to the browser: the emulator checks them
        }
        language = self.accept_language.partition(",")[0].partition(";")[0]
        if language and language != "*":
            options["locale"] = language
        if self.is_phone:
            options |= {"is_mobile": True, "has_touch": True, "device_scale_factor": _PHONE_SCALE}
        return options


def device_of(plan: ScrapePlan) -> Device:
    """Return the device that a plan asks for."""
    own = {name.lower(): value for name, value in plan.headers.items()}
    return Device(
        is_phone=plan.mobile,
        accept_language=own.get("accept-language") or accept_language(plan.country, plan.languages),
        timezone=_zones().get(plan.country.upper(), _USUAL_ZONE),
        user_agent=own.get("user-agent"),
    )


@cache
def _zones() -> dict[str, str]:
    """Return the first time zone of each country: the one of its capital, or its largest."""
    zones: dict[str, str] = {}
    table = resources.files("tzdata").joinpath("zoneinfo", "zone.tab").read_text()
    for line in table.splitlines():
        if not line.startswith("#"):
            country, _, name, *_ = line.split("\t")
            zones.setdefault(country, name)
    return zones
