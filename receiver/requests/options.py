"""Options that several requests share: location, extraction, change tracking, threat protection."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictInt

from receiver.requests.base import JsonSchema, Request


class Location(Request):
    """The place that a page is requested from. The service emulates its language and time zone."""

    country: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] = "US"
    """Code of the country, ISO 3166-1 alpha-2."""
    languages: tuple[str, ...] = ()
    """Languages in order of preference; without any, those of the country."""


class JsonOptions(Request):
    """What to extract: a schema, a prompt, or both."""

    prompt: str | None = None
    """What to extract, in plain words; enough without a schema."""
    schema_: JsonSchema | None = Field(None, alias="schema")
    """The form of the result."""
    system_prompt: str | None = None
    """Instructions that stand before the prompt."""


class ChangeTrackingOptions(Request):
    """How a page is compared with its earlier scrape."""

    modes: tuple[Literal["git-diff", "json"], ...] = ()
    """`git-diff` compares the text, `json` compares extracted values."""
    prompt: str | None = None
    """For mode `json`: instructions for the extraction. The service has a default."""
    schema_: JsonSchema | None = Field(None, alias="schema")
    """For mode `json`: the form of the values that are extracted and compared."""
    tag: str | None = None
    """A page is compared only with earlier scrapes of the same tag."""


def _require_bare_domain(value: str) -> str:
    if not re.fullmatch(r"[^\s/:?#@\\]+", value):
        raise ValueError("a plain domain or a wildcard pattern, without protocol, path or port")
    return value


def _require_bare_tld(value: str) -> str:
    if not value or value.startswith(".") or value != value.lower() or not re.fullmatch(r"[^\s/:?#@\\]+", value):
        raise ValueError("a top-level domain in lower case, without leading dot")
    return value


Domains = Annotated[tuple[Annotated[str, AfterValidator(_require_bare_domain)], ...], Field(max_length=1000)]
Tlds = Annotated[tuple[Annotated[str, AfterValidator(_require_bare_tld)], ...], Field(max_length=1000)]


class ThreatProtection(Request):
    """Checks of URLs for this request. Fields that are left out have the organisation's values.

    The service answers 403 if the account does not have this feature, or may not override it.
    """

    blacklist: Domains | None = None
    """Domains that are always blocked: plain or with wildcards, at most 1,000."""
    blocked_tlds: Tlds | None = None
    """Top-level domains that are always blocked: lower case, no leading dot, at most 1,000."""
    failure_policy: Literal["open", "closed"] | None = None
    """Whether a URL is allowed (`open`) or blocked (`closed`) when the classifier cannot be reached."""
    mode: Literal["off", "normal"] | None = None
    """`normal` checks each URL, for 2 credits per URL."""
    risk_score_threshold: Annotated[StrictInt, Field(ge=0, le=100)] | None = None
    """The score, 0 to 100, from which on a URL is blocked; lower is stricter."""
    whitelist: Domains | None = None
    """Domains that are always allowed, before all other rules, at most 1,000."""


class AuditMetadata(Request):
    """Who asked, for the service's audit log."""

    username: str
    """Name of the person or program that asks."""


class Profile(Request):
    """A browser profile that the service keeps."""

    name: str
    """Name of the profile; the same name finds it again."""
    save_changes: StrictBool | None = None
    """Whether cookies and the like of this scrape are saved in the profile."""
